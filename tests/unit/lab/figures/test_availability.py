"""Times without writes and reads, and whose they are."""

import pytest

from tidelog.lab.figures.availability import availability

from .made_up import WINDOWS, event, read, topic, write


def test_a_wait_begins_with_the_oldest_write_without_an_answer() -> None:
    found = availability(
        topic(
            write("acknowledged", 0, 990),
            # Nothing is sent until 1,200: a pause of the load.
            write("acknowledged", 1, 1700, sent=1200), write("acknowledged", 2, 1701, sent=1300),
            write("acknowledged", 3, 1710),
        ),
        WINDOWS,
    )  # fmt: skip
    assert found.writes_s == pytest.approx(0.5)


def test_failures_have_waited_too_and_a_wait_may_have_no_end() -> None:
    found = availability(
        topic(
            write("acknowledged", 0, 900),
            write("failed", 1, 1800, sent=1100),
            write("failed", 2, 2900, sent=1500),
        ),
        WINDOWS,
    )
    assert found.writes_s == pytest.approx(1.8)


def test_waits_before_the_fault_do_not_count_and_the_worst_partition_does() -> None:
    found = availability(
        topic(
            write("acknowledged", 0, 100), write("acknowledged", 1, 950, sent=105),
            write("acknowledged", 2, 1100, sent=1050), write("acknowledged", 0, 1090, sent=900, partition=1),
        ),
        WINDOWS,
    )  # fmt: skip
    assert found.writes_s == pytest.approx(0.09)  # from the fault on


def test_the_clients_own_back_off() -> None:
    writes = (write("acknowledged", 0, 999), write("acknowledged", 1, 2000, sent=1000))
    plain = (
        event("plain-write", 1000, sent=999, partition=0),
        event("plain-write", 1400, sent=1050, partition=0),
        event("plain-write", 1500, sent=1498, partition=0),
    )
    assert availability(topic(*writes, *plain), WINDOWS).back_off_s == pytest.approx(0.65)
    assert availability(topic(*writes), WINDOWS).back_off_s == 0
    late = event("plain-write", 2100, sent=1010, partition=0)
    assert availability(topic(*writes, late), WINDOWS).back_off_s == pytest.approx(0.01)


def test_of_a_partition_that_is_not_watched_little_is_the_clients_own() -> None:
    writes = (write("acknowledged", 0, 900), write("acknowledged", 1, 6000, sent=1000))
    served = tuple(event("plain-write", ms, sent=ms - 1, partition=3) for ms in range(900, 6100, 50))
    assert availability(topic(*writes, *served), WINDOWS).back_off_s == pytest.approx(2.0)
    assert availability(topic(*writes), WINDOWS).back_off_s == 0
    silent = (
        event("plain-write", 1000, sent=999, partition=3),
        event("plain-write", 5500, sent=1010, partition=3),
    )
    assert availability(topic(*writes, *silent), WINDOWS).back_off_s == pytest.approx(0.51)


def test_reads_wait_for_what_was_acknowledged() -> None:
    found = availability(
        topic(
            write("acknowledged", 0, 900), read("consumed", 0, 910, 0, reader="g"),
            write("acknowledged", 1, 1500), read("consumed", 1, 1800, 1, reader="g"),
        ),
        WINDOWS,
    )  # fmt: skip
    assert found.reads_s == pytest.approx(0.3)  # without writes there is nothing to read


def test_what_a_group_never_read_waits_until_the_end() -> None:
    found = availability(
        topic(
            write("acknowledged", 0, 900), read("consumed", 0, 910, 0, reader="g"),
            write("acknowledged", 1, 1500),
        ),
        WINDOWS,
    )  # fmt: skip
    assert found.reads_s == pytest.approx(1.5)


def test_the_plain_reader_knows_when_nothing_could_be_read() -> None:
    reads = [event("plain-read", at, sent=at - 1, partition=0) for at in range(0, 1100, 50)]
    back = event("plain-read", 2500, sent=1100, partition=0)
    later = [event("plain-read", at, sent=at - 1, partition=0) for at in range(2550, 3000, 50)]
    assert availability(topic(*reads, back, *later), WINDOWS).reads_s == pytest.approx(1.4)


def test_a_plain_client_that_was_not_there_proves_nothing() -> None:
    writes = (write("acknowledged", 0, 999), write("acknowledged", 1, 4000, sent=1000))
    before = event("plain-write", 1000, sent=999, partition=0)
    after = event("plain-write", 4010, sent=4005, partition=0)
    assert availability(topic(*writes, before, after), WINDOWS).back_off_s == pytest.approx(0)
