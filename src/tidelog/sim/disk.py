"""A disk in memory that loses power, runs full and fails on command.

Implements :class:`tidelog.log.storage.Storage` with exactly the promises of that module: unsynced writes may
be lost or torn at any byte, unsynced names may be lost from the newest on. Nothing is random here: how much
survives a crash, and which operation fails, are arguments, so that a test can try every case and a simulation
can draw them from its seed.

A file is an inode with its current bytes, the safe bytes, and the list of changes between them. A directory
is a set of names with the same split. ``crash`` builds the bytes and names that a machine would find after a
power failure; handles from before are dead.
"""

import errno
from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from tidelog.log.storage import Buffer, DirectoryEntry
from tidelog.sim.inode import Change, Inode, resize, write

ENOSPC = errno.ENOSPC
EIO = errno.EIO

STORY_LINES_MAX = 10_000  # A simulation runs for millions of operations; a failure shows the last ones.


class PowerLoss(BaseException):
    """Raised out of the operation during which the power failed; not an ``Exception``: it must not be
    handled.
    """


Survive = Callable[[str, int], int]
"""(path, number of unsynced bytes) -> how many of them, oldest first, are on disk after the crash."""


def nothing(path: str, unsynced: int) -> int:
    """The worst power failure: only what was synced is left."""
    return 0


def everything(path: str, unsynced: int) -> int:
    """A killed process: the system still has everything written."""
    return unsynced


class SimulatedFile:
    __slots__ = ("_disk", "_era", "inode", "path")

    def __init__(self, disk: "SimulatedDisk", path: str, inode: Inode) -> None:
        self._disk = disk
        self._era = disk.era
        self.path = path
        self.inode = inode

    def _before(self, operation: str, size: int = 0) -> int | None:
        disk = self._disk
        if self._era != disk.era:
            raise RuntimeError(f"{self.path} was opened before the crash")
        if disk.tells or disk.failing or disk.faults:  # Checked one by one.
            return disk.before(operation, self.path, size)
        disk.operations += 1
        return None

    def size(self) -> int:
        return len(self.inode.content)

    def read_at(self, position: int, size: int) -> bytes:
        disk = self._disk
        if self._era != disk.era or disk.tells or disk.failing or disk.faults:
            self._before("read")
        else:
            disk.operations += 1  # The most frequent operation.
        return bytes(self.inode.content[position : position + size])

    def write_at(self, position: int, data: Buffer) -> None:
        disk = self._disk
        allowed = disk.capacity_bytes is None or disk.room(position + len(data) - len(self.inode.content))
        torn_at = self._before("write", len(data))
        if torn_at is not None:
            self._write(position, bytes(data[:torn_at]))
            self._disk.interrupt("write", self.path)
        if not allowed:
            raise OSError(ENOSPC, "no space left on the simulated disk", self.path)
        self._write(position, bytes(data))

    def _write(self, position: int, data: bytes) -> None:
        inode = self.inode
        inode.changes.append(Change(position, data))
        write(inode.content, position, data)
        inode.modified_ms = int(self._disk.now_ms())

    def truncate(self, size: int) -> None:
        self._before("truncate")
        self.inode.changes.append(Change(size, None))
        resize(self.inode.content, size)
        self.inode.modified_ms = int(self._disk.now_ms())

    def reserve(self, size: int) -> None:
        self._before("reserve")
        if not self._disk.room(size - len(self.inode.content)):
            raise OSError(ENOSPC, "no space left on the simulated disk", self.path)
        if size > len(self.inode.content):
            self.inode.changes.append(Change(size, None))
            resize(self.inode.content, size)

    def sync(self) -> None:
        try:
            self._before("sync")
        except OSError:
            self.inode.fail_sync()
            raise
        if self._disk.lies(self.path):
            self.inode.claim_sync()
        else:
            self.inode.sync()


class SimulatedMapping:
    __slots__ = ("_inode", "_writable", "view")

    def __init__(self, inode: Inode, size: int, *, writable: bool) -> None:
        self._inode = inode
        self._writable = writable
        inode.mapped += writable
        view = memoryview(inode.content)[:size]
        self.view = view if writable else view.toreadonly()

    def close(self) -> None:
        self.view.release()
        if self._writable:
            self._writable = False
            self._inode.mapped -= 1
            self._inode.note_mapped()


class SimulatedLock:
    def __init__(self, disk: "SimulatedDisk", path: str) -> None:
        self._disk = disk
        self._path = path

    def release(self) -> None:
        self._disk.locked.discard(self._path)


class Fault(NamedTuple):
    """The fault at one operation."""

    error: int | None  # An errno; None: a power failure.
    torn_at: int = 0  # How many bytes of a write are written first.


class SimulatedDisk:
    """``operations`` counts every operation; ``faults`` maps numbers to faults."""

    def __init__(self, capacity_bytes: int | None = None, *, tells: bool = True) -> None:
        self.capacity_bytes = capacity_bytes
        self.tells = tells
        self.now_ms: Callable[[], float] = lambda: 0  # The modification time of written files.
        self.era = 0  # Counts crashes: handles of an earlier era are dead.
        self.operations = 0
        self.faults: dict[int, Fault] = {}
        self.failing: dict[str, int] = {}  # operation → the errno it fails with, every time, until removed
        # Files whose syncs are reported as done, and are not: their content is in the drive's memory.
        self.lies: Callable[[str], bool] = lambda path: False
        self.leaving: Callable[[str], None] = lambda path: None  # A file is about to be renamed or removed.
        self.story: deque[str] = deque(maxlen=STORY_LINES_MAX)  # The operations, for failure reports.
        self.locked: set[str] = set()
        self._files: dict[str, Inode] = {}
        self._directories: set[str] = {""}
        self._safe_files: dict[str, Inode] = {}
        self._safe_directories: set[str] = {""}
        self._pending: dict[str, list[Callable[[dict[str, Inode], set[str]], None]]] = {}
        self._interrupted: Fault | None = None
        self._born = 0  # files, ever

    # -- faults ------------------------------------------------------------------------

    def before(self, operation: str, path: str, size: int = 0) -> int | None:
        """Count an operation; fail it if a fault is planned. Returns the byte a write is torn at, or None."""
        self.operations += 1
        if self.tells:
            self.story.append(f"{self.operations} {operation} {path} {size or ''}".rstrip())
        if operation in self.failing:
            raise OSError(self.failing[operation], f"simulated failure of {operation}", path)
        fault = self.faults.get(self.operations)
        if fault is None:
            return None
        self._interrupted = fault
        if operation == "write" and fault.torn_at:
            return fault.torn_at
        self.interrupt(operation, path)
        return None

    def interrupt(self, operation: str, path: str) -> None:
        fault, self._interrupted = self._interrupted, None
        if fault is not None and fault.error is not None:
            raise OSError(fault.error, f"simulated failure of {operation}", path)
        raise PowerLoss(f"{operation} {path}")

    def fail_at(self, operation_number: int, error: int, torn_at: int = 0) -> None:
        self.faults[operation_number] = Fault(error, torn_at)

    def lose_power_at(self, operation_number: int, torn_at: int = 0) -> None:
        self.faults[operation_number] = Fault(None, torn_at)

    def room(self, more_bytes: int) -> bool:
        if self.capacity_bytes is None or more_bytes <= 0:
            return True
        return self.used_bytes() + more_bytes <= self.capacity_bytes

    def used_bytes(self) -> int:
        return sum(len(inode.content) for inode in self._files.values())

    def process_died(self) -> list[str]:
        """A killed process: its handles and locks are gone, its writes are as safe as before. Returns the
        files of which a sync had failed: what it should have written is gone.
        """
        given_up = [path for path, inode in self._files.items() if inode.given_up]
        for inode in self._files.values():
            inode.let_go()
        self.locked.clear()
        self.era += 1
        return given_up

    def wipe(self) -> None:
        """The disk is replaced by an empty one."""
        for files, directories in (
            (self._files, self._directories),
            (self._safe_files, self._safe_directories),
        ):
            files.clear()
            directories.clear()
            directories.add("")
        self._pending.clear()
        self.locked.clear()
        self.era += 1

    def crash(self, survive: Survive = nothing, names: Survive = nothing) -> None:
        """The power fails and returns. ``survive`` says how much of each file's unsynced bytes is left,
        ``names`` how many of each directory's unsynced changes.
        """
        for directory, changes in sorted(self._pending.items()):
            for change in changes[: names(directory, len(changes))]:
                change(self._safe_files, self._safe_directories)
        self._pending.clear()
        self._drop_orphans()
        for path, inode in self._safe_files.items():
            if inode.mapped:
                inode.note_mapped()
            found = inode.replay(survive(path, inode.unsynced()))
            self._safe_files[path] = Inode(found, inode.modified_ms, inode.born)
        self._files = dict(self._safe_files)
        self._directories = set(self._safe_directories)
        self.locked.clear()
        self.faults.clear()
        self.era += 1

    def _drop_orphans(self) -> None:
        """A directory whose name was lost is lost with its content."""
        for directory in sorted(self._safe_directories):
            if directory.rpartition("/")[0] not in self._safe_directories:
                self._safe_directories.discard(directory)
        for path in list(self._safe_files):
            if path.rpartition("/")[0] not in self._safe_directories:
                del self._safe_files[path]

    def contents(self, directory: str) -> dict[str, bytes]:
        """The files of a directory as they are now, seen from outside."""
        return {
            path: bytes(inode.content)
            for path, inode in sorted(self._files.items())
            if path.rpartition("/")[0] == directory
        }

    def synced_contents(self, directory: str) -> dict[str, bytes]:
        """The same as the worst power failure would leave them, if the drive is right about what it says to
        have synced.
        """
        if directory not in self._safe_directories:
            return {}
        return {
            path: bytes(inode.safe) if inode.claimed is None else inode.claimed
            for path, inode in sorted(self._safe_files.items())
            if path.rpartition("/")[0] == directory
        }

    def paths(self) -> list[str]:
        return sorted(self._files)

    def size(self, path: str) -> int:
        return len(self._files[path].content)

    def flip(self, path: str, position: int, bit: int) -> None:
        """Damage one bit of a file permanently."""
        self._files[path].flip(position, bit)

    def stop_lying(self) -> None:
        """The drive has written its memory."""
        for inode in self._files.values():
            inode.sync()
        self.lies = lambda path: False

    def write_back(self, paths: Iterable[str]) -> None:
        """The drive has written its memory of these files."""
        for path in paths:
            self._files[path].sync()

    def lose_write(self, path: str, position: int, size: int) -> None:
        """A write that was reported as done, and as synced, never reached the disk: the old content stays,
        which in a file that only grows is nothing.
        """
        self._files[path].overwrite(position, bytes(size))

    def misdirect(self, source: tuple[str, int], target: tuple[str, int], size: int) -> None:
        """A write went to another place of the disk: that place is overwritten, and the right one lacks it.
        Both are (path, position).
        """
        (path, position), (other, where) = source, target
        data = bytes(self._files[path].content[position : position + size])
        self.lose_write(path, position, size)
        self.overwrite(other, where, data)

    def overwrite(self, path: str, position: int, data: bytes) -> None:
        """A write for another place went here. It does not change the size of the file."""
        self._files[path].overwrite(position, data)

    # -- storage -----------------------------------------------------------------------

    def _change_names(self, path: str, change: Callable[[dict[str, Inode], set[str]], None]) -> None:
        parent = path.rpartition("/")[0]
        change(self._files, self._directories)
        self._pending.setdefault(parent, []).append(change)

    def open(self, path: str, *, create: bool = False) -> SimulatedFile:
        inode = self._files.get(path)
        if inode is None:
            if not create or path.rpartition("/")[0] not in self._directories:
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            self.before("create", path)
            self._born += 1
            inode = Inode(modified_ms=int(self.now_ms()), born=self._born)
            self._change_names(path, lambda files, _: files.__setitem__(path, inode))
        return SimulatedFile(self, path, inode)

    def map(self, path: str, size: int, *, writable: bool) -> SimulatedMapping:
        file = self.open(path)
        if len(file.inode.content) < size:
            if not writable:
                raise OSError(errno.EINVAL, "the file is shorter than the mapping", path)
            file.reserve(size)
        return SimulatedMapping(file.inode, size, writable=writable)

    def list(self, directory: str) -> list[DirectoryEntry]:
        if directory not in self._directories:
            raise FileNotFoundError(errno.ENOENT, "no such directory", directory)
        start = len(directory) + 1
        files = [
            DirectoryEntry(path[start:], len(inode.content), False)
            for path, inode in self._files.items()
            if path.rpartition("/")[0] == directory
        ]
        return files + [
            DirectoryEntry(path[start:], 0, True)
            for path in self._directories
            if path and path.rpartition("/")[0] == directory
        ]

    def exists(self, path: str) -> bool:
        return path in self._files or path in self._directories

    def modified_ms(self, path: str) -> int:
        return self._files[path].modified_ms

    def make_directory(self, path: str) -> None:
        if path not in self._directories:
            self.before("make directory", path)
            self._change_names(path, lambda _, directories: directories.add(path))

    def rename(self, source: str, target: str) -> None:
        self.before("rename", f"{source} -> {target}")
        if source in self._directories:
            self._rename_directory(source, target)
            return
        if source not in self._files:
            raise FileNotFoundError(errno.ENOENT, "no such file", source)
        self.leaving(source)
        inode = self._files[source]

        def change(files: dict[str, Inode], _: set[str]) -> None:
            files.pop(source, None)
            files[target] = inode

        self._change_names(source, change)

    def _rename_directory(self, source: str, target: str) -> None:
        """Files created under the old name from now on are in another directory, and stay there, also if they
        are synced before this change of names is.
        """
        inside, born = self._pending.pop(source, []), self._born

        def change(files: dict[str, Inode], names: set[str]) -> None:
            newer = {
                path: inode
                for path, inode in files.items()
                if path.startswith(source + "/") and inode.born > born
            }
            if files is self._safe_files:
                for earlier in inside:
                    earlier(files, names)
            _rename_tree(files, names, source, target, born)
            files.update(newer)  # One that was synced early has not been replaced by an old one of its name.

        self._change_names(source, change)

    def remove(self, path: str) -> None:
        if path in self._files:
            self.before("remove", path)
            self.leaving(path)
            self._change_names(path, lambda files, _: _forget(files, path))

    def remove_directory(self, path: str) -> None:
        if self.list(path):
            raise OSError(errno.ENOTEMPTY, "the directory is not empty", path)
        self.before("remove directory", path)
        self._change_names(path, lambda _, directories: directories.discard(path))

    def sync_directory(self, path: str) -> None:
        self.before("sync directory", path)
        for change in self._pending.pop(path, ()):
            change(self._safe_files, self._safe_directories)

    def usage(self, path: str) -> tuple[int, int]:
        total = self.capacity_bytes or 1 << 40
        return total, total - self.used_bytes()

    def lock(self, path: str) -> SimulatedLock:
        if path in self.locked:
            raise BlockingIOError(errno.EWOULDBLOCK, "locked", path)
        self.locked.add(path)
        return SimulatedLock(self, path)


def _forget(files: dict[str, Inode], path: str) -> None:
    files.pop(path, None)


def _rename_tree(
    files: dict[str, Inode], directories: set[str], source: str, target: str, born_max: int
) -> None:
    inside = [path for path in files if path.startswith(source + "/")]
    for path in [path for path in inside if files[path].born <= born_max]:
        files[target + path[len(source) :]] = files.pop(path)
    for path in [path for path in directories if path == source or path.startswith(source + "/")]:
        directories.discard(path)
        directories.add(target + path[len(source) :])
