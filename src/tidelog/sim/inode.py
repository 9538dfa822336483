"""One file of the simulated disk: its bytes as readers see them, and as a power failure would leave them.

An inode keeps its current bytes, the safe bytes, and the list of changes between them. A sync makes them
safe. A *failed* sync is worse than none: the system considers the changes written, so no later sync writes
them either, and only the process that wrote them is sure to see them.
"""

from typing import NamedTuple

from tidelog.log.storage import Buffer


class Change(NamedTuple):
    """An unsynced change of a file: bytes written at a position, or (no ``data``) a new size."""

    position: int
    data: bytes | None

    @property
    def weight(self) -> int:
        """The number of points in time inside this change: bytes, or one for a new size."""
        return 1 if self.data is None else len(self.data)

    def overwritten(self, position: int, data: bytes) -> "Change":
        if self.data is None:
            return self
        found = bytearray(self.data)
        start = max(position, self.position)
        end = min(position + len(data), self.position + len(found))
        if start < end:
            found[start - self.position : end - self.position] = data[start - position : end - position]
        return Change(self.position, bytes(found))


class Inode:
    __slots__ = (
        "born", "changes", "claimed", "claims", "content", "given_up", "mapped", "modified_ms", "safe",
    )  # fmt: skip

    def __init__(self, content: Buffer = b"", modified_ms: int = 0, born: int = 0) -> None:
        self.born = born  # Its number among the files of its disk.
        self.content = bytearray(content)
        self.safe = bytearray(content)
        self.claimed: bytes | None = None  # What the drive has only said to have synced; None: it has.
        self.changes: list[Change] = []
        self.claims = 0  # How many of the changes the drive has said to have synced.
        self.given_up = False  # Whether a sync has failed.
        self.mapped = 0  # Writable mappings: stores into them are in no change yet.
        self.modified_ms = modified_ms

    def unsynced(self) -> int:
        return sum(change.weight for change in self.changes)

    def sync(self) -> None:
        if self.mapped:
            self.safe = bytearray(self.content)
        else:
            for position, data in self.changes:
                if data is None:
                    resize(self.safe, position)
                else:
                    write(self.safe, position, data)
        self._forget_changes(0)
        self.claimed = None

    def claim_sync(self) -> None:
        """The drive says that it has synced, and keeps it in its memory."""
        self.claimed = bytes(self.content)
        self.claims = len(self.changes)

    def fail_sync(self) -> None:
        """What should be synced is given up: visible to readers for a while, never on disk. What the drive
        has in its memory is not: the system knows nothing of it.
        """
        self.given_up = True
        self._forget_changes(self.claims)

    def _forget_changes(self, kept: int) -> None:
        del self.changes[kept:]
        self.claims = kept

    def let_go(self) -> None:
        """The process that had it open is dead: its stores into mappings are written like everything else."""
        if self.mapped:
            self.note_mapped()
            self.mapped = 0
        # Mappings that were never closed keep the old content from growing. What could not be synced is read
        # again from the disk, where it never arrived.
        self.content = self.replay(self.unsynced()) if self.given_up else bytearray(self.content)
        self.given_up = False

    def flip(self, position: int, bit: int) -> None:
        """The disk damages safe bytes, or memory those on their way there."""
        self.overwrite(position, bytes([self.content[position] ^ (1 << bit)]))

    def overwrite(self, position: int, data: bytes) -> None:
        """The disk has other bytes than were written, within the file."""
        for content in (self.content, self.safe):
            fits = data[: max(len(content) - position, 0)]
            content[position : position + len(fits)] = fits
        self.changes = [change.overwritten(position, data) for change in self.changes]

    def note_mapped(self) -> None:
        """Stores into a mapping are not seen one by one: the difference counts as one write."""
        seen = self.replay(self.unsynced())
        if seen != self.content:
            self.changes.append(Change(0, bytes(self.content)))

    def replay(self, kept: int) -> bytearray:
        """The bytes on disk if ``kept`` of the unsynced ones arrived there."""
        found = bytearray(self.safe)
        for change in self.changes:
            if kept <= 0:
                break
            apply(found, change, kept)
            kept -= change.weight
        return found


def apply(content: bytearray, change: Change, kept: int) -> None:
    if change.data is None:
        resize(content, change.position)
        return
    data = change.data
    write(content, change.position, data[:kept] if kept < len(data) else data)


def write(content: bytearray, position: int, data: bytes) -> None:
    if len(content) == position:
        content += data
        return
    if len(content) < position:
        resize(content, position)
    content[position : position + len(data)] = data


def resize(content: bytearray, size: int) -> None:
    del content[size:]
    content.extend(bytes(size - len(content)))
