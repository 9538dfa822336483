"""An archive of two tables, each with commits of its own, that behaves like one.

Iceberg and Delta commit one table at a time, and a step has rows for two: records and undecodable records.
The table of records decides. Its commit carries the position, the name of the attempt, and the number of
files that the attempt wrote for the other table; these are added to it in a second commit. A run that finds
the second commit missing does it first (:meth:`TwoTables.prepare`, :meth:`TwoTables.append`): the files are
there, under the name of the attempt.

===================================  =====================================================================
killed before the first commit       the table has the old position; files of the attempt are unused
killed between the two               the next run adds the undecodable records, then goes on
two runs at the same time            both commits are conditional on the mark that was read: one run wins
failed before the first commit       the files of the attempt are removed
===================================  =====================================================================
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from tidelog.spark.pipelines.tables import (
    Added,
    Compacted,
    Position,
    PositionMoved,
    Raw,
    Rows,
    Say,
    Step,
    TableError,
    Totals,
    check_directories,
)
from tidelog.spark.pipelines.tables.staging import Written, new_attempt

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class Mark:
    """What a commit of an archive says besides its files."""

    position: Position = field(default_factory=Position)
    attempt: int = 0  # Names the files of the commit; 0: nothing was ever added.
    apart: int = 0  # Files of the same attempt that belong to the table of undecodable records.
    # Of both tables, that all steps have added: what another program deletes is missing. UNKNOWN if an
    # earlier version made the commit.
    rows: int = UNKNOWN


class Commits(Protocol):
    """One table of a format whose commits are conditional."""

    @property
    def path(self) -> str: ...

    def usable(self) -> None:
        """Raise :class:`TableError` if the format cannot be used here."""

    def exists(self) -> bool: ...

    def mark(self) -> Mark:
        """Of the latest commit that has one; an empty one if there is no table."""

    def write(self, rows: "DataFrame", attempt: int, raw: Raw | None = None) -> list[Written]:
        """Write files that no reader sees. Creates the table and adds columns, if needed. ``raw``: where the
        rows come from, if they are as they were fetched.
        """

    def written(self, attempt: int) -> list[Written]:
        """The files of :meth:`write`, also if another process called it."""

    def discard(self, attempt: int) -> None:
        """Remove what :meth:`write` made, or had begun to make, and will never be committed."""

    def commit(self, files: list[Written], mark: Mark, *, expected: Mark) -> None:
        """Add the files and the mark, or raise :class:`PositionMoved` unless the table has the expected
        one.
        """

    def compact(self, *, target_bytes: int, say: Say, files_min: int = 2) -> Compacted: ...

    def expire(self, *, older_than_ms: int, say: Say) -> Compacted: ...

    def read(self, attempt: int = 0, *, left: bool = False) -> "DataFrame":
        """Also the files of this attempt, if they are written and not committed. ``left``: without files
        that were deleted.
        """

    def totals(self) -> tuple[int, int, int]:
        """Rows, files, bytes."""


# The position of an archive that an earlier version made; None if there is none.
Earlier = Callable[[], Position | None]


class TwoTables:
    """Implements :class:`tidelog.spark.pipelines.tables.Table`."""

    def __init__(
        self,
        target: str,
        records: Commits,
        undecodable: Commits,
        found_before: Earlier | None = None,
        *,
        has_topic_directories: bool = False,
    ) -> None:
        self.target = target
        self._records = records
        self._undecodable = undecodable
        self._found_before = found_before
        self._has_topic_directories = has_topic_directories

    def exclusive(self) -> AbstractContextManager[None]:
        return nullcontext()  # Every commit is conditional.

    def prepare(self, say: Say) -> None:
        self._records.usable()
        mark = self._records.mark()
        if mark.attempt == 0 and self._found_before is not None:
            mark = self._take_over(mark, self._found_before, say)
        self._complete(mark, say)

    def position(self) -> Position:
        return self._records.mark().position

    def append(self, rows: Rows, step: Step) -> Added:
        before = self._records.mark()
        if before.position != step.before:
            raise PositionMoved(f"{self.target} has another position: another run added records.")
        if self._has_topic_directories:
            check_directories(step.after, self.target)
        if before.attempt == 0:
            self._check_begins()
        self._complete(before)
        rows_before = self._rows(before)
        attempt = new_attempt()
        try:
            files, apart = self._write(rows, attempt)
            step.confirm()
            if apart and len(self._undecodable.written(attempt)) != len(apart):
                # The commits look at the files that they add; behind the first one, it would be too late.
                raise removed_before_the_commit(self._undecodable.path)
        except Exception:
            # A full disk must have room again. Not after the commit has begun: it may count in spite of an
            # error, when the answer of a catalog was lost.
            self._discard(attempt)
            raise
        records, undecodable = sum(one.rows for one in files), sum(one.rows for one in apart)
        mark = Mark(step.after, attempt, len(apart), rows_before + records + undecodable)
        self._records.commit(files, mark, expected=before)
        self._add_apart(apart, Mark(step.after, attempt))
        return Added(
            records=records,
            undecodable=undecodable,
            files=len(files) + len(apart),
            bytes=sum(one.bytes for one in (*files, *apart)),
        )

    def _check_begins(self) -> None:
        """Refuse to begin a new archive beside the undecodable records of the one before, which would all
        be added again.
        """
        if self._undecodable.mark().attempt and not self._records.mark().attempt:
            raise TableError(
                f"{self.target} has undecodable records, and its table of records is gone or empty: restore "
                "that, or remove both tables, or archive to a new target."
            )

    def _discard(self, attempt: int) -> None:
        for one in (self._records, self._undecodable):
            with suppress(Exception):  # the failure before is the one to tell; expiry removes what is left
                one.discard(attempt)

    def _write(self, rows: Rows, attempt: int) -> tuple[list[Written], list[Written]]:
        if rows.undecodable is None:
            return self._records.write(rows.records, attempt, rows.raw), []
        # The two tables have other columns, so Spark writes them one after the other; it reads the topics and
        # decodes the values once.
        kept = rows.marked.persist() if rows.marked is not None else None
        try:
            apart = self._undecodable.write(rows.undecodable, attempt)
            return self._records.write(rows.records, attempt), apart
        finally:
            if kept is not None:
                kept.unpersist()

    def compact(self, *, target_bytes: int, say: Say, files_min: int = 2) -> Compacted:
        self.prepare(say)
        return _sum(
            self._records.compact(target_bytes=target_bytes, say=say, files_min=files_min),
            self._undecodable.compact(target_bytes=target_bytes, say=say, files_min=files_min),
        )

    def expire(self, *, older_than_ms: int, say: Say) -> Compacted:
        self.prepare(say)
        return _sum(
            self._records.expire(older_than_ms=older_than_ms, say=say),
            self._undecodable.expire(older_than_ms=older_than_ms, say=say),
        )

    def read(self, *, left: bool = False) -> "DataFrame":
        return self._records.read(left=left)

    def read_undecodable(self, *, left: bool = False) -> "DataFrame | None":
        """With those of a step whose second commit is missing: its records are read, too."""
        mark = self._records.mark()
        if self._lacks(mark):
            self._written_apart(mark)
            return self._undecodable.read(mark.attempt, left=left)
        return self._undecodable.read(left=left) if self._undecodable.totals()[0] else None

    def totals(self) -> Totals:
        """Of what :meth:`read` and :meth:`read_undecodable` find."""
        mark = self._records.mark()
        more = self._written_apart(mark) if self._lacks(mark) else []
        records, files, size = self._records.totals()
        undecodable, more_files, more_size = self._undecodable.totals()
        return Totals(
            records,
            undecodable + sum(one.rows for one in more),
            files + more_files + len(more),
            size + more_size + sum(one.bytes for one in more),
        )

    def added(self) -> int | None:
        rows = self._records.mark().rows
        return None if rows == UNKNOWN else rows

    def _rows(self, mark: Mark) -> int:
        """That steps have added so far. What was not counted is taken from the tables once."""
        if mark.rows != UNKNOWN:
            return mark.rows
        totals = self.totals()
        return totals.records + totals.undecodable

    def _take_over(self, before: Mark, found_before: Earlier, say: Say) -> Mark:
        position = found_before()
        if position is None:
            return before
        taken = Mark(position, new_attempt())
        self._records.commit([], taken, expected=before)
        say(f"{self.target} was made by an earlier version: its position was taken over from its records.")
        return taken

    def _complete(self, mark: Mark, say: Say = lambda text: None) -> None:
        """Do the second commit of an earlier step, if that is missing."""
        if self._lacks(mark):
            say("completing the last step of an earlier run")
            self._add_apart(self._written_apart(mark), Mark(mark.position, mark.attempt))

    def _lacks(self, mark: Mark) -> bool:
        """Whether the second commit of a step is missing. Not if the whole table was deleted: its records are
        gone, which verification tells, and the archive goes on.
        """
        found = self._undecodable
        return bool(mark.apart) and found.mark().attempt != mark.attempt and found.exists()

    def _written_apart(self, mark: Mark) -> list[Written]:
        files = self._undecodable.written(mark.attempt)
        if len(files) != mark.apart:
            raise TableError(
                f"{self._undecodable.path} lacks {mark.apart - len(files)} of {mark.apart} files with "
                "undecodable records that an interrupted run wrote: restore the files, or archive the topics "
                "to a new target."
            )
        return files

    def _add_apart(self, files: list[Written], mark: Mark) -> None:
        while files:
            found = self._undecodable.mark()
            if found.attempt == mark.attempt or self._records.mark().attempt != mark.attempt:
                # Another run completed the step. It may have gone on already, which it does only after
                # that; hence the table of records is looked at last.
                return
            try:
                self._undecodable.commit(files, mark, expected=found)
            except PositionMoved:
                continue
            return


def removed_before_the_commit(path: str) -> PositionMoved:
    """A step took so long that an expiry took its files for those of a killed run."""
    return PositionMoved(
        f"Files that a step wrote to {path} were removed before they were added; run it again."
    )


def without_metadata(path: str, metadata: str) -> TableError:
    """Files and nothing that names them: a new table would begin at the beginning of the topics, lack what
    they have deleted since, and let an expiry remove the old files.
    """
    return TableError(
        f"{path} has files of records, and its {metadata} is gone: restore it from a copy, or archive to a "
        "new target."
    )


def incomplete(path: str) -> TableError:
    return TableError(
        f"{path} lacks the last step of an interrupted run: run the archive again, then read it."
    )


def _sum(one: Compacted, other: Compacted) -> Compacted:
    return Compacted(
        one.removed_files + other.removed_files,
        one.added_files + other.added_files,
        one.removed_bytes + other.removed_bytes,
        one.added_bytes + other.added_bytes,
    )
