"""A compacted log on random walks, against the model of :mod:`test_compaction_history`.

With all that makes it harder: segments and memory for keys so small that a pass has several segments or ends
early, a watermark behind the end of the log, steps in the middle of a pass, batches of several records,
retention, power failures that keep some of what was not synced, and recovery from any earlier recovery point.

``TIDELOG_TEST_WALKS`` is how many walks are walked (many need ``--timeout 0``); a failing one is made shorter
and printed.
"""

import os
from itertools import chain
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tidelog.errors import TidelogError
from tidelog.log.cleaner import Candidate
from tidelog.log.compaction import Compaction
from tidelog.log.log import Log
from tidelog.sim.disk import everything, nothing
from unit.log.compaction_model import COMPACT, all_batches, write
from unit.log.log_model import open_log, sync
from unit.log.test_compaction_history import NAME, PASS_MS, Life, committed, ends, producers, records

WALKS = int(os.environ.get("TIDELOG_TEST_WALKS", "60"))
DELETED = "z-"  # In place of what was before the start of the log.
ENDS_A_PASS = ("power", "crash", "again")  # The log is another one then.


class Walk(Life):
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.settings = COMPACT.but(
            segment_bytes=self.random.choice([150, 300, 600, 1 << 20]), min_cleanable_dirty_ratio=0.0
        )
        self.buffer_bytes = self.random.choice([64, 200, 1 << 12])
        self.recovery_point = 0
        super().__init__()

    def open(self) -> Log:
        return open_log(
            self.disk, self.settings, directory="data/t-0", recovery_point=self.recovery_point, now_ms=10_000
        )

    def step(self, word: str) -> None:
        if word.startswith("part"):
            self.compact_partly(word.removeprefix("part"))
        elif word.startswith("many"):
            pairs = word.removeprefix("many").split("+")
            write(self.log, *((pair[0], None if pair[1] == "-" else pair[1]) for pair in pairs))
            self.written += pairs
        elif word in ("power", "crash"):
            self.restart(loses_power=word == "power")
        elif word == "retain":
            self.retain()
        else:
            super().step(word)

    # --- compaction ---------------------------------------------------------------------------------------

    def compact_partly(self, how: str) -> None:
        """``wait_ms,behind,swapped,word``: a pass of what is that far behind the end; after so many segments,
        something else happens.
        """
        wait_ms, behind, swapped, word = how.split(",")
        self.now_ms += int(wait_ms)
        if self.random.random() < 0.7:
            self.log.roll(self.now_ms)
        sync(self.log)
        self.committed_end = self.watermark(self.log.end_offset - int(behind))
        candidate = Candidate(
            NAME, self.log, self.settings, self.committed_end,
            self.log.producers.last_written,
        )  # fmt: skip
        chosen = self.cleaner.pick([candidate], self.now_ms, buffer_bytes=self.buffer_bytes)
        if chosen is None:
            return
        try:
            self.go_on(chosen[1], int(swapped), word)
        except TidelogError as error:
            self.cleaner.give_up(NAME, chosen[1], error)

    def go_on(self, compaction: Compaction, swapped: int, word: str) -> None:
        compaction.read_keys()
        count = 0
        while True:
            if count == swapped and word != "none":
                self.step(word)
                if word in ENDS_A_PASS:
                    return
            cleaned = compaction.clean_next()
            if cleaned is None:
                break
            count += 1
            compaction.swap_in(cleaned, self.now_ms)
        compaction.make_durable()
        self.cleaner.finish(NAME, compaction)

    def watermark(self, offset: int) -> int:
        """Rising, and never inside a batch."""
        lowest = max(self.committed_end, offset, self.log.start_offset)
        ends_of_batches = (header.next_offset for header, _ in all_batches(self.log))
        found = chain([self.log.start_offset], ends_of_batches)
        return min((each for each in found if each >= lowest), default=self.log.end_offset)

    # --- shortening ---------------------------------------------------------------------------------------

    def truncate(self, end_offset: int) -> None:
        super().truncate(end_offset)
        sync(self.log)

    def repair(self, back: int) -> None:
        super().repair(back)
        sync(self.log)

    def delete_before(self, count: int) -> None:
        sync(self.log)
        offset = min(self.log.start_offset + count, self.log.end_offset)
        self.committed_end = self.watermark(offset)
        self.log.advance_start(min(offset, self.log.last_stable_offset(self.committed_end)))
        self.log.enforce_retention(self.now_ms, self.committed_end)

    def retain(self) -> None:
        self.log.config = self.settings.but(
            cleanup_policy=frozenset({"compact", "delete"}), retention_bytes=self.random.choice([0, 300, 800])
        )
        self.log.enforce_retention(self.now_ms, self.committed_end)
        self.log.config = self.settings

    def make_again(self) -> None:
        self.recovery_point = 0
        super().make_again()

    # --- restarts and readers -----------------------------------------------------------------------------

    def restart(self, *, loses_power: bool) -> None:
        """From any recovery point that a checkpoint may have had."""
        if not loses_power:
            sync(self.log)
        self.recovery_point = self.random.choice([0, self.random.randrange(self.log.recovery_point + 1)])
        if loses_power:
            kept = self.random.choice([nothing, everything, lambda _, size: size // 2])
            self.disk.crash(survive=kept, names=self.random.choice([nothing, everything]))
        else:
            self.disk.crash(survive=everything, names=everything)
        self.log = self.open()
        assert self.log.end_offset >= self.committed_end, "a committed record is lost"
        del self.written[self.log.end_offset :]

    def believed(self) -> dict[bytes, bytes]:
        """What readers at the end of the log will see once all of it is committed. The log must not take it
        for committed yet: it forgets the markers below a watermark that it was told.
        """
        transactions = self.log.producers.transactions
        before = dict(transactions.open), list(transactions.ended)
        try:
            return super().believed()
        finally:
            transactions.restore(*before)

    def check(self) -> None:
        assert self.log.end_offset == len(self.written)
        start = self.log.start_offset
        expected = committed(self.written, start)
        # Retention removes records of open transactions, too. A producer snapshot may remember such a
        # transaction, and may be lost in a power failure: nothing of it is left then, or only its later part.
        forgotten = committed([DELETED] * start + self.written[start:], start)
        assert self.believed() in (expected, forgotten), f"after {self.written}, expected {expected}"


inside = st.one_of(
    st.just("none"),
    st.sampled_from(["cut2", "drop2", "retain", *ENDS_A_PASS]),
    st.builds("{}:{}".format, producers, records | ends),
    records,
)
partly = st.builds(
    "part{},{},{},{}".format,
    st.sampled_from([1, 400, PASS_MS, PASS_MS]),
    st.sampled_from([0, 0, 0, 2, 5]),
    st.integers(0, 2),
    inside,
)
steps = st.one_of(
    records,
    st.lists(records, min_size=1, max_size=4).map(lambda pairs: "many" + "+".join(pairs)),
    st.builds("{0}:{1} {0}:{2}".format, producers, records, ends),
    st.builds("{}:{}".format, producers, records | ends),
    partly,
    partly,
    partly,
    st.builds("cut{}".format, st.integers(1, 4)),
    st.builds("pass repair{} pass".format, st.integers(1, 6)),
    st.builds("drop{}".format, st.integers(1, 3)),
    st.sampled_from(["again", "crash", "power", "retain"]),
)


def walk(seed: int, words: list[str]) -> None:
    life = Walk(seed)
    for word in words:
        life.step(word)
        life.check()
    for _ in range(3):
        life.compact()
        life.check()


OPEN_FOR_EVER = "7:c- part1,0,0,none 8:abort 7:commit part400,0,0,drop2 pass pass power"


@pytest.mark.parametrize("seed", range(8))
def test_a_transaction_that_has_ended_is_not_open_again(seed: int) -> None:
    walk(seed, OPEN_FOR_EVER.split())


@pytest.mark.slow
@settings(max_examples=WALKS, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 1 << 32), st.lists(steps, min_size=20, max_size=50))
def test_readers_believe_what_was_written(seed: int, script: list[str]) -> None:
    walk(seed, " ".join(script).split())
