"""The log of a table of plain files: changes of several files that happen together or not at all.

Owns ``_log`` and ``_staging`` of the table. Knows nothing of Spark, Parquet or topics.

New files are complete in a directory of ``_staging`` before anything else happens. An :class:`Entry` with the
next number is created: that commits the change. Then its files are moved to their places, the files that it
replaces are deleted, and last of all its staging directory. A process that finds the staging directory of the
last entry finishes that entry first. Every entry has the whole state, so the ones before it are deleted.

A number is taken only once. That makes changes conditional: a process that did not see the last entry cannot
commit. An entry that was delayed until higher ones existed, and whose number was free again, is ignored.

What is staged may be deleted before it is moved, by a user who takes it for the rest of a dead process.
Before the commit the mark of the staging directory tells, which is removed first. After it, a file that is in
neither place tells: the change is undone by an entry with the state before, which is there until a change is
carried out. Its rows are then added again.

Staged files that were never committed are removed by the next run. Their owner may still be alive, if its
lock was broken: a new entry without a change comes first, so that it cannot commit them any more.
"""

import json
import re
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace

from tidelog.invariant import invariant
from tidelog.spark.pipelines.tables import PositionMoved, TableError, Totals
from tidelog.spark.pipelines.tables.filesystem import FileInfo, Files

LOG = "_log"
STAGING = "_staging"

_MARK = ".staged"  # Behind the name of a staging directory: nobody has begun to remove it.
_PENDING = "_pending"  # In a staging directory: its entry has not been carried out.
_ENTRY = re.compile(rf"{LOG}/(\d+)\.json")
# Number of the task, and of its file in the directory. Files that are not compressed have no codec's suffix.
_PART = re.compile(r"part-(\d+)-.*[.-]c(\d+)\.(?:\w+\.)?parquet$")


@dataclass(frozen=True, slots=True)
class Entry:
    """The state after a change, and the change."""

    number: int = 0
    position: str = ""  # Whatever says how far the table is; empty in a new table.
    schemas: dict[str, str] = field(default_factory=dict)  # By directory: all columns that files in it have.
    totals: Totals = field(default_factory=Totals)
    staging: str = ""  # Empty: there are no moves.
    moves: dict[str, str] = field(default_factory=dict)  # From the staging directory to the place.
    removes: list[str] = field(default_factory=list)

    @property
    def is_new(self) -> bool:
        """Nothing was ever added."""
        return not self.position

    def to_json(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_json(cls, content: bytes) -> "Entry":
        fields = json.loads(content)
        return cls(**(fields | {"totals": Totals(**fields["totals"])}))


class Log:
    def __init__(self, files: Files) -> None:
        self._files = files

    def last(self) -> Entry:
        """The state; ``number`` is 0 in a new table."""
        while True:
            names = self._entries()
            if not names:
                return Entry()
            try:
                return Entry.from_json(self._files.read(names[max(names)]))
            except FileNotFoundError:
                continue  # a newer one replaced it after we looked
            except (ValueError, TypeError, KeyError):
                raise TableError(
                    f"The table's log is damaged: {names[max(names)]} cannot be read; restore it from a "
                    "copy, or delete it to let the next run find the position from the records."
                ) from None

    def commit(self, after: Entry, change: Entry) -> Entry:
        """Append a change to the state ``after`` and carry it out; :class:`PositionMoved` if there is a newer
        state.
        """
        if after.number == 0 and not self._entries():
            self._files.create(_name(0), after.to_json())  # to go back to
        # Only the last entry is ever finished: what it says must be true before there is another.
        if self.is_pending(after) and not self._carry_out(after):
            raise PositionMoved("Files of an earlier step were deleted; run the pipeline again.")
        entry = self._append(after, change)
        if not self._carry_out(entry):
            raise PositionMoved("The files of a step were deleted before they were added; run it again.")
        return entry

    def _append(self, after: Entry, change: Entry) -> Entry:
        if change.staging:
            # A directory of an object store exists only as long as something is in it.
            self._files.write(f"{change.staging}/{_PENDING}", b"")
        entry = replace(change, number=after.number + 1)
        name = _name(entry.number)
        if not self._files.create(name, entry.to_json()):
            raise PositionMoved("Another run changed the table at the same time; run the pipeline again.")
        if max(self._entries(), default=0) > entry.number:
            # The number was free because newer entries had replaced its owner: ours was never valid.
            self._files.delete(name)
            raise PositionMoved("Another run changed the table at the same time; run the pipeline again.")
        return entry

    def is_pending(self, entry: Entry) -> bool:
        """Whether files are not yet where the entry says."""
        return bool(entry.staging) and self._files.exists(f"{entry.staging}/{_PENDING}")

    def recover(self) -> Entry:
        """Finish the last change, and remove what was staged and never committed. Only for the one run that
        may change the table.
        """
        entry = self.last()
        if entry.number and not self._carry_out(entry):
            entry = self.last()
        # Listed before the entry: what is staged later may still be committed.
        abandoned, marks = self._files.directories(STAGING), self._files.files(STAGING)
        if abandoned:
            entry = self.commit(entry, replace(entry, staging="", moves={}, removes=[]))
        for mark in marks:
            self._files.delete(mark.name)
        for directory in abandoned:
            self._files.delete(directory)
        return entry

    def settled(self) -> Entry:
        """The state, with all files where it says."""
        entry = self.last()
        if self.is_pending(entry) and not self._carry_out(entry):
            entry = self.last()
        return entry

    def new_staging(self) -> str:
        staging = f"{STAGING}/{uuid.uuid4().hex[:16]}"
        self._files.write(staging + _MARK, b"")
        return staging

    def discard(self, staging: str) -> None:
        """What was staged and will not be committed, or has been moved."""
        self._files.delete(staging + _MARK)
        self._files.delete(staging)

    def staged(self, staging: str) -> list[FileInfo]:
        """What Spark wrote; :class:`PositionMoved` if another process may have removed some of it. A task
        that lost against its copy may write to a hidden directory afterwards.
        """
        found = self._files.files(staging, recursive=True)
        if not self._files.exists(staging + _MARK):  # last: it is the first that is removed
            raise PositionMoved("What a step had written was deleted; run the pipeline again.")
        return [one for one in found if _is_data(one.name[len(staging) + 1 :])]

    def visible(self, directory: str, entry: Entry | None = None) -> list[FileInfo]:
        """The files with the rows, each row in one: of a change that is being carried out all or nothing
        counts.
        """
        entry = entry or self.last()
        is_pending = self.is_pending(entry)
        found = [one for one in self._files.files(directory, recursive=True) if _is_data(one.name)]
        if not is_pending:
            return found
        prefix = f"{directory}/" if directory else ""
        targets = {target for target in entry.moves.values() if target.startswith(prefix)}
        # Old files are removed only when all new ones are in place.
        is_moved = targets <= {one.name for one in found}
        hidden = set(entry.removes) if is_moved else targets
        return [one for one in found if one.name not in hidden]

    def _carry_out(self, entry: Entry) -> bool:
        """False: files of the change are gone, so it was undone."""
        moved = [self._files.move(source, target) for source, target in entry.moves.items()]
        # All were moved already if this was done before; then the state before it may be gone, and any file
        # that is missing was deleted later.
        if not all(moved) and entry.number - 1 in self._entries():
            places = {target: self._files.exists(target) for target in entry.moves.values()}
            if not all(places.values()):
                self._undo(entry, [target for target, is_there in places.items() if is_there])
                return False
        for name in entry.removes:
            self._files.delete(name)
        if entry.staging:
            self.discard(entry.staging)
        for number, name in self._entries().items():
            if number < entry.number:
                self._files.delete(name)
        return True

    def _undo(self, entry: Entry, moved: list[str]) -> None:
        before = Entry.from_json(self._files.read(_name(entry.number - 1)))
        back = replace(before, schemas=entry.schemas, staging=self.new_staging(), moves={}, removes=moved)
        self._carry_out(self._append(entry, back))

    def _entries(self) -> dict[int, str]:
        found = ((_ENTRY.fullmatch(one.name), one.name) for one in self._files.files(LOG))
        return {int(match[1]): name for match, name in found if match}


def placed(staged: list[FileInfo], staging: str, place: Callable[[str], str]) -> dict[str, str]:
    """Where staged files belong. ``place`` maps the directory within the staging directory to that of the
    table. Names are unique: those of the staging directory are.
    """
    moves = {}
    for one in staged:
        inner, _, file = one.name[len(staging) + 1 :].rpartition("/")
        found = _PART.match(file)
        part = f"{found[1]}-{found[2]}" if found else file.removesuffix(".parquet")
        directory = place(inner)
        name = f"{staging.rpartition('/')[2]}-{part}.parquet"
        moves[one.name] = f"{directory}/{name}" if directory else name
    invariant(len({*moves.values()}) == len(moves), "two staged files would have the same name")
    return moves


def _is_data(name: str) -> bool:
    return name.endswith(".parquet") and not any(part.startswith(("_", ".")) for part in name.split("/"))


def _name(number: int) -> str:
    return f"{LOG}/{number:012}.json"
