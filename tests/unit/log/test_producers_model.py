"""What a log knows of its producers after anything a broker, a follower or a crash can do to it, against the
list of their batches.

As long as no power fails, the log knows exactly what the list says. A power failure may lose snapshots, and
with them what only they knew: producers whose records are deleted, and batches beyond a producer's last that
lie in deleted segments. Anything else that differs is a defect: above all, knowing of a batch that is not in
the log.
"""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tidelog.errors import TidelogError
from tidelog.log.log import Log
from tidelog.sim.disk import SimulatedDisk, everything
from unit.log.log_model import SMALL, Settings, append, make_batch, open_log, sync
from unit.log.producer_model import Sent, encoded, expected_of, header_of, history_in, judge, known_to, write

pytestmark = pytest.mark.slow

producer_ids = st.integers(0, 3)


class ProducerMachine(RuleBasedStateMachine):
    disk: SimulatedDisk
    log: Log
    settings: Settings

    @initialize(segment_bytes=st.sampled_from([200, 400, 1000, 100_000]))
    def open(self, segment_bytes: int) -> None:
        self.disk = SimulatedDisk()
        self.settings = SMALL.but(segment_bytes=segment_bytes)
        self.log = open_log(self.disk, self.settings)
        self.history: list[Sent] = []
        self.epoch = 0
        self.checkpoint = 0
        self.start_offset = 0
        self.lost_power = False

    def _last(self, producer_id: int) -> Sent | None:
        return next((sent for sent in reversed(self.history) if sent.producer_id == producer_id), None)

    def _following(self, producer_id: int, count: int) -> Sent:
        last = self._last(producer_id)
        if last is None:
            return Sent(producer_id, 0, 0, count)
        return Sent(producer_id, last.epoch, last.next_sequence, count)

    def _write(self, sent: Sent) -> None:
        self.history.append(write(self.log, sent, epoch=self.epoch))

    @rule(producer_id=producer_ids, counts=st.lists(st.integers(1, 4), min_size=1, max_size=8))
    def produce(self, producer_id: int, counts: list[int]) -> None:
        for count in counts:
            sent = self._following(producer_id, count)
            assert self.log.producers.check(header_of(sent), 1000) is None
            self._write(sent)

    @rule(producer_id=producer_ids, back=st.integers(1, 7))
    def send_again(self, producer_id: int, back: int) -> None:
        own = [sent for sent in self.history if sent.producer_id == producer_id]
        if len(own) < back:
            return
        wanted = judge(self.history, own[-back])
        try:
            original = self.log.producers.check(header_of(own[-back]), 1000)
        except TidelogError as refusal:
            assert refusal.code == wanted or (self.lost_power and back > 1)
            return
        # Never None: nothing that is known is written twice.
        assert original is not None
        assert original.base_offset == wanted

    @rule(producer_id=producer_ids)
    def begin_an_epoch(self, producer_id: int) -> None:
        last = self._last(producer_id)
        if last is not None:
            self._write(Sent(producer_id, last.epoch + 1, 0, 2))

    @rule(producers=st.lists(producer_ids, min_size=1, max_size=8), gap=st.integers(0, 3))
    def copy_as_follower(self, producers: list[int], gap: int) -> None:
        data = b""
        offset = self.log.end_offset + gap
        for producer_id in producers:
            sent = self._following(producer_id, 2)._replace(base_offset=offset)
            data += bytes(encoded(sent, epoch=self.epoch))
            self.history.append(sent)
            offset += 2
        self.log.append_batches(memoryview(data), 1000)

    @rule(count=st.integers(1, 5))
    def produce_without_an_id(self, count: int) -> None:
        append(self.log, make_batch(self.log.end_offset, count=count, epoch=self.epoch))

    @rule()
    def roll(self) -> None:
        self.log.roll(1000)

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        first_offset = self.log.segments[0].base_offset
        offset = data.draw(st.integers(first_offset, self.log.end_offset))
        self.log.truncate_to(offset)
        self.history = [sent for sent in self.history if sent.last_offset < offset]
        self.start_offset = min(self.start_offset, self.log.end_offset)
        self.epoch += 1

    @rule(beyond=st.integers(0, 50))
    def restart(self, beyond: int) -> None:
        self.start_offset = self.log.end_offset + beyond
        self.log.restart_at(self.start_offset)
        self.history.clear()

    @rule(keep_bytes=st.integers(0, 2000))
    def retain(self, keep_bytes: int) -> None:
        self.log.config = self.settings.but(retention_bytes=keep_bytes)
        self.log.enforce_retention(1000, self.log.end_offset)
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
        self.checkpoint = self.log.end_offset  # As a data directory does when it closes.
        self._open(clean=True)

    @rule()
    def kill_and_open(self) -> None:
        self.disk.crash(survive=everything, names=everything)
        self._open(clean=False)

    @rule(data=st.data())
    def lose_power(self, data: st.DataObject) -> None:
        def some(path: str, unsynced: int) -> int:
            return data.draw(st.sampled_from([0, unsynced // 2, unsynced]))

        self.disk.crash(survive=some, names=some)
        self._open(clean=False)
        self.lost_power = True
        first_offset = self.log.segments[0].base_offset
        deleted = [sent for sent in self.history if sent.last_offset < first_offset]
        self.history = deleted + history_in(self.log)
        self.epoch = max(self.epoch, self.log.epochs.latest) + 1

    def _open(self, *, clean: bool) -> None:
        self.log = open_log(
            self.disk, self.settings, clean=clean, recovery_point=self.checkpoint,
            log_start_offset=self.start_offset,
        )  # fmt: skip
        self.start_offset = self.log.start_offset

    @invariant()
    def the_log_knows_its_producers(self) -> None:
        if not hasattr(self, "log"):
            return
        known, expected = known_to(self.log.producers), expected_of(self.history)
        if not self.lost_power:
            assert known == expected
            return
        first_offset = self.log.segments[0].base_offset
        for producer_id in expected.keys() - known.keys():
            assert expected[producer_id][-1].last_offset < first_offset
            self.history = [sent for sent in self.history if sent.producer_id != producer_id]
        for producer_id, batches in known.items():
            assert batches
            assert batches == expected[producer_id][-len(batches) :]


ProducerMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestProducers = ProducerMachine.TestCase
