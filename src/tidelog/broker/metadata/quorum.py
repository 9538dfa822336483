"""The metadata log, replicated by a quorum of controllers. All decisions of the controllers are stored in it.

Every node follows the log and applies committed records. The leader becomes the active controller only when
everything from before its epoch is committed and applied. Then it knows all decisions of its predecessors.
"""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import NamedTuple

from tidelog.broker.metadata.reading import CommittedReader, size_between
from tidelog.broker.metadata.snapshots import Applied, MetadataSnapshots, SnapshotPorts
from tidelog.broker.metadata.voters import MetadataVoters
from tidelog.controller import records
from tidelog.controller.image import ClusterImage
from tidelog.controller.records import MetadataRecord
from tidelog.controller.store import Decide, Done
from tidelog.errors import ErrorCode, TidelogError
from tidelog.invariant import invariant
from tidelog.protocol.records import Record, encode_batch
from tidelog.replication.driver import ReplicaDriver
from tidelog.replication.election import Election
from tidelog.replication.replica import Role
from tidelog.replication.voters import VoterSet
from tidelog.services import Services, ignore
from tidelog.types import NO_EPOCH

logger = logging.getLogger(__name__)

APPLIED_AT_ONCE = 200  # records, and up to as many again to complete a decision: about 3 ms
SUBMIT_TIMEOUT_MS = 10_000


class MetadataPorts(NamedTuple):
    """Callbacks of the node for changes of the metadata."""

    on_change: Callable[[ClusterImage], None] = ignore
    on_active: Callable[[bool], None] = ignore  # whether this node is now the active controller
    on_voters: Callable[[VoterSet], None] = ignore
    before_cut: Callable[[int], None] = (
        ignore  # Before the log is truncated to this offset. Raises StorageError.
    )


class Uncommitted(NamedTuple):
    """A decision that is written and not committed."""

    image: ClusterImage  # with it
    start_offset: int
    end_offset: int
    size: int  # in bytes


class MetadataQuorum:
    """Made by :func:`tidelog.broker.metadata.opening.open_metadata`."""

    def __init__(
        self,
        driver: ReplicaDriver,
        election: Election,
        services: Services,
        voters: MetadataVoters,
        make_snapshots: Callable[[SnapshotPorts], MetadataSnapshots],
        applied: Applied,
        ports: MetadataPorts,
    ) -> None:
        """``applied``: the contents of the newest snapshot on this node's disk."""
        self.driver = driver
        self.election = election
        self.voters = voters
        self._services = services
        self._ports = ports
        self._image, self._applied_offset = applied  # Exclusive: the image includes everything before.
        self._decided = self._image  # including uncommitted decisions of this node
        self._uncommitted: deque[Uncommitted] = deque()  # decisions of this node, in order
        self._reader: CommittedReader | None = None  # set while a decision is partly read
        self._is_scheduled = False  # Whether the next slice is scheduled.
        self.slices = 0  # number of slices applied so far
        self.active = False
        self._active_epoch: int = NO_EPOCH  # in which this node was the active controller last
        self.snapshots = make_snapshots(SnapshotPorts(self._applied, self.load))

    @property
    def image(self) -> ClusterImage:
        return self._image

    @property
    def committed_offset(self) -> int:
        return self._applied_offset

    @property
    def leader(self) -> int:
        """The node id of the active controller; -1 if unknown."""
        return self.election.leader

    def may_have_ended_session(self, broker_id: int) -> bool:
        """Whether this controller holds decisions that may be committed without its knowledge, and may have
        ended the session of a broker. It is one of the majority then that has committed them.
        """
        if self._applied_offset >= self.driver.log.end_offset:
            return False
        if self.driver.replica.last_epoch != self._active_epoch:
            # Decided by another controller. A node that is none does not help to commit it.
            return self.election.me in self.voters.latest or self.election.needed
        broker = self._decided.brokers.get(broker_id)
        return broker is None or broker.fenced

    def _applied(self) -> Applied:
        return Applied(self._image, self._applied_offset)

    def tick(self) -> None:
        """Called periodically: retries pending changes of the voters."""
        self.voters.tick()

    def stop(self) -> None:
        self.snapshots.stop()

    # --- following the log ----------------------------------------------------------------------------------

    def load(self, image: ClusterImage, end_offset: int) -> None:
        """Replace the image by that of a snapshot that ends at ``end_offset``."""
        invariant(end_offset >= self._applied_offset, "a snapshot below the applied offset", end_offset)
        self._image = self._decided = image
        self._reader = None
        self._applied_offset = end_offset
        self._ports.on_change(image)

    def committed(self) -> None:
        """The high watermark has moved. A node that catches up applies a few records at a time, because there
        may be thousands. The active controller applies everything at once: it must know all committed
        decisions when it responds.
        """
        self.slices += 1
        if self.active and self.driver.replica.role is Role.LEADER:
            self._take_decided()
        else:
            self._read_on()
        self._maybe_activate()
        self.voters.committed()

    def _take_decided(self) -> None:
        """What this node has decided itself need not be read back: the images are kept until they count. All
        that lies between them are control records.
        """
        before, high_watermark = self._applied_offset, self.driver.replica.high_watermark
        image, offset, size = self._image, before, 0
        now = [*takewhile(lambda decision: decision.end_offset <= high_watermark, self._uncommitted)]
        for decision in now:
            size += decision.size + size_between(self.driver.log, offset, decision.start_offset)
            image, offset = decision.image, decision.end_offset
        size += size_between(self.driver.log, offset, high_watermark)
        for _ in now:
            self._uncommitted.popleft()
        self._applied_offset = high_watermark
        if image is not self._image:
            self._image = image
            self._ports.on_change(image)
        if high_watermark > before:
            self.snapshots.applied(size)

    def _read_on(self) -> None:
        reader, self._reader = self._reader, None
        if reader is None:
            reader = CommittedReader(self.driver.log, self._image, self._applied_offset)
        high_watermark = self.driver.replica.high_watermark
        read = reader.read(high_watermark, APPLIED_AT_ONCE)
        if read is None:
            self._reader = reader
            self._go_on_soon()
            return
        before, self._applied_offset = self._applied_offset, read.end_offset
        if self._applied_offset < high_watermark:
            self._go_on_soon()
        if read.records:
            self._image = read.image
            self._ports.on_change(self._image)
        if self._applied_offset > before:
            self.snapshots.applied(read.size)

    def _go_on_soon(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._services.in_turn(self._resume, urgent=True)

    def _resume(self) -> None:
        self._is_scheduled = False
        if self.driver.closed or self._applied_offset >= self.driver.replica.high_watermark:
            return
        try:
            self.committed()
        except TidelogError as error:
            logger.error("cannot apply the metadata: %s", error.message)  # Retried at the next commit.

    def role_changed(self) -> None:
        if self.driver.replica.role is not Role.LEADER and self.active:
            self.active = False
            self._uncommitted.clear()
            self._ports.on_active(False)
        self.voters.role_changed()

    def _maybe_activate(self) -> None:
        replica = self.driver.replica
        if (
            self.active
            or replica.role is not Role.LEADER
            or self._applied_offset <= replica.epoch_start_offset
        ):
            return
        self.active = True
        self._active_epoch = replica.epoch
        self._decided = self._image
        self._ports.on_active(True)

    # --- deciding -------------------------------------------------------------------------------------------

    def submit(self, decide: Decide, done: Done) -> None:
        try:
            if not self.active:
                raise TidelogError("this node is not the active controller", ErrorCode.NOT_CONTROLLER)
            decided = decide(self._decided)
            if decided:
                self._write(decided)
        except TidelogError as refusal:
            done(refusal)
            return
        # Even if nothing was decided: the response depends on earlier decisions that may be uncommitted.
        self.driver.wait(self.driver.log.end_offset, -1, SUBMIT_TIMEOUT_MS, lambda code: _tell(done, code))

    def _write(self, decided: Sequence[MetadataRecord]) -> None:
        """One batch per decision, so that it is committed as a whole or not at all."""
        now_ms = self._services.now_ms()
        first = self.driver.log.end_offset
        batch = encode_batch(
            [
                Record(first + place, now_ms, None, records.encode(record), ())
                for place, record in enumerate(decided)
            ],
            leader_epoch=self.driver.replica.epoch,
        )
        end_offset, before = first + len(decided), self._decided
        self._decided = before.apply(decided)
        # Before it is written: a controller without others commits it in the same moment.
        self._uncommitted.append(Uncommitted(self._decided, first, end_offset, len(batch)))
        try:
            self.driver.append(memoryview(batch), end_offset - 1, now_ms, now_ms)
        except TidelogError:
            self._decided = before
            if self._uncommitted:
                self._uncommitted.pop()
            raise


def _tell(done: Done, code: ErrorCode) -> None:
    if code is ErrorCode.NONE:
        done(None)
    elif code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
        done(
            TidelogError(
                "the active controller has changed; it is unknown whether the change was committed",
                ErrorCode.NOT_CONTROLLER,
            )
        )
    else:
        done(TidelogError("the change was not committed by the controllers in time", code))
