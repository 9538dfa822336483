"""What one direction between two parties is like, and when bytes arrive on it.

Pure: time and chance are arguments. TCP hides lost packets from its users, who notice stalls; so a loss is a
stall here, as long as TCP would take to notice and repair it. A byte never overtakes an earlier one.
"""

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

SEGMENT_BYTES = 1448  # of data in a full packet
RETRANSMISSION_S = 0.2  # Linux's shortest; doubles with every further loss
FAST_RETRANSMISSION_S = 0.01  # if later packets tell that one is missing


class Shape(NamedTuple):
    cut: bool = False
    delay_ms: float = 0.0
    jitter_ms: float = 0.0  # the delay is up to this much longer or shorter
    loss_percent: float = 0.0
    kbytes_per_s: float = 0.0  # 0: unlimited

    @property
    def is_clear(self) -> bool:
        return self == CLEAR


CLEAR = Shape()


def combined(shapes: Iterable[Shape]) -> Shape:
    """Several faults in one place: the slowest line, all delays, every chance of a loss."""
    found = list(shapes)
    rates = [shape.kbytes_per_s for shape in found if shape.kbytes_per_s]
    arrives = math.prod(1 - shape.loss_percent / 100 for shape in found)
    return Shape(
        any(shape.cut for shape in found),
        sum(shape.delay_ms for shape in found),
        sum(shape.jitter_ms for shape in found),
        round(100 * (1 - arrives), 9),
        min(rates, default=0.0),
    )


class Line:
    """One direction of one connection. ``random`` returns numbers from 0 to below 1."""

    def __init__(self, random: Callable[[], float]) -> None:
        self._random = random
        self._free_at = 0.0  # when the line has sent everything before
        self._arrived_at = 0.0  # when everything before has arrived

    def arrives_at(self, shape: Shape, now: float, size: int) -> float:
        """When bytes that are sent now arrive."""
        sent_at = max(now, self._free_at)
        if shape.kbytes_per_s:
            sent_at += size / (1000 * shape.kbytes_per_s)
        self._free_at = sent_at
        jitter_ms = shape.jitter_ms * (2 * self._random() - 1) if shape.jitter_ms else 0.0
        delay_s = max(shape.delay_ms + jitter_ms, 0.0) / 1000
        arrives_at = sent_at + delay_s + (self._stall_s(shape, size) if shape.loss_percent else 0.0)
        self._arrived_at = max(self._arrived_at, arrives_at)
        return self._arrived_at

    def _stall_s(self, shape: Shape, size: int) -> float:
        """How long TCP takes to repair what is lost of so many bytes. A loss that no later packet tells of is
        noticed by a timer only.
        """
        loss = shape.loss_percent / 100
        packets = -(-size // SEGMENT_BYTES)
        if self._random() >= 1 - (1 - loss) ** packets:
            return 0.0
        stall_s = RETRANSMISSION_S if packets == 1 else FAST_RETRANSMISSION_S + 2 * shape.delay_ms / 1000
        while self._random() < loss and stall_s < 100:
            stall_s += max(stall_s, RETRANSMISSION_S)
        return stall_s


def resumes_at(cut_at: float, healed_at: float) -> float:
    """When bytes that a cut held back are sent again: at TCP's first retransmission after it is healed."""
    pause_s, at = RETRANSMISSION_S, cut_at
    while at < healed_at:
        at += pause_s
        pause_s *= 2
    return at
