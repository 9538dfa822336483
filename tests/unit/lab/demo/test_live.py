"""The live account knows a record as missing only when the reader has passed its place."""

from tidelog.lab.demo.live import LiveAccount


def test_missing_is_what_the_reader_has_passed() -> None:
    account = LiveAccount()
    for sequence in range(4):
        account.acknowledged(sequence, sequence)
    assert account.missing == 0
    account.received(0, 0)
    account.received(2, 2)
    assert account.missing == 1  # record 1; record 3 may still come
    account.received(1, 3)
    assert (account.missing, account.duplicated) == (
        1,
        0,
    )  # record 3 is acknowledged at 3, where another one is


def test_the_same_offset_again_is_no_second_copy() -> None:
    account = LiveAccount()
    account.received(0, 0)
    account.received(0, 0)
    assert account.duplicated == 0
    account.received(0, 5)
    assert account.duplicated == 1


def test_a_record_may_be_read_before_it_is_acknowledged() -> None:
    account = LiveAccount()
    account.received(0, 0)
    account.acknowledged(0, 0)
    account.received(1, 1)
    assert account.missing == 0


def test_a_record_after_a_later_one_is_out_of_order_once() -> None:
    account = LiveAccount()
    account.received(1, 0)
    account.received(0, 1)
    account.received(0, 1)  # read again
    account.received(2, 2)
    assert (account.disordered, account.duplicated) == (1, 0)
