"""What is checked about clients can be broken, and is then noticed: one small history for each promise."""

import pytest

from tidelog.sim.checkers.batches import Entry
from tidelog.sim.checkers.history import PartitionHistory, Write
from tidelog.sim.checkers.violation import Violation

PRODUCER = 1
EPOCH = 3


def history(*, acks: int = -1, idempotent: bool = True, values: int = 4) -> PartitionHistory:
    found = PartitionHistory("t-0")
    for number in range(1, values + 1):
        found.sent(value(number), Write(PRODUCER, number, acks, idempotent))
    return found


def value(number: int) -> bytes:
    return b"%d" % number


def log(*numbers: int) -> list[Entry]:
    return [Entry(offset, EPOCH, value(number)) for offset, number in enumerate(numbers)]


def test_what_was_told_and_read_and_is_there_is_fine() -> None:
    found = history()
    session = found.begin(reader=9, offset=0)
    for entry in log(1, 2):
        found.told(entry.value, entry.offset, EPOCH)
        found.read(session, entry)
    found.check(log(1, 2, 3), start_offset=0, leader_epoch=EPOCH)


def test_an_acknowledged_record_that_is_gone_is_a_lost_write() -> None:
    found = history()
    found.told(value(1), 0, EPOCH)
    with pytest.raises(Violation, match="lost write"):
        found.check([], 0, EPOCH + 1)


def test_a_record_that_was_read_and_is_gone_is_a_lost_write() -> None:
    found = history(acks=0)
    found.read(found.begin(9, 0), log(1)[0])
    with pytest.raises(Violation, match="lost write"):
        found.check([], 0, EPOCH + 1)


def test_an_ok_of_the_leader_alone_holds_until_another_leader_comes() -> None:
    found = history(acks=1)
    found.told(value(1), 0, EPOCH)
    found.check([], 0, EPOCH + 1)
    with pytest.raises(Violation, match="no leader came after that"):
        found.check([], 0, EPOCH)


def test_one_offset_with_two_values_is_inconsistent() -> None:
    found = history()
    found.told(value(1), 0, EPOCH)
    with pytest.raises(Violation, match="inconsistent offset"):
        found.told(value(2), 0, EPOCH)


def test_an_idempotent_record_that_is_there_twice_is_a_duplicate() -> None:
    with pytest.raises(Violation, match="duplicate"):
        history().check(log(1, 1), 0, EPOCH)
    history(idempotent=False).check(log(1, 1), 0, EPOCH)


def test_idempotent_records_out_of_order_are_reordered() -> None:
    with pytest.raises(Violation, match="reordered"):
        history().check(log(2, 1), 0, EPOCH)


def test_offsets_that_were_told_come_in_the_order_of_sending() -> None:
    found = history(idempotent=False)
    found.told(value(1), 1, EPOCH)
    found.told(value(2), 0, EPOCH)
    with pytest.raises(Violation, match="reordered"):
        found.check(log(2, 1), 0, EPOCH)


def test_what_nobody_wrote_is_invented() -> None:
    found = history(values=1)
    with pytest.raises(Violation, match="invented"):
        found.read(found.begin(9, 0), Entry(0, EPOCH, b"?"))
    with pytest.raises(Violation, match="invented"):
        found.check(log(7), 0, EPOCH)


def test_a_reader_that_leaves_something_out_has_skipped_it() -> None:
    found = history()
    session = found.begin(9, 0)
    found.read(session, log(1, 2, 3)[0])
    found.read(session, log(1, 2, 3)[2])
    with pytest.raises(Violation, match="skipped poll"):
        found.check(log(1, 2, 3), 0, EPOCH)


def test_what_lies_before_a_reader_s_place_is_not_sent_again() -> None:
    found = history()
    with pytest.raises(Violation, match="nonmonotonic poll"):
        found.went_back(found.begin(9, 5), offset=2, position=5)


def test_a_place_that_was_committed_is_not_out_of_range() -> None:
    found = history()
    with pytest.raises(Violation, match="out of range"):
        found.out_of_range(found.begin(9, 0), 3)


def test_what_was_given_up_may_be_gone_and_replaced() -> None:
    found = history()
    session = found.begin(9, 0)
    for entry in log(1, 2):
        found.told(entry.value, entry.offset, EPOCH)
        found.read(session, entry)
    found.forgive(floor=1, leader_epoch=EPOCH, now_ms=1.0)
    found.out_of_range(session, 2)
    found.read(session, Entry(1, EPOCH + 1, value(3)))
    found.check([*log(1), Entry(1, EPOCH + 1, value(3))], 0, EPOCH + 1)
    with pytest.raises(Violation, match="lost write"):
        found.check([], 0, EPOCH + 1)


def test_a_reader_that_has_passed_an_end_of_a_transaction_may_miss_the_record_in_its_place() -> None:
    """It was read last, and was given up."""
    found = history()
    session = found.begin(9, 0)
    found.read(session, log(1)[0])
    found.passed(session, 2)
    found.forgive(floor=1, leader_epoch=EPOCH, now_ms=1.0)
    replaced = [Entry(1, EPOCH + 1, value(2)), Entry(2, EPOCH + 1, value(3))]
    found.read(session, replaced[1])
    found.check([*log(1), *replaced], 0, EPOCH + 1)


def test_a_reader_that_has_passed_an_end_of_a_transaction_has_read_what_lies_before() -> None:
    found = history()
    session = found.begin(9, 0)
    found.read(session, log(1)[0])
    found.passed(session, 3)
    with pytest.raises(Violation, match=r"skipped poll.*\[1\]"):
        found.check(log(1, 2), 0, EPOCH)


def test_given_up_records_may_haunt_a_follower_s_log() -> None:
    found = history()
    assert not found.is_ghost(log(1)[0])
    found.forgive(floor=0, leader_epoch=EPOCH, now_ms=1.0)
    assert found.is_ghost(log(1)[0])
    assert not found.is_ghost(Entry(0, EPOCH + 1, value(1)))


def test_who_has_not_agreed_since_records_were_given_up_may_go_back_to_where_they_began() -> None:
    found = history()
    found.forgive(floor=1, leader_epoch=EPOCH, now_ms=1.0)
    found.told_watermark(9, "process", 1, 3, 3, EPOCH)
    found.told_watermark(9, "process", 1, 1, 1, EPOCH + 1)
    found.told_watermark(9, "process", 1, 3, 3, EPOCH + 1)
    with pytest.raises(Violation, match="and then of"):
        found.told_watermark(9, "process", 1, 2, 2, EPOCH + 1)
