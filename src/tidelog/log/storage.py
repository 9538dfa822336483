"""What the log needs from a disk, and nothing more.

Owns the interface between the log and the files under it, so that the same log runs on a real disk
(:mod:`tidelog.runtime.disk`) and on one that loses power on command (:mod:`tidelog.sim.disk`). Knows nothing
about records, segments or indexes.

**Written is not synced.** Every reader sees changes by ``write_at``, ``truncate`` or a store into a mapping
at once, but a power failure may lose any part of them, cut them at any byte, or keep a later change and
lose an earlier one, until ``sync`` of that file has returned. A killed process loses nothing that was
written.

**Names are separate.** Creating, renaming and removing are durable only after ``sync_directory``.
Changes of one directory become durable in the order in which they were made: a crash keeps a prefix of them.
(Journaling file systems give this; the log relies on it when it deletes segments in order.)

**Errors** are ``OSError`` from the system; the log turns them into ``StorageError``. After a failed
``sync`` it is unknown what reached the disk, so a retry must not report the data as safe.
"""

from typing import NamedTuple, Protocol

Buffer = bytes | bytearray | memoryview


class File(Protocol):
    """An open file. It closes itself when the last holder releases it: a running send may finish."""

    def size(self) -> int: ...

    def read_at(self, position: int, size: int) -> bytes:
        """Up to ``size`` bytes; fewer only at the end of the file."""
        ...

    def write_at(self, position: int, data: Buffer) -> None:
        """Write all of ``data`` or raise; after an error any part of it may be written."""
        ...

    def truncate(self, size: int) -> None:
        """Truncate, or extend with zeros."""
        ...

    def reserve(self, size: int) -> None:
        """Extend to ``size`` with zeros in allocated disk blocks: a later write cannot find the disk full."""
        ...

    def sync(self) -> None:
        """Return when all writes, also through mappings, survive a power failure. Safe in any thread."""
        ...


class Mapping(Protocol):
    """A file mapped into memory."""

    view: memoryview

    def close(self) -> None:
        """Unmap; ``view`` is unusable afterwards. Stores stay written (not synced)."""
        ...


class DirectoryEntry(NamedTuple):
    """One name in a directory."""

    name: str
    size: int
    is_directory: bool


class Lock(Protocol):
    def release(self) -> None: ...


class Storage(Protocol):
    """A file system. Paths are strings with ``/`` between their parts; empty: the current directory."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open for reading and writing; ``create`` makes an empty file where there is none."""
        ...

    def map(self, path: str, size: int, *, writable: bool) -> Mapping:
        """Map the first ``size`` bytes. A writable mapping extends a shorter file as ``File.reserve`` does: a
        store into a page without a block would kill the process on a full disk.
        """
        ...

    def list(self, directory: str) -> list[DirectoryEntry]: ...

    def exists(self, path: str) -> bool: ...

    def modified_ms(self, path: str) -> int: ...

    def make_directory(self, path: str) -> None:
        """Create one directory (its parent exists); no error if it exists."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Atomic; replaces a file at ``target``."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file; no error if it does not exist."""
        ...

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory."""
        ...

    def sync_directory(self, path: str) -> None:
        """Return when the names in this directory survive a power failure. Safe in any thread."""
        ...

    def usage(self, path: str) -> tuple[int, int]:
        """(total bytes, free bytes) of the volume that holds ``path``."""
        ...

    def lock(self, path: str) -> Lock:
        """Take the lock file at ``path``; raises ``BlockingIOError`` when another process has it."""
        ...


class Region(NamedTuple):
    """Bytes of one segment file, not yet read: the server sends them from the page cache.

    Holding a region keeps its file open, even if the segment is deleted meanwhile. Truncation may shorten it:
    readers must expect fewer bytes than ``size`` (only followers read what can still be truncated).
    """

    file: File
    position: int
    size: int

    def read(self) -> bytes:
        return self.file.read_at(self.position, self.size)


class _EmptyFile:
    """Nothing, for responses without data: an idle partition needs no open file."""

    def size(self) -> int:
        return 0

    def read_at(self, position: int, size: int) -> bytes:
        return b""

    def write_at(self, position: int, data: Buffer) -> None:
        raise OSError("not a file to write to")

    def truncate(self, size: int) -> None:
        raise OSError("not a file to write to")

    def reserve(self, size: int) -> None:
        raise OSError("not a file to write to")

    def sync(self) -> None:
        pass


EMPTY_REGION = Region(_EmptyFile(), 0, 0)
