"""Any sequence of operations, with clean and unclean restarts between them, against a list of batches."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tidelog.errors import OffsetOutOfRange
from tidelog.log.log import Log
from tidelog.protocol import batch as batches
from tidelog.sim.disk import SimulatedDisk, everything
from unit.log.log_model import SMALL, Batch, Settings, append, contents, make_batch, open_log, sync

pytestmark = pytest.mark.slow


class LogMachine(RuleBasedStateMachine):
    disk: SimulatedDisk
    log: Log
    settings: Settings

    @initialize(
        segment_bytes=st.sampled_from([200, 500, 1000, 100_000]),
        index_interval_bytes=st.sampled_from([0, 100, 1000]),
        index_bytes=st.sampled_from([48, 120, 4096]),
        preallocate=st.booleans(),
    )
    def open(
        self, segment_bytes: int, index_interval_bytes: int, index_bytes: int, preallocate: bool
    ) -> None:
        self.disk = SimulatedDisk()
        self.settings = SMALL.but(
            segment_bytes=segment_bytes,
            index_interval_bytes=index_interval_bytes,
            segment_index_bytes=index_bytes,
            preallocate=preallocate,
        )
        self.log = open_log(self.disk, self.settings)
        self.model: list[Batch] = []
        self.start_offset = self.end_offset = 0
        self.epoch = 0
        self.checkpoint = 0
        self.serial = 0

    def _payload(self, size: int) -> bytes:
        self.serial += 1
        return (b"%d." % self.serial * size)[:size]

    @rule(count=st.integers(1, 5), size=st.integers(1, 300), timestamp=st.integers(0, 100))
    def append(self, count: int, size: int, timestamp: int) -> None:
        payload = self._payload(size)
        append(
            self.log, make_batch(self.end_offset, payload, count=count, timestamp=timestamp, epoch=self.epoch)
        )
        self.model.append((self.end_offset, self.end_offset + count - 1, payload))
        self.end_offset += count

    @rule(gaps=st.lists(st.integers(0, 3), min_size=1, max_size=12), cut=st.integers(0, 60))
    def append_as_follower(self, gaps: list[int], cut: int) -> None:
        data = b""
        offset = self.end_offset
        added = []
        for gap in gaps:
            payload = self._payload(30)
            data += bytes(make_batch(offset + gap, payload, count=2, epoch=self.epoch))
            added.append((offset + gap, offset + gap + 1, payload))
            offset += gap + 2
        data += bytes(make_batch(offset))[:cut]
        assert self.log.append_batches(memoryview(data), 1000) == offset
        self.model += added
        self.end_offset = offset

    @rule()
    def next_epoch(self) -> None:
        self.epoch += 1
        self.log.epochs.assign(self.epoch, self.log.end_offset)

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.start_offset, self.end_offset))
        # As a data directory does before: a history of epochs counts only below the checkpoint.
        if self.checkpoint > (end_offset := self.log.end_if_truncated(offset)):
            self.checkpoint = self.log.checkpointed_recovery_point = end_offset
        self.log.truncate_to(offset)
        self.model = [batch for batch in self.model if batch[1] < offset]
        if self.model:
            assert self.log.end_offset in (self.model[-1][1] + 1, self.end_offset)
        assert self.log.end_offset <= self.end_offset
        self.end_offset = self.log.end_offset
        self.start_offset = min(self.start_offset, self.end_offset)

    @rule()
    def roll(self) -> None:
        self.log.roll(1000)

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        self.start_offset = data.draw(st.integers(self.start_offset, self.end_offset))
        self.log.advance_start(self.start_offset)
        self.model = [batch for batch in self.model if batch[1] >= self.start_offset]

    @rule(keep_bytes=st.integers(0, 2000))
    def retain(self, keep_bytes: int) -> None:
        self.log.config = self.settings.but(retention_bytes=keep_bytes)
        self.log.enforce_retention(1000, self.log.end_offset)
        self.log.config = self.settings
        assert self.log.start_offset >= self.start_offset
        self.start_offset = self.log.start_offset
        self.model = [batch for batch in self.model if batch[1] >= self.start_offset]

    @rule()
    def sync(self) -> None:
        sync(self.log)
        assert self.log.synced_end_offset == self.end_offset

    @rule()
    def write_checkpoint(self) -> None:
        self.checkpoint = self.log.checkpointed_recovery_point = self.log.recovery_point

    @rule()
    def close_and_open(self) -> None:
        assert self.log.close()
        self.write_checkpoint()  # As a data directory does before it calls the stop a clean one.
        self._reopen(clean=True)

    @rule()
    def kill_and_open(self) -> None:
        self.disk.crash(survive=everything, names=everything)
        self._reopen(clean=False)

    def _reopen(self, *, clean: bool) -> None:
        self.log = open_log(self.disk, self.settings, clean=clean, recovery_point=self.checkpoint)
        # An offset that no batch reaches is forgotten: the end is behind the last batch, or at the start.
        last_end = self.model[-1][1] + 1 if self.model else self.start_offset
        assert last_end <= self.log.end_offset <= self.end_offset
        self.end_offset = self.log.end_offset

    @invariant()
    def the_log_is_the_list(self) -> None:
        if not hasattr(self, "log"):
            return
        assert (self.log.start_offset, self.log.end_offset) == (self.start_offset, self.end_offset)
        assert contents(self.log) == self.model
        assert self.log.synced_end_offset <= self.log.end_offset
        assert self.log.size_bytes == sum(segment.size for segment in self.log.segments)

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def read_anywhere(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.start_offset, self.end_offset - 1))
        end_offset = data.draw(st.integers(offset, self.end_offset))
        max_bytes = data.draw(st.integers(0, 500))
        region = self.log.read(offset, max_bytes, end_offset, at_least_one_batch=True)
        expected = [batch for batch in self.model if batch[1] >= offset and batch[1] < end_offset]
        if not expected:
            assert region.size == 0
            return
        found = region.read()
        header = batches.parse_header(found)
        assert (header.base_offset, header.last_offset) == expected[0][:2]
        assert header.size <= len(found) <= max(max_bytes, header.size)

    @rule(beyond=st.integers(1, 100))
    def read_outside(self, beyond: int) -> None:
        for offset in (self.start_offset - beyond, self.end_offset + beyond):
            try:
                self.log.read(offset, 100, self.end_offset, at_least_one_batch=True)
            except OffsetOutOfRange:
                continue
            raise AssertionError(f"offset {offset} was served")


LogMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestLog = LogMachine.TestCase
