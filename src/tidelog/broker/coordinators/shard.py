"""One partition of an internal topic on its leader: a state machine and the log that it is built from.

============  ==========================================  =================================
state         requests                                    ends when
============  ==========================================  =================================
loading       COORDINATOR_LOAD_IN_PROGRESS                the log is replayed to its end and
                                                          that end is committed
active        served                                      leadership or an append is lost
gone          NOT_COORDINATOR                             never; a new shard takes its place
============  ==========================================  =================================

Loading reads to the log end offset, not to the high watermark, because a leader will commit everything in its
log. Requests are served only after all of it is committed. So no response depends on a record that a later
leader may not have.
"""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Generic, Protocol, TypeVar

from tidelog.broker.coordinators.failures import coordinator_error
from tidelog.broker.future import Future
from tidelog.broker.partitions.partition import ACKS_ALL, Partition
from tidelog.errors import ErrorCode, TidelogError
from tidelog.invariant import invariant
from tidelog.log.verification import DamagedSegment
from tidelog.protocol import batch as batches
from tidelog.protocol.batch import BatchHeader
from tidelog.protocol.produce import VERSIONS
from tidelog.protocol.records import ControlType, Record, control_type, decode_batch, encode_batch
from tidelog.services import Services, Timer
from tidelog.shard_effects import KeyValue

logger = logging.getLogger(__name__)

SLICE_BYTES = 32 << 10  # replayed in one step: a few milliseconds of decoding
BATCH_BYTES = 16 << 10  # of several appends in one batch; a single append may be larger
COMMIT_POLL_MS = 20.0
LOAD_RETRY_MS = 1000.0
COMMIT_TIMEOUT_MS = 10_000  # well below the request timeout of clients

Done = Callable[[ErrorCode], None]


class ShardMachine(Protocol):
    """The state that is built from the records of one partition."""

    def replay(self, record: Record, batch: BatchHeader) -> None:
        """Apply a record of the log while loading, in order. The batch header names its transaction."""

    def marker(self, producer_id: int, epoch: int, committed: bool) -> None:
        """A transaction ended in this partition. Called while loading and afterwards, perhaps twice."""

    def start(self) -> None:
        """The replay is complete: requests follow."""

    def stop(self) -> None:
        """The shard is unloaded: refuse pending requests with NOT_COORDINATOR and cancel all timers."""


M = TypeVar("M", bound=ShardMachine)


class LoadState(Enum):
    LOADING = "loading"
    ACTIVE = "active"
    GONE = "gone"


class Shard(Generic[M]):
    def __init__(
        self,
        partition: Partition,
        services: Services,
        make: "Callable[[Shard[M]], M]",
        on_thrown_away: "Callable[[Shard[M]], None]",
    ) -> None:
        self.partition = partition
        self.index = partition.name.partition
        self.leader_epoch = partition.leader_epoch
        self.services = services
        self.state = LoadState.LOADING
        self._on_thrown_away = on_thrown_away
        self._queue: list[tuple[Sequence[KeyValue], Done]] = []  # appended in this turn of the loop
        self._queued_bytes = 0
        self._in_flight: deque[list[Done]] = deque()  # written, in the order of the log
        self._position = partition.log.start_offset  # first offset not yet replayed
        self._timer: Timer | None = None
        self.machine: M = make(self)

    # -- loading -----------------------------------------------------------------------

    def load(self) -> None:
        """Replay the rest of the log, one slice at a time."""
        self._timer = None
        if self.state is not LoadState.LOADING:
            return
        log = self.partition.log
        position = max(self._position, log.start_offset)
        if position >= log.end_offset:
            self._await_commit()
            return
        try:
            region = log.read(position, SLICE_BYTES, log.end_offset, at_least_one_batch=True)
        except DamagedSegment as damage:
            self.partition.driver.damage.found(
                damage.offset, damage.message
            )  # Another replica becomes the leader if there is one.
            self._retry(damage)
            return
        except TidelogError as error:
            self._retry(error)
            return
        self.services.offload(region.read, self._replay)

    def _replay(self, data: bytes | BaseException) -> None:
        if self.state is not LoadState.LOADING:
            return
        try:
            if isinstance(data, BaseException):
                raise data
            self._replay_batches(memoryview(data))
        except (TidelogError, OSError) as error:
            self._retry(error)
            return
        self.load()

    def _replay_batches(self, data: memoryview) -> None:
        before = self._position
        for position, header in batches.iterate(data):
            batch = data[position : position + header.size]
            if header.is_control:
                self._replay_control(batch, header)
            else:
                for record in decode_batch(batch, header):
                    self.machine.replay(record, header)
            self._position = header.next_offset
        invariant(self._position > before, "a slice of the log holds a whole batch", self.partition.name)

    def _replay_control(self, batch: memoryview, header: BatchHeader) -> None:
        for record in decode_batch(batch, header):
            kind = control_type(record.key)
            if kind in (ControlType.ABORT, ControlType.COMMIT):
                self.machine.marker(header.producer_id, header.producer_epoch, kind == ControlType.COMMIT)

    def _await_commit(self) -> None:
        late = self.services.perturb("late coordinator")
        if self.partition.high_watermark < self._position or late:
            self._timer = self.services.later(COMMIT_POLL_MS, self.load)
            return
        self.state = LoadState.ACTIVE
        self.machine.start()

    def _retry(self, error: BaseException) -> None:
        logger.error("%s cannot be loaded: %s; retrying", self.partition.name, error)
        self._timer = self.services.later(LOAD_RETRY_MS, self.load)

    # -- appending ---------------------------------------------------------------------

    def append(
        self,
        records: Sequence[KeyValue],
        done: Done,
        *,
        producer_id: int = -1,
        epoch: int = -1,
        transactional: bool = False,
    ) -> None:
        """Write the records in one batch. Calls ``done`` with NONE once committed, else with the error."""
        if self.state is not LoadState.ACTIVE:
            done(ErrorCode.NOT_COORDINATOR)
            return
        if transactional:
            # Not queued: the marker of its transaction is not written by this method and must come after it.
            self._flush()
            self._write(records, [done], producer_id, epoch)
            return
        size = sum(len(key) + len(value or b"") for key, value in records)
        if self._queued_bytes + size > BATCH_BYTES:
            # An append that is too large for a batch must not make the earlier ones fail.
            self._flush()
        if not self._queue:
            self.services.soon(self._flush)
        self._queue.append((records, done))
        self._queued_bytes += size

    def _flush(self) -> None:
        queue, self._queue = self._queue, []
        if not queue:
            return
        self._queued_bytes = 0
        records = [record for given, _ in queue for record in given]
        self._write(records, [done for _, done in queue])

    def _write(
        self, records: Sequence[KeyValue], pending: list[Done], producer_id: int = -1, epoch: int = -1
    ) -> None:
        now_ms = self.services.now_ms()
        batch = encode_batch(
            [Record(place, now_ms, key, value) for place, (key, value) in enumerate(records)],
            producer_id=producer_id,
            producer_epoch=epoch,
            transactional=producer_id >= 0,
        )
        try:
            appended = self.partition.append(
                memoryview(batch), now_ms, VERSIONS[1], coordinators=True, in_transaction=True
            )
        except TidelogError as refusal:
            for done in pending:
                done(coordinator_error(refusal.code))
            if self.partition.log.failure is not None:
                self.throw_away()
            return
        self._in_flight.append(pending)
        self.partition.when_acknowledged(appended.end_offset, ACKS_ALL, COMMIT_TIMEOUT_MS, self._write_done)

    def _write_done(self, error: ErrorCode) -> None:
        """The oldest write was committed or failed."""
        if not self._in_flight:
            return  # The shard was discarded meanwhile.
        for done in self._in_flight.popleft():
            done(coordinator_error(error))
        if error:
            # The records may still be in the log. Only loading it again shows whether they are.
            self.throw_away()

    # -- responding --------------------------------------------------------------------

    def respond(self, waiter: Future[Any], response: Any) -> None:
        """Send a response that depends on committed state. If this coordinator may have been replaced, it
        first verifies that it was not: its successor may have committed other changes.
        """
        if self.partition.leads_for_certain:
            waiter.complete(response)
        else:
            self.when_certain(lambda certain: waiter.complete(response if certain else _replaced()))

    def when_certain(self, then: Callable[[bool], None]) -> None:
        """See :meth:`Partition.when_certain`."""
        self.partition.when_certain(then)

    # -- the end -----------------------------------------------------------------------

    def throw_away(self) -> None:
        """Discard the machine and load again, because its state may differ from the log."""
        if self.state is not LoadState.GONE:
            logger.warning("%s is loaded again: a write failed", self.partition.name)
            self.unload()
            self._on_thrown_away(self)

    def unload(self) -> None:
        if self.state is LoadState.GONE:
            return
        was_active = self.state is LoadState.ACTIVE
        self.state = LoadState.GONE
        if self._timer is not None:
            self._timer.cancel()
        if was_active:
            self.machine.stop()
        queue, self._queue = self._queue, []
        in_flight, self._in_flight = self._in_flight, deque()
        for pending in in_flight:
            for done in pending:
                done(ErrorCode.NOT_COORDINATOR)
        for _, done in queue:
            done(ErrorCode.NOT_COORDINATOR)


def _replaced() -> TidelogError:
    return TidelogError("another broker may coordinate this now", ErrorCode.NOT_COORDINATOR)
