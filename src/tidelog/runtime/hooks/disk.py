"""A real disk with troubles: slow, full or failing as the lab wants it, with a journal for power failures."""

import errno
import os
import threading
import time
from pathlib import Path

from tidelog.log.storage import Buffer, Mapping
from tidelog.runtime.disk import OPEN_FLAGS, Disk, DiskFile, DiskMapping
from tidelog.runtime.hooks.control import Control
from tidelog.runtime.hooks.journal import Journal


class HookedFile(DiskFile):
    __slots__ = ("_disk", "_inode", "_path")

    def __init__(self, descriptor: int, disk: "HookedDisk", path: str) -> None:
        super().__init__(descriptor)
        self._disk, self._path = disk, path
        self._inode = os.fstat(descriptor).st_ino

    def write_at(self, position: int, data: Buffer) -> None:
        size, end = self.size(), position + len(data)
        self._disk.before_write(self._path, grows=end > size)
        if self._disk.journal is None:
            super().write_at(position, data)
            return
        with self._disk.order:
            size = self.size()
            replaced = self.read_at(position, min(end, size) - position) if position < size else b""
            self._disk.journal.add("write", self._inode, position, len(data), size, payload=replaced)
            super().write_at(position, data)

    def truncate(self, size: int) -> None:
        self._disk.before_write(self._path, grows=size > self.size())
        with self._disk.order:
            self._note_size(size)
            super().truncate(size)

    def reserve(self, size: int) -> None:
        if size <= self.size():
            super().reserve(size)
            return
        self._disk.before_write(self._path, grows=True)
        with self._disk.order:
            self._note_size(size)
            super().reserve(size)

    def sync(self) -> None:
        journal = self._disk.journal
        if journal is None:
            self._disk.before_sync(self._path)
            super().sync()
            return
        with self._disk.order:
            number = journal.next_number()
            is_mapped = journal.mapped[self._inode] > 0
            journal.add("syncing", number, self._inode, is_mapped)
            if is_mapped:
                self.note_mapped(journal)
        try:
            self._disk.before_sync(self._path)
            super().sync()
        except OSError:
            journal.add("unsynced", number)
            raise
        journal.add("synced", number)

    def note_mapped(self, journal: Journal) -> None:
        """Stores into a mapping are not seen: from now on they are in doubt until the next sync."""
        size = self.size()
        journal.add("map", self._inode, size, payload=self.read_at(0, size).rstrip(b"\0"))

    @property
    def inode(self) -> int:
        return self._inode

    def _note_size(self, size: int) -> None:
        if self._disk.journal is not None:
            before = self.size()
            cut_off = self.read_at(size, before - size) if size < before else b""
            self._disk.journal.add("resize", self._inode, size, before, payload=cut_off)


class HookedMapping(DiskMapping):
    """A writable one of a disk with a journal."""

    __slots__ = ("_disk", "_inode", "_journal")

    def __init__(self, file: HookedFile, size: int, disk: "HookedDisk", journal: Journal) -> None:
        self._disk, self._inode, self._journal = disk, file.inode, journal
        with self._disk.order:
            journal.mapped[file.inode] += 1
            file.note_mapped(journal)
        super().__init__(file.fileno(), size, writable=True)

    def close(self) -> None:
        super().close()
        with self._disk.order:
            self._journal.mapped[self._inode] -= 1


class HookedDisk(Disk):
    __slots__ = ("_control", "journal", "order")

    def __init__(self, control: Control, journal: Journal | None = None) -> None:
        self._control = control
        self.journal = journal
        # Held from an entry of the journal to the end of what it is about.
        self.order = threading.RLock()

    # -- troubles ------------------------------------------------------------------------

    def before_write(self, path: str, *, grows: bool) -> None:
        trouble = self._control.trouble
        if trouble.write_ms:
            time.sleep(trouble.write_ms / 1000)
        if trouble.write_error:
            raise OSError(trouble.write_error, os.strerror(trouble.write_error), path)
        if grows and trouble.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    def before_sync(self, path: str) -> None:
        trouble = self._control.trouble
        if trouble.sync_ms:
            time.sleep(trouble.sync_ms / 1000)
        if trouble.sync_error:
            raise OSError(trouble.sync_error, os.strerror(trouble.sync_error), path)

    # -- storage -------------------------------------------------------------------------

    def open(self, path: str, *, create: bool = False) -> HookedFile:
        if not create or os.path.exists(path):
            return HookedFile(os.open(path, OPEN_FLAGS), self, path)
        self.before_write(path, grows=True)
        if self.journal is None:
            return HookedFile(os.open(path, OPEN_FLAGS | os.O_CREAT, 0o644), self, path)
        with self.order:
            file = HookedFile(os.open(path, OPEN_FLAGS | os.O_CREAT, 0o644), self, path)
            self.journal.add("create", self.journal.path(path), file.inode)
            return file

    def map(self, path: str, size: int, *, writable: bool) -> Mapping:
        if not writable or self.journal is None:
            return super().map(path, size, writable=writable)
        file = self.open(path)
        if file.size() < size:
            file.reserve(size)
        return HookedMapping(file, size, self, self.journal)

    def make_directory(self, path: str) -> None:
        if self.journal is None or os.path.isdir(path):
            super().make_directory(path)
            return
        with self.order:
            super().make_directory(path)
            self.journal.add("mkdir", self.journal.path(path))

    def rename(self, source: str, target: str) -> None:
        if self.journal is None:
            super().rename(source, target)
            return
        with self.order:
            if os.path.isfile(target):
                self.journal.keep(target)
            if os.path.isdir(source):
                self.journal.renamed_directory(source, target)
            super().rename(source, target)
            self.journal.add("rename", self.journal.path(source), self.journal.path(target))

    def remove(self, path: str) -> None:
        if self.journal is None or not os.path.exists(path):
            super().remove(path)
            return
        with self.order:
            self.journal.keep(path)
            self.journal.add("remove", self.journal.path(path))
            super().remove(path)

    def remove_directory(self, path: str) -> None:
        super().remove_directory(path)
        if self.journal is not None:
            self.journal.add("rmdir", self.journal.path(path))

    def sync_directory(self, path: str) -> None:
        if self.journal is None:
            self.before_sync(path)
            super().sync_directory(path)
            return
        with self.order:
            number = self.journal.next_number()
            self.journal.add("syncing in", number, self.journal.path(path))
            removed = self.journal.removed_before_sync(path)
        self.before_sync(path)
        super().sync_directory(path)
        self.journal.add("synced", number)
        for kept in removed:
            kept.unlink(missing_ok=True)

    def usage(self, path: str) -> tuple[int, int]:
        total, free = super().usage(path)
        return total, 0 if self._control.trouble.is_full else free


def hooked_disk(directory: Path, control: Control, root: str) -> HookedDisk:
    """With a journal if the lab has made a directory for it."""
    journal = directory / "journal"
    return HookedDisk(control, Journal(journal, root) if journal.is_dir() else None)
