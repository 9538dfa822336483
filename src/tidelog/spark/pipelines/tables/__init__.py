"""What an archive needs of a table format, and the values that cross that boundary.

An archive is one table of records and one of undecodable records. Its *position* says which offsets are in
it. The position lies in the table's own metadata and changes only together with the rows: there is no
checkpoint beside the table that could be lost or be out of step with it.

A *step* adds the records between two positions. It is conditional on the first: a step that is run again, or
by a second run at the same time, finds another position and adds nothing (:class:`PositionMoved`).

One module per format implements :class:`Table`; :mod:`tidelog.spark.pipelines.stepping` plans the steps.
"""

import json
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PARTITION_COLUMNS = ("topic", "date")  # Of both tables; date is the day of the timestamp in UTC.

# The columns that say which record a row is. A row of an archive from before topic ids has no topicId (null).
IDENTITY_COLUMNS = ("topic", "topicId", "partition", "offset")

# In the name of a directory, Hive's convention for a value that is null.
NULL_DIRECTORY = "__HIVE_DEFAULT_PARTITION__"

MARK = "undecodable"


class Place(NamedTuple):
    """One partition of one incarnation of a topic: a topic that is deleted and created again has a new id."""

    topic: str
    topic_id: str  # As Kafka writes it; empty if the cluster does not report ids.
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Span(NamedTuple):
    """Offsets of a place: all committed records that existed when they were read are in the table."""

    start: int
    end: int  # Exclusive: the next offset to add.

    @property
    def size(self) -> int:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Position:
    """What a table contains. Earlier incarnations of a topic stay in it: their records do, too."""

    spans: Mapping[Place, Span] = field(default_factory=dict)

    def to_json(self) -> str:
        """For a table's properties; the same position gives the same text."""
        rows = [[*place, *span] for place, span in sorted(self.spans.items())]
        return json.dumps(rows, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Self:
        return cls({Place(*row[:3]): Span(*row[3:]) for row in json.loads(text)})


@dataclass(frozen=True, slots=True)
class Step:
    """Rows that are added together with a position."""

    number: int  # Counts the steps of one run, from 0; for progress and file names only.
    before: Position  # What the table must contain, or nothing is added.
    after: Position
    # Called when the rows have been read, before they are committed: raises if they must not be.
    confirm: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True)
class Raw:
    """Where the rows of a step come from, if they are archived as they are: a table may have the tasks that
    fetch them write its files (:mod:`tidelog.spark.pipelines.tables.direct`).
    """

    options: Mapping[str, str]  # Of the batch read that gives exactly these rows.
    topic_ids: Mapping[str, str]  # By topic; empty where the cluster reports none.
    file_bytes: int = 128 << 20  # Size at which a file is full.


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a step. Both have :data:`IDENTITY_COLUMNS` and ``date``."""

    records: "DataFrame"
    undecodable: "DataFrame | None" = None  # None: nothing is decoded.
    # What both are parts of, told apart by the column MARK. Decoding a value again may give another result,
    # and the record would be in both tables or in none: formats write this in one pass, or persist it.
    marked: "DataFrame | None" = None
    is_empty: bool = False  # Known to be: only the position moves, and no job is needed.
    is_raw: bool = False  # ``records`` are as fetched, with topicId and date, and there is nothing else.
    raw: Raw | None = None  # Only if ``is_raw``.


@dataclass(frozen=True, slots=True)
class Added:
    """What a step added."""

    records: int = 0
    undecodable: int = 0
    files: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class Totals:
    """What the table contains, from its metadata."""

    records: int = 0
    undecodable: int = 0
    files: int = 0  # Of both tables.
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class Compacted:
    """What a compaction, or an expiry of old snapshots, changed."""

    removed_files: int = 0
    added_files: int = 0
    removed_bytes: int = 0
    added_bytes: int = 0


class TableError(Exception):
    """A table that cannot be used as asked; the message is a sentence that says what to do."""


class PositionMoved(TableError):
    """The table does not have the position that a step started from: another run was faster."""


class TableLocked(TableError):
    """Another run has this table."""


def check_values(known: Collection[str], added: Collection[str], table: str) -> None:
    """Raise :class:`TableError` if only one has the column of the original values: a value that was dropped
    would look like one that never was.
    """
    if ("value" in known) != ("value" in added):
        has, do = ("has", "do not drop them") if "value" in known else ("has not", "drop them (--drop-value)")
        raise TableError(
            f"{table} {has} the original values of its records: {do}, or archive to another target."
        )


def check_directories(position: Position, target: str) -> None:
    """Raise :class:`TableError` if a topic has the name that stands for null where directories are named by
    topics: every reader would find records without a topic.
    """
    if any(place.topic == NULL_DIRECTORY for place in position.spans):
        raise TableError(
            f"{target} cannot have a topic with the name {NULL_DIRECTORY}, which means null in the names of "
            "directories: archive it to an Iceberg table (--table-format iceberg)."
        )


Say = Callable[[str], None]


class Table(Protocol):
    """One archive. Made for one Spark session by :mod:`tidelog.spark.pipelines.tables.opening`."""

    target: str  # A path, a URI or the name of a table, as the user gave it.

    def exclusive(self) -> AbstractContextManager[None]:
        """Held during a run; :class:`TableLocked` if another run holds it. Formats whose appends are
        conditional by themselves need not lock anything.
        """

    def prepare(self, say: Say) -> None:
        """Before the first step of a run: raise what makes the format unusable, finish or undo what a killed
        run began, take over an archive of an earlier layout (and ``say`` so). Idempotent.
        """

    def position(self) -> Position:
        """Empty if there is no table yet. Never changes anything."""

    def append(self, rows: Rows, step: Step) -> Added:
        """Add all rows and the position, or nothing: :class:`PositionMoved` unless the table is at
        ``step.before``. New columns and fields are added to the table; existing ones never disappear. A step
        without rows moves the position.
        """

    def compact(self, *, target_bytes: int, say: Say, files_min: int = 2) -> Compacted:
        """Merge files smaller than half of ``target_bytes``, of a day that is not over at least
        ``files_min``. The position and the rows stay.
        """

    def expire(self, *, older_than_ms: int, say: Say) -> Compacted:
        """Remove what only older snapshots, or killed runs, refer to. Formats without snapshots remove the
        latter.
        """

    def read(self, *, left: bool = False) -> "DataFrame":
        """The records, with all fields that any of them has. Never changes anything. ``left``: those that
        are left, if files of the table were deleted, which otherwise is an error of the query.
        """

    def read_undecodable(self, *, left: bool = False) -> "DataFrame | None":
        """None if there are none."""

    def totals(self) -> Totals: ...

    def added(self) -> int | None:
        """The rows that all steps have added to both tables, whatever other programs did to these since. None
        if that was not counted yet: an earlier version added them.
        """
