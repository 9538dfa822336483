"""What happened to every record of one producer in one partition: acknowledged records must be there, at
their offset, once and in order.

Owns the comparison of acknowledgements with what is read afterwards. Records are identified by their sequence
numbers, in the order the producer handed them to its client: 0, 1, 2, …
"""

from array import array
from collections.abc import Iterable
from typing import NamedTuple

UNANSWERED, SOMEWHERE = (
    -1,
    -2,
)  # instead of an offset; SOMEWHERE: acknowledged as a duplicate, without an offset
EXAMPLES_MAX = 5


class Verdict(NamedTuple):
    acknowledged: int = 0
    received: int = 0
    lost: int = 0  # acknowledged and missing
    doubled: int = 0  # there more than once
    disordered: int = 0  # after one that was sent later
    misplaced: int = 0  # at another offset than acknowledged
    examples: tuple[str, ...] = ()  # of violations, in words

    @property
    def is_clean(self) -> bool:
        return not (self.lost or self.doubled or self.disordered or self.misplaced)


def together(verdicts: Iterable[Verdict]) -> Verdict:
    """Sum over all partitions."""
    total = Verdict()
    for each in verdicts:
        total = Verdict(
            total.acknowledged + each.acknowledged,
            total.received + each.received,
            total.lost + each.lost,
            total.doubled + each.doubled,
            total.disordered + each.disordered,
            total.misplaced + each.misplaced,
            (total.examples + each.examples)[:EXAMPLES_MAX],
        )
    return total


class Account:
    def __init__(self, name: str) -> None:
        self._name = name  # in examples
        self._offsets = array("q")  # acknowledged, by sequence
        self._seen = bytearray()  # how often each was received, up to 255
        self._elsewhere: dict[
            int, int
        ] = {}  # acknowledged and so far only at another offset: sequence → where
        self._last = -1  # the highest sequence received so far
        self._received = self._doubled = self._disordered = 0
        self._examples: list[str] = []

    def acknowledged(self, sequence: int, offset: int | None) -> None:
        self._reach(sequence)
        self._offsets[sequence] = SOMEWHERE if offset is None or offset < 0 else offset

    def received(self, sequence: int, offset: int) -> None:
        """Call in offset order, when everything is acknowledged or has failed."""
        self._reach(sequence)
        self._received += 1
        if self._seen[sequence]:
            self._doubled += 1
            self._note(f"record {sequence} is there again at {offset}")
        elif sequence < self._last:
            self._disordered += 1
            self._note(f"record {sequence} is at {offset}, after record {self._last}")
        self._place(sequence, offset)
        self._seen[sequence] = min(self._seen[sequence] + 1, 255)
        self._last = max(self._last, sequence)

    def _place(self, sequence: int, offset: int) -> None:
        """A record that is there twice is misplaced only if neither is where it was acknowledged."""
        acknowledged = self._offsets[sequence]
        if acknowledged == offset:
            self._elsewhere.pop(sequence, None)
        elif acknowledged >= 0 and not self._seen[sequence]:
            self._elsewhere[sequence] = offset

    def verdict(self) -> Verdict:
        for sequence, offset in self._elsewhere.items():
            self._note(f"record {sequence} was acknowledged at {self._offsets[sequence]} and is at {offset}")
        lost = [
            sequence
            for sequence, (offset, seen) in enumerate(zip(self._offsets, self._seen, strict=True))
            if offset != UNANSWERED and not seen
        ]
        for sequence in lost:
            self._note(f"record {sequence}, acknowledged at {self._offsets[sequence]}, is not there")
        return Verdict(
            sum(offset != UNANSWERED for offset in self._offsets),
            self._received,
            len(lost),
            self._doubled,
            self._disordered,
            len(self._elsewhere),
            tuple(self._examples),
        )

    def _reach(self, sequence: int) -> None:
        missing = sequence + 1 - len(self._offsets)
        if missing > 0:
            self._offsets.extend([UNANSWERED] * missing)
            self._seen.extend(bytes(missing))

    def _note(self, what: str) -> None:
        if len(self._examples) < EXAMPLES_MAX:
            self._examples.append(f"{self._name}: {what}")
