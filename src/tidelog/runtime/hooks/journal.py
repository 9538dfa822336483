"""The journal of a disk: how to undo everything that is written and not synced.

An append-only file of entries, written by the broker's disk layer and read by the lab after a power failure.
It is never synced: it must survive the end of the process only. An entry about bytes has what they replace,
and is written before them. A file is named by its inode number, since its name may change. A removed or
replaced file stays in a directory beside the journal, as a second name of it, until its removal is synced.

=============== ================================================== ============================
entry           fields                                             payload
=============== ================================================== ============================
``base``        directories, files by path: what was there before
``create``      path, inode
``mkdir``       path
``rename``      source, target
``remove``      path
``rmdir``       path
``write``       inode, position, size, size of the file before     the bytes that are replaced
``resize``      inode, new size, size of the file before           the bytes that are cut off
``map``         inode, size of the file                            its content, without zeros at its end
``syncing``     number, inode, whether it is mapped
``syncing in``  number, path of a directory
``synced``      number
``unsynced``    number: that sync has failed
=============== ================================================== ============================
"""

import contextlib
import itertools
import json
import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

DIRECTORY = "journal"
ENTRIES = "entries"
REMOVED = "removed"


class Entry(NamedTuple):
    kind: str
    fields: list[Any]
    payload: bytes


def read_entries(directory: Path) -> Iterator[Entry]:
    """All whole entries; the last one may be torn by the end of the process, and then did not happen."""
    with contextlib.suppress(FileNotFoundError), (directory / ENTRIES).open("rb") as file:
        while (line := file.readline()).endswith(b"\n"):
            kind, *fields, size = json.loads(line)
            payload = file.read(size)
            if len(payload) < size:
                return
            yield Entry(kind, fields, payload)


class Journal:
    """The disk sees to it that the order of entries is the order of what they are about."""

    def __init__(self, directory: Path, root: str) -> None:
        self._root = root.rstrip("/") + "/"
        self._removed = directory / REMOVED
        self._removed.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._descriptor = os.open(directory / ENTRIES, flags, 0o644)
        self._numbers = itertools.count(time.time_ns())  # unlike those of earlier processes
        self._removed_in: dict[str, list[Path]] = {}  # by directory, until it is synced
        self._moved: set[str] = set()  # directories whose new name is not synced
        self.mapped: Counter[int] = Counter()  # writable mappings by inode
        if not os.fstat(self._descriptor).st_size:
            self._begin(root)

    def path(self, path: str) -> str:
        """Relative to the root; empty for the root itself."""
        return "" if path.rstrip("/") + "/" == self._root else path.removeprefix(self._root)

    def add(self, kind: str, *fields: object, payload: bytes = b"") -> None:
        line = json.dumps([kind, *fields, len(payload)]).encode() + b"\n"
        os.write(self._descriptor, line + payload if payload else line)

    def next_number(self) -> int:
        return next(self._numbers)

    def keep(self, path: str) -> None:
        """Before the name is removed or replaced."""
        kept = self._removed / str(self.next_number())
        os.link(path, kept)
        self._removed_in.setdefault(path.rpartition("/")[0], []).append(kept)

    def renamed_directory(self, source: str, target: str) -> None:
        """A sync under the old name is of another directory from now on, and one under the new name may not
        find it after a power failure, until the new name is synced.
        """
        self._moved.add(target)
        for directory in list(self._removed_in):
            if directory == source or directory.startswith(source + "/"):
                del self._removed_in[directory]

    def removed_before_sync(self, directory: str) -> list[Path]:
        """Files that are not needed any more once the sync is done."""
        removed = self._removed_in.pop(directory, [])
        if any(directory == moved or directory.startswith(moved + "/") for moved in self._moved):
            removed = []
        self._moved -= {moved for moved in self._moved if moved.rpartition("/")[0] == directory}
        return removed

    def _begin(self, root: str) -> None:
        directories, files = [], {}
        for parent, inner, names in os.walk(root):
            directories += [self.path(f"{parent}/{name}") for name in inner]
            for name in names:
                files[self.path(f"{parent}/{name}")] = os.stat(f"{parent}/{name}").st_ino
        self.add("base", directories, files)
