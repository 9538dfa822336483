"""Reads the journal of a disk: which names and bytes a power failure would leave.

Pure: entries in, a :class:`Remains` out. The rules are those of :mod:`tidelog.log.storage`, at their worst:
nothing is left that was not synced. They are held to the simulator's disk by a test.
"""

import itertools
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

from tidelog.runtime.hooks.journal import Entry

PENDING, SYNCED, GIVEN_UP = "pending", "synced", "given up"
"""Of a change. One whose sync has failed is given up: no later sync makes it safe."""


class Change(NamedTuple):
    """Of one file's bytes, and how to undo it."""

    number: int
    kind: str  # "write", "resize" or "map"
    position: int  # of a write; the new size of a resize
    size: int  # of a write
    size_before: int  # of the file
    replaced: bytes  # from the position on; the whole content of a mapped file
    state: str = PENDING


class Remains(NamedTuple):
    files: dict[str, int]  # inode by path
    directories: set[str]
    changes: dict[int, list[Change]]  # by inode, oldest first


Names = tuple[dict[str, int], set[str]]
NameChange = Callable[[Names], None]


class _Sync(NamedTuple):
    inode: int | None
    number: int  # changes of the file before this one
    is_mapped: bool
    names: list[NameChange]  # of the directory
    names_count: int  # of them, before the sync


class Replay:
    def __init__(self) -> None:
        self._now: Names = ({}, set())
        self._safe: Names = ({}, set())
        self._pending: dict[str, list[NameChange]] = {}
        self._changes: dict[int, list[Change]] = {}
        self._syncs: dict[int, _Sync] = {}
        self._born: dict[int, int] = {}  # inode → number of its creation
        self._count = 0  # of changes and creations
        self._steps = {
            "base": self._base,
            "create": self._create,
            "mkdir": self._mkdir,
            "rename": self._rename,
            "remove": self._remove,
            "rmdir": self._rmdir,
            "write": self._write,
            "resize": self._resize,
            "map": self._map,
            "syncing": self._syncing,
            "syncing in": self._syncing_in,
            "synced": self._synced,
            "unsynced": self._unsynced,
        }

    def remains(self, entries: Iterable[Entry]) -> Remains:
        for entry in entries:
            self._steps[entry.kind](entry)
        files, directories = self._safe
        # A directory whose name was lost is lost with its content.
        for directory in sorted(directories):
            if _parent(directory) and _parent(directory) not in directories:
                directories.discard(directory)
        kept = {
            path: inode for path, inode in files.items() if not _parent(path) or _parent(path) in directories
        }
        return Remains(kept, directories, self._changes)

    # -- names ---------------------------------------------------------------------------

    def _base(self, entry: Entry) -> None:
        directories, files = entry.fields
        for names in (self._now, self._safe):
            names[0].update(files)
            names[1].update(directories)
        self._born.update(dict.fromkeys(files.values(), 0))

    def _change_names(self, path: str, change: NameChange) -> None:
        change(self._now)
        self._pending.setdefault(_parent(path), []).append(change)

    def _create(self, entry: Entry) -> None:
        path, inode = entry.fields
        self._changes[inode] = []  # the number may have been that of another file
        self._born[inode] = self._next()
        self._change_names(path, lambda names: names[0].__setitem__(path, inode))

    def _next(self) -> int:
        self._count += 1
        return self._count

    def _mkdir(self, entry: Entry) -> None:
        (path,) = entry.fields
        self._change_names(path, lambda names: names[1].add(path))

    def _remove(self, entry: Entry) -> None:
        (path,) = entry.fields
        self._change_names(path, lambda names: _forget(names[0], path))

    def _rmdir(self, entry: Entry) -> None:
        (path,) = entry.fields
        self._change_names(path, lambda names: names[1].discard(path))

    def _rename(self, entry: Entry) -> None:
        source, target = entry.fields
        if source in self._now[1]:
            self._rename_directory(source, target)
        elif source in self._now[0]:
            inode = self._now[0][source]

            def change(names: Names) -> None:
                names[0].pop(source, None)
                names[0][target] = inode

            self._change_names(source, change)

    def _rename_directory(self, source: str, target: str) -> None:
        """Changes inside of it become safe with this one at the latest. Files that are created under the old
        name from now on are in another directory.
        """
        inside, born = self._pending.pop(source, []), self._next()

        def change(names: Names) -> None:
            files, directories = names
            newer = {
                path: inode
                for path, inode in files.items()
                if path.startswith(source + "/") and self._born[inode] > born
            }
            if names is self._safe:
                for earlier in inside:
                    earlier(names)
            for path in [path for path in files if path.startswith(source + "/") and path not in newer]:
                files[target + path[len(source) :]] = files.pop(path)
            for path in [path for path in directories if f"{path}/".startswith(source + "/")]:
                directories.discard(path)
                directories.add(target + path[len(source) :])
            files.update(newer)

        self._change_names(source, change)

    # -- bytes ---------------------------------------------------------------------------

    def _write(self, entry: Entry) -> None:
        inode, position, size, before = entry.fields
        self._note(inode, Change(self._next(), "write", position, size, before, entry.payload))

    def _resize(self, entry: Entry) -> None:
        inode, size, before = entry.fields
        self._note(inode, Change(self._next(), "resize", size, 0, before, entry.payload))

    def _map(self, entry: Entry) -> None:
        inode, size = entry.fields
        self._note(inode, Change(self._next(), "map", 0, 0, size, entry.payload))

    def _note(self, inode: int, change: Change) -> None:
        self._changes.setdefault(inode, []).append(change)

    # -- syncs ---------------------------------------------------------------------------

    def _syncing(self, entry: Entry) -> None:
        number, inode, is_mapped = entry.fields
        self._syncs[number] = _Sync(inode, self._next(), is_mapped, [], 0)

    def _syncing_in(self, entry: Entry) -> None:
        number, path = entry.fields
        names = self._pending.setdefault(path, [])
        self._syncs[number] = _Sync(None, 0, False, names, len(names))

    def _synced(self, entry: Entry) -> None:
        sync = self._syncs.pop(entry.fields[0])
        if sync.inode is not None:
            if sync.is_mapped:  # every page of a mapped file counts as changed
                self._mark(sync.inode, sync.number, SYNCED, of=(PENDING, GIVEN_UP))
            else:
                self._mark(sync.inode, sync.number, SYNCED)
            return
        for change in sync.names[: sync.names_count]:
            change(self._safe)
        del sync.names[: sync.names_count]

    def _unsynced(self, entry: Entry) -> None:
        sync = self._syncs.pop(entry.fields[0])
        if sync.inode is not None:
            self._mark(sync.inode, sync.number, GIVEN_UP)

    def _mark(self, inode: int, before: int, state: str, of: Collection[str] = (PENDING,)) -> None:
        """What is safe is forgotten, unless something before it is to be undone."""
        marked = [
            change._replace(state=state) if change.state in of and change.number < before else change
            for change in self._changes.get(inode, [])
        ]
        self._changes[inode] = list(itertools.dropwhile(lambda change: change.state == SYNCED, marked))


def undone(content: bytearray, changes: Sequence[Change]) -> bytearray:
    """The bytes of a file without those of the changes that are not synced."""
    found = bytearray()  # bytes that a synced change has decided
    is_decided = bytearray()
    limit = max([len(content), *(max(each.size_before, each.position + each.size) for each in changes)])
    for change in reversed(changes):
        if change.state == SYNCED:
            _decide(found, is_decided, content, change, limit)
        _undo(content, change)
    size = len(content)
    for change in changes:
        if change.state == SYNCED and change.kind == "write":
            size = max(size, change.position + change.size)
        elif change.state == SYNCED:
            size = change.position if change.kind == "resize" else max(size, change.size_before)
    resize(content, size)
    for position in range(min(size, len(found))):
        if is_decided[position]:
            content[position] = found[position]
    return content


def _undo(content: bytearray, change: Change) -> None:
    if change.kind == "map":
        content[:] = change.replaced
    else:
        content[change.position : change.position + len(change.replaced)] = change.replaced
    resize(content, change.size_before)


def _decide(found: bytearray, is_decided: bytearray, content: bytearray, change: Change, limit: int) -> None:
    """Bytes that no later synced change has written are those of this one. Behind a new size are zeros."""
    if change.kind == "map":
        start, end, source = 0, len(content), content
    elif change.kind == "write":
        start, end, source = change.position, change.position + change.size, content
    else:
        start, end, source = change.position, limit, bytearray(limit)
    for part in (found, is_decided):
        resize(part, max(len(part), end))
    for position in range(start, end):
        if not is_decided[position]:
            found[position], is_decided[position] = source[position], 1


def resize(content: bytearray, size: int) -> None:
    del content[size:]
    content.extend(bytes(size - len(content)))


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _forget(files: dict[str, int], path: str) -> None:
    files.pop(path, None)
