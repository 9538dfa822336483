"""The place of a request in the order of its connection's responses."""

from collections.abc import Sequence
from typing import ClassVar

from tidelog.protocol.fetch import Part
from tidelog.runtime.lag import Histogram
from tidelog.runtime.pending import PendingRequest


class Slot:
    """A request's place in the order of responses."""

    __slots__ = ("begun_s", "parts", "pending", "times")

    loose: ClassVar[bool] = False  # the response may be sent out of order
    writes: ClassVar[bool] = False  # later requests may have to wait for it
    rebalances: ClassVar[bool] = False  # later descriptions of groups have to wait for it

    def __init__(self, begun_s: float, times: Histogram) -> None:
        """``begun_s``: when the request arrived. ``times``: those of its API."""
        self.begun_s = begun_s
        self.times = times
        self.parts: Sequence[Part | bytes] | None = None  # None until finished
        self.pending: PendingRequest | None = None


class LooseSlot(Slot):
    __slots__ = ()
    loose = True


class WriteSlot(Slot):
    __slots__ = ()
    writes = True


class RebalanceSlot(Slot):
    __slots__ = ()
    rebalances = True
