"""The log of a table of plain files: changes of several files that happen together or not at all.

Owns ``_log`` and ``_staging`` of the table. Knows nothing of Spark, Parquet or topics.

New files are complete in a directory of ``_staging`` before anything else happens. An :class:`Entry` with the
next number is created: that commits the change. Then its files are moved to their places, the files that it
replaces are deleted, its staging directory, and last of all the entry before. So an entry is *pending* as
long as the one before it is there. A process that finds a pending entry carries it out before anything else.

A number is taken only once. That makes changes conditional: a process that did not see the last entry cannot
commit. An entry that was delayed until higher ones existed, and whose number was free again, is ignored: it
is not the last, and no entry names it as the one before.

What is staged may vanish at any time before it is moved. A user takes it for the rest of a dead process, or
:meth:`Log.recover` of a run that does not know of another one removes it. One rule covers both:

- Before the commit, the mark of the staging directory is missing. It is removed first.
- After the commit, a file is in neither of its two places while the entry is pending. The change is undone by
  an entry with the state before.

Then the rows are added again.

The log itself may vanish, too, or its last entry: users delete what they take for damaged. So the change is
written beside its staging directory before it is committed, and deleted right before the entry before. A
change that is found there, with files in their places and without an entry, is the one that was being
carried out (:meth:`Log._resolve`).
"""

import json
import re
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace

from tidelog.invariant import invariant
from tidelog.spark.pipelines.tables import PositionMoved, TableError, Totals
from tidelog.spark.pipelines.tables.filesystem import FileInfo, Files

LOG = "_log"
STAGING = "_staging"

# Behind the name of a staging directory.
_MARK = ".staged"  # No process has begun to remove it.
_CHANGE = ".change"  # Its moves and removes, before they are committed and until they are carried out.
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
    key: str = ""  # Unique, but for an entry 0 and those of earlier versions.
    after: str = ""  # The key of the entry before.

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
            numbers = self._numbers()
            if not numbers:
                return Entry()
            found = self._read(max(numbers))
            if found is not None:  # or a newer one replaced it after we looked
                return found

    def commit(self, after: Entry, change: Entry) -> Entry:
        """Append a change to the state ``after`` and carry it out; :class:`PositionMoved` if there is a newer
        state.
        """
        try:
            return self._commit(after, change)
        except Exception:
            # A full disk must have room again, or the next run could not even take its lock.
            with suppress(Exception):
                if change.staging and self.last().staging != change.staging:
                    self.discard(change.staging)
            raise

    def _commit(self, after: Entry, change: Entry) -> Entry:
        if after.number == 0 and not self._numbers():
            self._files.create(_name(0), after.to_json())  # to go back to
        # Only the last entry is ever carried out: what it says must be true before there is another.
        if self.is_pending(after) and not self._carry_out(after):
            raise PositionMoved("Files of an earlier step were deleted; run the pipeline again.")
        if change.staging:
            planned = {"moves": change.moves, "removes": change.removes}
            self._files.write(change.staging + _CHANGE, json.dumps(planned).encode())
        # Looked at as late as possible: what was deleted later is missing in :meth:`_carry_out`.
        if change.staging and not self._files.exists(change.staging + _MARK):
            raise PositionMoved("What a step had written was deleted; run the pipeline again.")
        entry = self._append(after, change)
        if not self._carry_out(entry):
            raise PositionMoved("The files of a step were deleted before they were added; run it again.")
        return entry

    def _append(self, after: Entry, change: Entry) -> Entry:
        entry = replace(change, number=after.number + 1, key=uuid.uuid4().hex, after=after.key)
        if self._files.create(_name(entry.number), entry.to_json()):
            if max(self._numbers(), default=0) <= entry.number:
                return entry
            following = self._read(entry.number + 1)
            # The number was free because newer entries had replaced its owner: ours was never valid. Unless
            # another process has carried out ours and gone on; then it is what that one may go back to.
            if following is None or following.after != entry.key:
                self._files.delete(_name(entry.number))
        raise PositionMoved("Another run changed the table at the same time; run the pipeline again.")

    def is_pending(self, entry: Entry) -> bool:
        """Whether files may not yet be where the entry says."""
        return self._before(entry) is not None

    def recover(self) -> Entry:
        """Carry out the last change, and remove what was staged and never committed. Only for the one run
        that may change the table; another one, whose lock was broken, does its step again.
        """
        entry = self.completed()
        abandoned, beside = self._files.directories(STAGING), self._files.files(STAGING)
        for change in [one.name for one in beside if one.name.endswith(_CHANGE)]:
            if not self._resolve(change, entry):
                return self.recover()
        for one in beside:
            self._files.delete(one.name)
        for directory in abandoned:
            self._files.delete(directory)
        return entry

    def _resolve(self, name: str, entry: Entry) -> bool:
        """End a change that was being carried out when its entry was deleted. False: ``entry`` is not the
        state any more.

        A merge is finished: what it replaces may be gone in part. A step is finished if the whole log is
        gone, because the position is then found from the rows. If an earlier entry is left, that one has the
        position, and the rows of the step are removed and read again. So they are if files are missing.
        """
        try:
            planned = json.loads(self._files.read(name))
        except FileNotFoundError:
            return False
        moves: dict[str, str] = planned["moves"]
        if not any(self._files.exists(target) for target in moves.values()):
            return True  # It was never committed, or nothing of it was moved.
        if self.last() != entry:
            return False  # Another process has committed it meanwhile.
        finishes = bool(planned["removes"]) or not self._numbers()
        if finishes and all(self._is_moved(*move) for move in moves.items()):
            replaced = planned["removes"]
        else:
            replaced = list(moves.values())
        for one in replaced:
            self._files.delete(one)
        return True

    def _is_moved(self, source: str, target: str) -> bool:
        return self._files.move(source, target) or self._files.exists(target)

    def completed(self) -> Entry:
        """The state, with all files where it says."""
        while True:
            entry = self.last()
            if not self.is_pending(entry) or self._carry_out(entry):
                return entry

    def new_staging(self) -> str:
        staging = f"{STAGING}/{uuid.uuid4().hex[:16]}"
        self._files.write(staging + _MARK, b"")
        return staging

    def discard(self, staging: str) -> None:
        """What was staged and will not be committed, or has been moved."""
        self._files.delete(staging + _MARK)
        self._files.delete(staging)
        self._files.delete(staging + _CHANGE)

    def staged(self, staging: str) -> list[FileInfo]:
        """What Spark wrote. A task that lost against its copy may write to a hidden directory afterwards."""
        found = self._files.files(staging, recursive=True)
        return [one for one in found if _is_data(one.name[len(staging) + 1 :])]

    def visible(self, directory: str, entry: Entry | None = None) -> list[FileInfo]:
        """The files with the rows, each row in one: of a change that is being carried out all or nothing
        counts.
        """
        entry = entry or self.last()
        if not self.is_pending(entry):
            return self._data(directory)
        prefix = f"{directory}/" if directory else ""
        targets = {target for target in entry.moves.values() if target.startswith(prefix)}
        replaced = {*entry.removes}
        while True:
            found = self._data(directory)
            if targets <= {one.name for one in found}:
                return [one for one in found if one.name not in replaced]
            # Old files are removed only when all new ones are in place. If these are there now, old ones may
            # be missing in what was listed just before.
            if not all(self._files.exists(target) for target in targets):
                return [one for one in found if one.name not in targets]

    def _data(self, directory: str) -> list[FileInfo]:
        return [one for one in self._files.files(directory, recursive=True) if _is_data(one.name)]

    def _carry_out(self, entry: Entry) -> bool:
        """False: files of the change are gone. It was undone; or another process undid it, or carried it out
        and replaced them since.
        """
        moved = [self._files.move(source, target) for source, target in entry.moves.items()]
        if not all(moved):  # by us: another process may have done so
            places = {target: self._files.exists(target) for target in entry.moves.values()}
            if not all(places.values()):
                # Last: if the entry is still pending, no later change has removed the files.
                if (before := self._before(entry)) is not None:
                    self._undo(entry, before, [target for target, is_there in places.items() if is_there])
                return False
        for name in entry.removes:
            self._files.delete(name)
        if entry.staging:
            self.discard(entry.staging)
        for number in sorted(self._numbers()):  # the one before is the last
            if number < entry.number:
                self._files.delete(_name(number))
        return True

    def _undo(self, entry: Entry, before: Entry, moved: list[str]) -> None:
        back = replace(before, schemas=entry.schemas, staging=entry.staging, moves={}, removes=moved)
        self._carry_out(self._append(entry, back))

    def _before(self, entry: Entry) -> Entry | None:
        """The state before, until the entry is carried out."""
        found = self._read(entry.number - 1) if entry.number else None
        return found if found is not None and found.key == entry.after else None

    def _read(self, number: int) -> Entry | None:
        """None if there is no such entry."""
        try:
            return Entry.from_json(self._files.read(_name(number)))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, KeyError):
            raise TableError(
                f"The table's log is damaged: {_name(number)} cannot be read; restore it from a copy, or "
                "delete it to let the next run find the position from the records."
            ) from None

    def _numbers(self) -> set[int]:
        return {int(found[1]) for one in self._files.files(LOG) if (found := _ENTRY.fullmatch(one.name))}


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
