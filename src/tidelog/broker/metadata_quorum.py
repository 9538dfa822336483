"""The metadata log on a quorum of controllers: the store behind every decision of a cluster.

Every node tails the log and applies what is committed. The leader is the active controller, but only once
everything from before its epoch is committed and applied: then it knows all that its predecessors decided.
"""

import logging
from collections.abc import Callable, Sequence

from tidelog.controller import records
from tidelog.controller.image import ClusterImage
from tidelog.controller.records import MetadataRecord
from tidelog.controller.store import Decide, Done
from tidelog.errors import ErrorCode, TidelogError
from tidelog.protocol.batch import iterate
from tidelog.protocol.records import Record, decode_batch, encode_batch
from tidelog.replication.hosted import Hosted
from tidelog.replication.replica import Role
from tidelog.services import Services

logger = logging.getLogger(__name__)

READ_AT_ONCE_BYTES = 1 << 20
SUBMIT_TIMEOUT_MS = 10_000


class MetadataQuorum:
    def __init__(self, hosted: Hosted, services: Services) -> None:
        self._hosted = hosted
        self._services = services
        self._image = self._decided = ClusterImage()
        self._applied_offset = hosted.log.start_offset  # Exclusive: the image holds everything before.
        self.active = False
        self.on_change: Callable[[ClusterImage], None] = lambda image: None
        self.on_active: Callable[[bool], None] = lambda active: None

    @property
    def image(self) -> ClusterImage:
        return self._image

    @property
    def committed_offset(self) -> int:
        return self._applied_offset

    @property
    def leader(self) -> int:
        """Where the active controller is; -1 when nobody knows."""
        election = self._hosted.election
        return election.leader if election is not None else self._hosted.replica.leader

    # --- following the log ----------------------------------------------------------------------------------

    def committed(self) -> None:
        """The high watermark has moved."""
        replica = self._hosted.replica
        found: list[MetadataRecord] = []
        while self._applied_offset < replica.high_watermark:
            region = self._hosted.log.read(
                self._applied_offset, READ_AT_ONCE_BYTES, replica.high_watermark, at_least_one_batch=True
            )
            view = memoryview(region.read())
            for position, header in iterate(view):
                if not header.is_control:
                    batch = view[position : position + header.size]
                    found += [records.decode(record.value or b"") for record in decode_batch(batch)]
                self._applied_offset = header.next_offset
        if found:
            self._image = self._image.apply(found)
            self.on_change(self._image)
        self._maybe_activate()

    def role_changed(self) -> None:
        if self._hosted.replica.role is not Role.LEADER and self.active:
            self.active = False
            self.on_active(False)

    def _maybe_activate(self) -> None:
        replica = self._hosted.replica
        if (
            self.active
            or replica.role is not Role.LEADER
            or self._applied_offset <= replica.epoch_start_offset
        ):
            return
        self.active = True
        self._decided = self._image
        self.on_active(True)

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
        self._decided = self._decided.apply(decided)
        # Even when nothing was decided, the answer rests on earlier decisions that may not be committed yet.
        replica = self._hosted.replica
        deadline_ms = self._services.now_ms() + SUBMIT_TIMEOUT_MS
        self._hosted.run(
            replica.wait(self._hosted.log.end_offset, -1, deadline_ms, lambda code: _tell(done, code))
        )

    def _write(self, decided: Sequence[MetadataRecord]) -> None:
        """One batch per decision: it is committed as a whole or not at all."""
        now_ms = self._services.now_ms()
        first = self._hosted.log.end_offset
        batch = encode_batch(
            [
                Record(first + place, now_ms, None, records.encode(record), ())
                for place, record in enumerate(decided)
            ],
            leader_epoch=self._hosted.replica.epoch,
        )
        self._hosted.append(memoryview(batch), first + len(decided) - 1, now_ms, now_ms)


def _tell(done: Done, code: ErrorCode) -> None:
    if code is ErrorCode.NONE:
        done(None)
    elif code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
        done(
            TidelogError(
                "the active controller has changed; whether it was decided is unknown",
                ErrorCode.NOT_CONTROLLER,
            )
        )
    else:
        done(TidelogError("the controllers did not decide in time", code))
