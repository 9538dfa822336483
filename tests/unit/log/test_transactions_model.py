"""What a log knows of its transactions after anything a broker, a follower or a crash can do to it, against
the list of their batches."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tidelog.log.log import Log
from tidelog.sim.disk import SimulatedDisk, everything
from unit.log.log_model import SMALL, Settings, append, make_batch, open_log, sync
from unit.log.transaction_model import (
    Entry,
    aborted_in,
    encoded,
    history_in,
    stable_offset,
    transactions_of,
    write,
)

pytestmark = pytest.mark.slow

producer_ids = st.integers(0, 3)
kinds = st.sampled_from(["plain", "transactional", "transactional", "commit", "abort"])


class TransactionMachine(RuleBasedStateMachine):
    disk: SimulatedDisk
    log: Log
    settings: Settings

    @initialize(segment_bytes=st.sampled_from([200, 400, 1000, 100_000]))
    def open(self, segment_bytes: int) -> None:
        self.disk = SimulatedDisk()
        self.settings = SMALL.but(segment_bytes=segment_bytes)
        self.log = open_log(self.disk, self.settings)
        self.history: list[Entry] = []
        self.epoch = 0
        self.checkpoint = 0
        self.start_offset = 0
        self.high_watermark = 0
        self.deleted = False

    @rule(sent=st.lists(st.tuples(producer_ids, kinds), min_size=1, max_size=8))
    def lead(self, sent: list[tuple[int, str]]) -> None:
        for producer_id, kind in sent:
            self.history.append(write(self.log, producer_id, kind, 2, leader_epoch=self.epoch))

    @rule(sent=st.lists(st.tuples(producer_ids, kinds), min_size=1, max_size=8), gap=st.integers(0, 3))
    def follow(self, sent: list[tuple[int, str]], gap: int) -> None:
        data = b""
        offset = self.log.end_offset + gap
        for producer_id, kind in sent:
            batch, entry = encoded(offset, producer_id, kind, 2, leader_epoch=self.epoch)
            data += bytes(batch)
            self.history.append(entry)
            offset = entry.last_offset + 1
        self.log.append_batches(memoryview(data), 1000)

    @rule(count=st.integers(1, 5))
    def produce_without_an_id(self, count: int) -> None:
        append(self.log, make_batch(self.log.end_offset, count=count, epoch=self.epoch))

    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        """The high watermark moves; what is below it is never truncated."""
        self.high_watermark = data.draw(st.integers(self.high_watermark, self.log.end_offset))

    @rule()
    def roll(self) -> None:
        self.log.roll(1000)

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        first_offset = max(self.high_watermark, self.log.segments[0].base_offset)
        offset = data.draw(st.integers(first_offset, max(first_offset, self.log.end_offset)))
        self.log.truncate_to(offset)
        self.history = [entry for entry in self.history if entry.last_offset < offset]
        self.high_watermark = min(self.high_watermark, self.log.end_offset)
        self.start_offset = min(self.start_offset, self.log.end_offset)
        self.epoch += 1

    @rule(keep_bytes=st.integers(0, 2000))
    def retain(self, keep_bytes: int) -> None:
        self.log.config = self.settings.but(retention_bytes=keep_bytes)
        self.deleted |= bool(self.log.enforce_retention(1000, self.high_watermark))
        self.log.config = self.settings
        self.start_offset = self.log.start_offset

    @rule()
    def sync(self) -> None:
        sync(self.log)

    @rule()
    def write_checkpoint(self) -> None:
        self.checkpoint = self.log.checkpointed_recovery_point = self.log.recovery_point

    @rule()
    def close_and_open(self) -> None:
        assert self.log.close()
        self.checkpoint = self.log.end_offset
        self._open(clean=True)

    @rule()
    def kill_and_open(self) -> None:
        self.disk.crash(survive=everything, names=everything)
        self._open(clean=False)

    @rule(data=st.data())
    def lose_power(self, data: st.DataObject) -> None:
        def some(path: str, unsynced: int) -> int:
            return data.draw(st.sampled_from([0, unsynced // 2, unsynced]))

        if self.deleted:
            return  # With a lost snapshot goes what only it knew: how transactions in deleted segments began.
        self.disk.crash(survive=some, names=some)
        self._open(clean=False)
        self.history = history_in(self.log)
        self.high_watermark = min(self.high_watermark, self.log.end_offset)
        self.epoch = max(self.epoch, self.log.epochs.latest) + 1

    def _open(self, *, clean: bool) -> None:
        self.log = open_log(
            self.disk, self.settings, clean=clean, recovery_point=self.checkpoint,
            log_start_offset=self.start_offset,
        )  # fmt: skip
        self.start_offset = self.log.start_offset

    @invariant()
    def open_transactions_are_known(self) -> None:
        if hasattr(self, "log"):
            expected = {
                each.producer_id: each.first_offset
                for each in transactions_of(self.history)
                if each.last_offset == -1
            }
            assert self.log.producers.transactions.open == expected

    @invariant()
    def nobody_reads_what_is_uncertain(self) -> None:
        if hasattr(self, "log"):
            expected = max(stable_offset(self.history, self.high_watermark), self.log.start_offset)
            assert self.log.last_stable_offset(self.high_watermark) == expected

    @invariant()
    def aborted_transactions_are_found_from_everywhere(self) -> None:
        if not hasattr(self, "log"):
            return
        first, end = self.log.segments[0].base_offset, self.log.end_offset
        step = max(1, (end - first) // 5)
        for start in range(first, end, step):
            for stop in range(start + 1, end + 1, step):
                found = self.log.aborted_transactions(start, stop)
                assert found == sorted(found, key=lambda each: each[1])
                assert set(found) == aborted_in(self.history, start, stop)


TransactionMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestTransactions = TransactionMachine.TestCase
