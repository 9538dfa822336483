"""Deleted stays deleted: a compacted log against a model over its whole life.

The model is a list of what was written. After every step a reader of committed records must believe what the
list says: the latest committed value of each key, and no key whose tombstone was the last word. The steps are
those that tempt compaction to forget a tombstone too early: several passes with a moving clean offset,
transactions that abort and commit, truncation, a topic made again under its name, retention, restarts.
"""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.log.cleaner import Candidate, Cleaner
from tidelog.log.log import Log
from tidelog.sim.disk import SimulatedDisk, everything
from tidelog.types import TopicPartition
from unit.log.compaction_model import COMPACT, latest
from unit.log.log_model import append, open_log, sync
from unit.log.transaction_model import marker_batch, read_committed, write_key

pytestmark = pytest.mark.slow

NAME = TopicPartition("t", 0)
SETTINGS = COMPACT.but(segment_bytes=1 << 20, min_cleanable_dirty_ratio=0.0)
PASS_MS = 1500  # Between two passes: longer than delete.retention.ms.


class Life:
    """A partition over time, and what was ever written to it."""

    def __init__(self) -> None:
        self.disk = SimulatedDisk()
        self.disk.make_directory("data")
        self.disk.sync_directory("")
        self.cleaner = Cleaner(self.disk)
        self.log = self.open()
        self.now_ms = 10_000
        self.written: list[str] = []  # The word at each offset.
        self.generation = 0
        self.committed_end = 0  # The watermark of the last pass: nothing before it is taken back.

    def open(self) -> Log:
        return open_log(self.disk, SETTINGS, directory="data/t-0")

    def step(self, word: str) -> None:
        producer, _, what = word.rpartition(":")
        if what == "pass":
            self.compact()
        elif what.startswith("cut"):
            self.truncate(max(self.log.end_offset - int(what[3:]), self.committed_end))
        elif what.startswith("repair"):
            self.repair(int(what[6:]))
        elif what.startswith("drop"):
            self.delete_before(int(what[4:]))
        elif what == "again":
            self.make_again()
        elif what == "crash":
            sync(self.log)
            self.disk.crash(survive=everything, names=everything)
            self.log = self.open()
        elif what in ("commit", "abort"):
            append(self.log, marker_batch(self.log.end_offset, int(producer), commits=what == "commit"))
            self.written.append(word)
        else:
            write_key(self.log, int(producer or -1), what[0], None if what[1:] == "-" else what[1:])
            self.written.append(word)

    def compact(self) -> None:
        """Something is always dirty, and each pass comes when the time of earlier tombstones is over."""
        self.now_ms += PASS_MS
        self.step(f"z{self.now_ms}")
        self.log.roll(self.now_ms)
        sync(self.log)
        last_written = self.log.producers.last_written
        candidate = Candidate(NAME, self.log, SETTINGS, self.log.end_offset, last_written)
        chosen = self.cleaner.pick([candidate], self.now_ms, buffer_bytes=1 << 12)
        if chosen is None:
            return
        name, compaction = chosen
        compaction.read_keys()
        while (cleaned := compaction.clean_next()) is not None:
            compaction.swap_in(cleaned, self.now_ms)
        compaction.make_durable()
        self.cleaner.finish(name, compaction)
        self.committed_end = self.log.end_offset

    def truncate(self, end_offset: int) -> None:
        """The end was never committed: other records take its place."""
        self.log.truncate_to(max(end_offset, self.log.start_offset))
        del self.written[self.log.end_offset :]

    def repair(self, back: int) -> None:
        """The end is damaged, and fetched again from a leader that has not compacted it."""
        self.log.truncate_to(max(self.log.end_offset - back, self.log.start_offset))
        lost = self.written[self.log.end_offset :]
        del self.written[self.log.end_offset :]
        for word in lost:
            self.step(word)

    def delete_before(self, count: int) -> None:
        """DeleteRecords, never into an open transaction."""
        stable = self.log.last_stable_offset(self.log.end_offset)
        offset = min(self.log.start_offset + count, stable)
        self.log.advance_start(offset)
        self.log.enforce_retention(self.now_ms, self.log.end_offset)

    def make_again(self) -> None:
        self.generation += 1
        self.log.close()
        self.disk.sync_directory("data/t-0")
        self.disk.rename("data/t-0", f"data/t-0.{self.generation}-delete")
        self.disk.sync_directory("data")
        self.log = self.open()
        self.written.clear()
        self.committed_end = 0

    def believed(self) -> dict[bytes, bytes]:
        return latest(read_committed(self.log, self.log.start_offset, self.log.end_offset))

    def check(self) -> None:
        expected = committed(self.written, self.log.start_offset)
        assert self.believed() == expected, f"after {self.written}"


def committed(words: Sequence[str], start_offset: int) -> dict[bytes, bytes]:
    """What a reader of committed records believes that has read everything from ``start_offset`` on."""
    outcomes: dict[int, str] = {}  # Offset of a record in a transaction -> how that ended.
    waiting: dict[str, list[int]] = {}
    for offset, word in enumerate(words):
        producer, _, what = word.rpartition(":")
        if what in ("commit", "abort"):
            outcomes.update(dict.fromkeys(waiting.pop(producer, []), what))
        elif producer:
            waiting.setdefault(producer, []).append(offset)
    end = min((offsets[0] for offsets in waiting.values()), default=len(words))
    state: dict[bytes, bytes] = {}
    for offset, word in enumerate(words[:end]):
        producer, _, what = word.rpartition(":")
        if offset < start_offset or what in ("commit", "abort") or outcomes.get(offset) == "abort":
            continue
        if what[1:] == "-":
            state.pop(what[:1].encode(), None)
        else:
            state[what[:1].encode()] = what[1:].encode()
    return state


def live(script: Sequence[str]) -> None:
    life = Life()
    for word in script:
        life.step(word)
        life.check()
    for _ in range(3):
        life.compact()
        life.check()


records = st.builds("{}{}".format, st.sampled_from("aab"), st.sampled_from("12--"))
producers = st.sampled_from("778")
ends = st.sampled_from(["commit", "abort"])
steps = st.one_of(
    st.builds("{}".format, records),
    # Most transactions end at once: an open one holds compaction back.
    st.builds("{0}:{1} {0}:{2}".format, producers, records, ends),
    st.builds("{}:{}".format, producers, records | ends),
    st.just("pass"),
    st.just("pass"),
    st.builds("cut{}".format, st.integers(1, 4)),
    st.builds("pass repair{} pass".format, st.integers(1, 6)),
    st.builds("drop{}".format, st.integers(1, 3)),
    st.sampled_from(["again", "crash"]),
)

ABORTED_BEFORE = "a1 7:b1 7:abort pass 7:a- 7:commit pass pass pass"
MADE_AGAIN = "a1 b1 a2 pass again a1 pass a- pass pass"
REPAIRED = "b1 a1 a- pass repair2 pass pass pass"


@pytest.mark.parametrize("script", [ABORTED_BEFORE, MADE_AGAIN, REPAIRED])
def test_a_deleted_key_does_not_come_back(script: str) -> None:
    live(script.split())


@settings(max_examples=500, deadline=None)
@given(st.lists(steps, min_size=5, max_size=30))
def test_readers_believe_what_was_written(script: list[str]) -> None:
    live(" ".join(script).split())
