"""The real disk: :class:`tidelog.log.storage.Storage` on the operating system's files.

This module makes no decisions. Errors are raised as ``OSError``; the log interprets them.
"""

import fcntl
import mmap
import os
import shutil
import threading

from tidelog.log.storage import Buffer, DirectoryEntry, Mapping

OPEN_FLAGS = os.O_RDWR | os.O_CLOEXEC
LARGE_BYTES = 16 << 20  # To free that much takes about 2 ms.
# Records, and the secrets of users in the metadata log, are for the account of the broker only.
FILE_MODE, DIRECTORY_MODE = 0o600, 0o700

# macOS has no fdatasync, and its fsync leaves the data in the drive's cache: only this fcntl flushes it.
_FULL_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)


def _sync(descriptor: int) -> None:
    if _FULL_SYNC is not None:
        fcntl.fcntl(descriptor, _FULL_SYNC)
    else:
        os.fdatasync(descriptor)


def _close(descriptor: int) -> None:
    """The last one to close a removed file waits until its disk space is free. This may be the loop, if a
    reader was being sent the file when it was removed; a large one is left to a thread.
    """
    status = os.fstat(descriptor)
    if status.st_nlink or status.st_size < LARGE_BYTES:
        os.close(descriptor)
        return
    try:
        threading.Thread(target=os.close, args=(descriptor,), name="close", daemon=True).start()
    except RuntimeError:  # no more threads, or the process ends
        os.close(descriptor)


class DiskFile:
    """An open file; its descriptor closes with the last reference to the object."""

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def __del__(self) -> None:
        _close(self._descriptor)

    def fileno(self) -> int:
        """For ``sendfile``; keep a reference to the file while the number is in use."""
        return self._descriptor

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def read_at(self, position: int, size: int) -> bytes:
        data = os.pread(self._descriptor, size, position)
        if len(data) == size or not data:
            return data
        return self._read_rest(data, position, size)

    def _read_rest(self, data: bytes, position: int, size: int) -> bytes:
        """One call returns at most 2 GiB, and less after a signal."""
        parts, found = [data], len(data)
        while found < size:
            data = os.pread(self._descriptor, size - found, position + found)
            if not data:
                break
            parts.append(data)
            found += len(data)
        return b"".join(parts)

    def write_at(self, position: int, data: Buffer) -> None:
        written = os.pwrite(self._descriptor, data, position)
        if written != len(data):
            self._write_rest(memoryview(data)[written:], position + written)

    def _write_rest(self, data: memoryview, position: int) -> None:
        """If the disk becomes full, one call writes a part and the next call fails."""
        while data:
            written = os.pwrite(self._descriptor, data, position)
            data = data[written:]
            position += written

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)

    def reserve(self, size: int) -> None:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(self._descriptor, 0, size)
        elif self.size() < size:
            os.ftruncate(self._descriptor, size)

    def sync(self) -> None:
        _sync(self._descriptor)


class DiskMapping:
    __slots__ = ("_map", "view")

    def __init__(self, descriptor: int, size: int, *, writable: bool) -> None:
        access = mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ
        self._map = mmap.mmap(descriptor, size, access=access)
        self.view = memoryview(self._map)

    def close(self) -> None:
        self.view.release()
        self._map.close()


class DiskLock:
    __slots__ = ("_file",)

    def __init__(self, file: DiskFile) -> None:
        self._file: DiskFile | None = file

    def release(self) -> None:
        self._file = None  # Closing releases the lock.


class Disk:
    """The file system of this machine. Has no state."""

    __slots__ = ()

    def open(self, path: str, *, create: bool = False) -> DiskFile:
        return DiskFile(os.open(path, OPEN_FLAGS | os.O_CREAT if create else OPEN_FLAGS, FILE_MODE))

    def map(self, path: str, size: int, *, writable: bool) -> Mapping:
        file = self.open(path)
        if writable and file.size() < size:
            file.reserve(size)
        return DiskMapping(file.fileno(), size, writable=writable)

    def list(self, directory: str) -> list[DirectoryEntry]:
        with os.scandir(directory) as entries:
            return [_entry(entry) for entry in entries]

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def make_directory(self, path: str) -> None:
        try:
            os.mkdir(path, DIRECTORY_MODE)
        except FileExistsError:
            if not os.path.isdir(path):
                raise

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)

    def remove(self, path: str) -> None:
        try:  # noqa: SIM105 - faster, and each new log calls this five times
            os.unlink(path)
        except FileNotFoundError:
            pass

    def remove_directory(self, path: str) -> None:
        os.rmdir(path)

    def sync_directory(self, path: str) -> None:
        descriptor = os.open(path or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def usage(self, path: str) -> tuple[int, int]:
        usage = shutil.disk_usage(path)
        return usage.total, usage.free

    def lock(self, path: str) -> DiskLock:
        file = self.open(path, create=True)
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        return DiskLock(file)


def _entry(entry: "os.DirEntry[str]") -> DirectoryEntry:
    try:
        is_directory = entry.is_dir(follow_symlinks=True)
        return DirectoryEntry(entry.name, 0 if is_directory else entry.stat().st_size, is_directory)
    except OSError:  # A link to nothing. Only who opens it has an error, not who lists the directory.
        return DirectoryEntry(entry.name, entry.stat(follow_symlinks=False).st_size, is_directory=False)
