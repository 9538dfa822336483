"""The responses of one connection, in the order of its requests.

Each request has a slot in a queue, and finished slots at the head of the queue are sent. Requests of other
nodes have loose slots: their responses are sent as soon as they are finished. Responses that are finished
while further requests are started are sent together after that, and those that a node's request has finished
with those of other connections (:mod:`~tidelog.runtime.gathering`).

The lower half of :class:`~tidelog.runtime.connection.Connection`, which says when requests are started. One
object, because most requests pass both halves, and each call between two objects costs.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidelog.protocol.fetch import Part
from tidelog.runtime.metering import Meter
from tidelog.runtime.pending import PendingRequest
from tidelog.runtime.sender import Sender
from tidelog.runtime.slots import Slot
from tidelog.runtime.write_order import WriteOrder

if TYPE_CHECKING:
    from tidelog.runtime.server import Server

logger = logging.getLogger(__name__)


class OrderedResponses(asyncio.BufferedProtocol):
    __slots__ = (
        "_busy", "_closed", "_ended", "_held_back", "_loose", "_order", "_ready", "_sender", "_server",
        "_stopped_reading", "meter", "peer", "slots",
    )  # fmt: skip

    def __init__(self, server: "Server") -> None:
        self._server = server
        self.peer = "?"
        self.slots: deque[Slot] = deque()
        self._loose: dict[Slot, None] = {}  # pending requests whose responses have no order
        self._order = WriteOrder()
        self._held_back: memoryview | None = None  # a request that waits, for earlier ones or for its turn
        self._ready: list[Part | bytes] = []  # parts of finished responses
        self.meter: Meter | None = None  # of what the client uses, if it has a quota
        self._sender: Sender | None = None
        self._stopped_reading = False
        self._busy = False  # requests are being started; their responses are sent together afterwards
        self._ended = False  # the client has half-closed the connection, but may still read
        self._closed = False

    # --- of the connection ----------------------------------------------------------------------------------

    def close(self, reason: str, *, quiet: bool = False) -> None:
        """Log the reason and close the connection."""
        raise NotImplementedError

    def end(self) -> None:
        """Close after the transport's data is sent."""
        raise NotImplementedError

    def mute(self, wait_ms: int) -> None:
        """Take no requests for a while. What is left of an earlier wait is not added."""
        raise NotImplementedError

    def _resume_if_possible(self) -> None:
        """Continue, unless there is still a reason to wait."""
        raise NotImplementedError

    # --- pending --------------------------------------------------------------------------------------------

    @property
    def idle(self) -> bool:
        """Whether no response is pending."""
        if self.slots or self._loose or self._held_back is not None:
            return False
        return self._sender is None or self._sender.idle

    def finish_pending(self) -> None:
        """Send the responses to waiting fetches now: the broker or the connection is about to close."""
        for slot in (*self.slots, *self._loose):
            if slot.pending is not None:
                slot.pending.finish_now()

    @staticmethod
    def _wait(slot: Slot, pending: PendingRequest | None) -> None:
        slot.pending = pending if slot.parts is None else None

    # --- finished -------------------------------------------------------------------------------------------

    def _finish(self, slot: Slot, response: bytes | bytearray | None) -> None:
        parts = () if response is None else (response,)
        if self._busy and not self._order.awaited and not slot.loose:
            slot.parts = parts  # Sent with the others after all complete requests were started.
        else:
            self._finish_parts(slot, parts)

    def _finish_parts(self, slot: Slot, parts: Sequence[Part | bytes]) -> None:
        slot.parts = parts
        slot.pending = None
        order = self._order
        if order.awaited and (slot.rebalances if order.awaits_rebalances else slot.writes):
            self._written()
        if slot.loose:
            self._finish_loose(slot, parts)
        elif self._busy or not self.slots or self.slots[0] is not slot:
            return  # It waits for others, or leaves with them.
        elif not self._server.gathering.takes(self):
            self.send_ready()

    def send_ready(self) -> None:
        """Send the finished responses, and continue if that makes room."""
        self._flush_responses()
        self._resume_if_possible()

    def _written(self) -> None:
        """A write is finished for which a request waits."""
        self._order.awaited -= 1
        if not self._order.awaited and not self._busy:
            # Later: the caller must not be re-entered by the next request.
            self._server.loop.call_soon(self._resume_if_possible)

    def _finish_loose(self, slot: Slot, parts: Sequence[Part | bytes]) -> None:
        if self._closed or slot not in self._loose:
            return
        del self._loose[slot]
        slot.times.add(self._server.loop.time() - slot.begun_s)
        self._ready += parts
        if not self._busy:
            self._flush_responses()
            if self._stopped_reading:
                # Later: the caller must not be re-entered by the next request.
                self._server.loop.call_soon(self._resume_if_possible)

    def _flush_responses(self) -> None:
        slots = self.slots
        ready, self._ready = self._ready, []
        if slots and slots[0].parts is not None:
            now_s = self._server.loop.time()
            meter = self.meter
            while slots and slots[0].parts is not None:
                slot = slots.popleft()
                ready += slot.parts or () if meter is None else self._metered(meter, slot)
                slot.times.add(now_s - slot.begun_s)
        if self._sender is not None and ready:
            try:
                self._sender.send(ready)
            except Exception:
                # Not to the caller: it may be a timer, or code that has just committed a record.
                logger.exception("responses to %s cannot be sent", self.peer)
                self.close("responses failed with an internal error")
        if self._ended and self.idle:
            self.end()

    def _metered(self, meter: Meter, slot: Slot) -> Sequence[Part | bytes]:
        parts, wait_ms = meter.answered(slot, slot.parts or ())
        if wait_ms:
            self.mute(wait_ms)
        return parts

    def pause_writing(self) -> None:
        if self._sender is not None:
            self._sender.transport_full()

    def resume_writing(self) -> None:
        if self._sender is not None:
            self._sender.transport_drained()
