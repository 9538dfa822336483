"""Compaction of logs with transactions: one rule per test, and all at random against what readers see."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.log.log import Log
from tidelog.log.producers import LastWritten
from tidelog.sim.disk import SimulatedDisk, everything
from unit.log.compaction_model import COMPACT, all_batches, all_records, compact, latest, write_each
from unit.log.log_model import append, open_log
from unit.log.transaction_model import marker_batch, read_committed, write_key

ONE = COMPACT.but(segment_bytes=1 << 20)  # Segments end where a test says so.
LATER_MS = 1 << 40


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


@pytest.fixture
def log(disk: SimulatedDisk) -> Log:
    return open_log(disk, ONE)


def play(log: Log, text: str) -> None:
    """``"7:a1 7:commit b2 roll"``: a record of producer 7's transaction, its end, a record outside of any."""
    for word in text.split():
        producer, _, what = word.rpartition(":")
        if what == "roll":
            log.roll(1000)
        elif what in ("commit", "abort"):
            append(log, marker_batch(log.end_offset, int(producer), commits=what == "commit"))
        else:
            write_key(log, int(producer or -1), what[0], None if what[1:] == "-" else what[1:])


def offsets(log: Log) -> list[int]:
    """Of all batches that still hold a record, markers included."""
    return [header.base_offset for header, records in all_batches(log) if records]


def test_committed_records_count(disk: SimulatedDisk, log: Log) -> None:
    play(log, "a1 7:a2 7:commit b1 roll")
    compact(disk, log, ONE)
    assert offsets(log) == [1, 2, 3]


def test_aborted_records_hide_nothing_and_go(disk: SimulatedDisk, log: Log) -> None:
    play(log, "a1 7:a2 7:abort b1 roll")
    compact(disk, log, ONE)
    assert offsets(log) == [0, 2, 3]
    assert latest(read_committed(log, 0, log.end_offset)) == {b"a": b"1", b"b": b"1"}


def test_an_open_transaction_holds_compaction_back(disk: SimulatedDisk, log: Log) -> None:
    play(log, "a1 a2 roll 7:a3 roll a4 roll")
    compact(disk, log, ONE)
    assert offsets(log) == [1, 2, 3]
    play(log, "7:commit roll")
    compact(disk, log, ONE, clean_offset=2)
    assert offsets(log) == [3, 4]


@pytest.mark.parametrize("end", ["commit", "abort"])
def test_a_marker_goes_some_time_after_its_last_record(disk: SimulatedDisk, log: Log, end: str) -> None:
    play(log, f"7:a1 7:{end} a2 roll")
    compact(disk, log, ONE, now_ms=10_000)
    assert offsets(log) == [1, 2], "the records go, their marker stays for readers who have seen them"
    compact(disk, log, ONE, now_ms=20_000)
    assert offsets(log) == [1, 2], "it ends nothing any more: its time begins to run"
    assert all_batches(log)[-2][0].delete_horizon_ms == 20_000 + ONE.delete_retention_ms
    compact(disk, log, ONE, now_ms=20_000 + ONE.delete_retention_ms - 1)
    assert offsets(log) == [1, 2]
    compact(disk, log, ONE, now_ms=20_000 + ONE.delete_retention_ms)
    assert offsets(log) == [2]


def test_a_marker_stays_as_long_as_one_record_of_its_transaction(disk: SimulatedDisk, log: Log) -> None:
    play(log, "7:a1 7:b1 7:commit a2 roll")
    for now_ms in (10_000, 20_000, LATER_MS):
        compact(disk, log, ONE, now_ms=now_ms)
    assert offsets(log) == [1, 2, 3]


@pytest.mark.parametrize("end", ["commit", "abort"])
@pytest.mark.parametrize("lost", ["newest recovery point", "end of the log"])
def test_a_marker_stays_while_its_transaction_is_open_in_a_snapshot(
    disk: SimulatedDisk, log: Log, end: str, lost: str
) -> None:
    """The snapshot is where the second segment begins, which is too large to be merged with the first."""
    small = ONE.but(segment_bytes=100)
    play(log, f"7:a1 b1 roll 8:abort 7:{end} 9:a2 b2 9:commit roll c1 c2 c3")
    for now_ms in (10_000, 20_000, LATER_MS):
        compact(disk, log, small, now_ms=now_ms)
    if lost == "newest recovery point":
        disk.crash(survive=everything, names=everything)
        log = open_log(disk, small, recovery_point=4)
    else:
        log.truncate_to(4)  # As a repair does: the rest is fetched again.
        play(log, "9:a2 b2 9:commit")
    assert log.producers.transactions.open == {}
    assert log.last_stable_offset(log.end_offset) == log.end_offset


def test_a_marker_goes_after_the_snapshot_in_which_its_transaction_is_open(
    disk: SimulatedDisk, log: Log
) -> None:
    play(log, "7:a1 b1 roll 7:commit a2 b2 roll")
    for now_ms in (10_000, 20_000):
        compact(disk, log, ONE, now_ms=now_ms)
        assert offsets(log) == [2, 3, 4]
        assert log.snapshot_offsets == (5,), "the segments were merged, and the snapshot between them is gone"
    compact(disk, log, ONE, now_ms=LATER_MS)
    assert offsets(log) == [3, 4]


def test_a_snapshot_keeps_no_marker_of_a_later_transaction(disk: SimulatedDisk, log: Log) -> None:
    small = ONE.but(segment_bytes=100)
    play(log, "7:b0 a1 roll b1 7:commit 7:b2 7:commit b3 a2 roll c1")
    for now_ms in (10_000, 20_000, LATER_MS):
        compact(disk, log, small, now_ms=now_ms)
    assert offsets(log) == [3, 6, 7, 8]


def test_a_tombstone_goes_though_transactions_lie_before_it(disk: SimulatedDisk, log: Log) -> None:
    play(log, "7:a1 7:commit a- b1 roll")
    for now_ms in (10_000, 20_000, 30_000, LATER_MS):
        compact(disk, log, ONE, now_ms=now_ms)
    assert offsets(log) == [3]


def test_an_aborted_tombstone_takes_nothing_with_it(disk: SimulatedDisk, log: Log) -> None:
    play(log, "a1 7:a- 7:abort b1 roll")
    for now_ms in (10_000, LATER_MS, 2 * LATER_MS):
        compact(disk, log, ONE, now_ms=now_ms)
    assert latest(all_records(log))[b"a"] == b"1"


def test_the_index_of_the_cleaned_segment_knows_what_is_left(disk: SimulatedDisk, log: Log) -> None:
    play(log, "7:a1 7:abort 8:a2 8:abort c1 roll 7:b1 7:abort c2 roll")
    compact(disk, log, ONE)
    assert [each.last_offset for each in log.aborted(0, 100)] == [1, 3, 6]
    compact(disk, log, ONE, now_ms=20_000)
    assert log.aborted(0, 100) == [], "nothing is left that a reader would have to pass over"


def test_what_an_aborted_producer_sent_last_leaves_a_trace_and_its_marker(
    disk: SimulatedDisk, log: Log
) -> None:
    play(log, "7:a1 7:abort b1 roll")
    last = {7: LastWritten(0, 0)}
    for now_ms in (10_000, 20_000, LATER_MS):
        compact(disk, log, ONE, now_ms=now_ms, producers=last)
    found = [(header.base_offset, header.count) for header, _ in all_batches(log)]
    assert found == [(0, 0), (1, 1), (2, 1)]
    disk.crash(survive=everything, names=everything)
    log = open_log(disk, ONE)
    assert log.producers.transactions.open == {}
    assert log.producers.get(7) is not None


def test_a_marker_that_is_all_that_is_known_of_a_producer_leaves_a_trace(
    disk: SimulatedDisk, log: Log
) -> None:
    play(log, "7:abort 7:abort b1 roll")
    for now_ms in (10_000, 20_000, LATER_MS):
        compact(disk, log, ONE, now_ms=now_ms, producers={7: LastWritten(-1, 0)})
    found = [(header.base_offset, header.count) for header, _ in all_batches(log)]
    assert found == [(0, 0), (1, 0), (2, 1)]


def test_plain_records_around_transactions_are_compacted_as_ever(disk: SimulatedDisk, log: Log) -> None:
    write_each(log, "a1 b1")
    play(log, "7:c1 7:abort")
    write_each(log, "a2 c2 roll")
    compact(disk, log, ONE)
    assert latest(read_committed(log, 0, log.end_offset)) == {b"a": b"2", b"b": b"1", b"c": b"2"}


# -- at random ---------------------------------------------------------------------

words = st.one_of(
    st.builds("{}:{}{}".format, st.sampled_from("789"), st.sampled_from("abcd"), st.sampled_from("123-")),
    st.builds("{}{}".format, st.sampled_from("abcd"), st.sampled_from("123-")),
    st.builds("{}:{}".format, st.sampled_from("789"), st.sampled_from(["commit", "abort"])),
    st.just("roll"),
)


def committed(text: Sequence[str]) -> dict[bytes, bytes]:
    """What readers of committed records believe at the end, worked out from the words alone."""
    state: dict[bytes, bytes] = {}
    outcomes: dict[int, str] = {}  # Number of a word -> how its transaction ended.
    waiting: dict[str, list[int]] = {}
    for number, word in enumerate(text):
        producer, _, what = word.rpartition(":")
        if what in ("commit", "abort"):
            for each in waiting.pop(producer, []):
                outcomes[each] = what
        elif producer:
            waiting.setdefault(producer, []).append(number)
    first_open = min((numbers[0] for numbers in waiting.values()), default=len(text))
    for number, word in enumerate(text[:first_open]):
        producer, _, what = word.rpartition(":")
        if what in ("roll", "commit", "abort") or (producer and outcomes[number] == "abort"):
            continue
        if what[1:] == "-":
            state.pop(what[:1].encode(), None)
        else:
            state[what[:1].encode()] = what[1:].encode()
    return state


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.lists(st.lists(words, max_size=20), min_size=1, max_size=4), st.booleans())
def test_readers_of_committed_records_see_the_same_whatever_was_compacted(
    rounds: list[list[str]], crash: bool
) -> None:
    disk = SimulatedDisk()
    log = open_log(disk, COMPACT)
    played: list[str] = []
    now_ms, clean_offset = 10_000, 0
    for texts in rounds:
        play(log, " ".join(texts))
        played += texts
        now_ms += 1500
        done = compact(
            disk,
            log,
            COMPACT,
            now_ms=now_ms,
            clean_offset=clean_offset,
            producers=log.producers.last_written(log.end_offset),
        )
        clean_offset = done.end_offset
        expected = committed(played)
        assert latest(read_committed(log, 0, log.end_offset)) == expected
        if crash:
            disk.crash(survive=everything, names=everything)
            before = log.producers.transactions.open
            log = open_log(disk, COMPACT)
            assert log.producers.transactions.open == before
            assert latest(read_committed(log, 0, log.end_offset)) == expected
