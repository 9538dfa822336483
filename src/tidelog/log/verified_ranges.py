"""Which bytes of a segment were checked by this process, so that ranges that are read often are checked
once.
"""

PARTS_MAX = 64  # of one segment that are remembered


class VerifiedRanges:
    __slots__ = ("end", "parts")

    def __init__(self) -> None:
        self.end = 0  # Position: everything before it was checked.
        self.parts: list[tuple[int, int]] = []  # Checked ranges after it, by position.

    def end_from(self, position: int) -> int:
        """How far the batches from ``position`` on were checked; ``position`` itself if unknown."""
        if position < self.end:
            return self.end
        return next((end for start, end in self.parts if start <= position < end), position)

    def note(self, start: int, end: int) -> None:
        """These batches were checked."""
        parts = []
        for part in self.parts:
            if part[1] < start or end < part[0]:
                parts.append(part)
            else:
                start, end = min(start, part[0]), max(end, part[1])
        if start <= self.end:
            self.end = max(self.end, end)
            self.parts = [part for part in parts if part[1] > self.end]
        else:
            self.parts = [*parts, (start, end)][-PARTS_MAX:]

    def truncate(self, position: int) -> None:
        self.end = min(self.end, position)
        self.parts = [(start, min(end, position)) for start, end in self.parts if start < position]
