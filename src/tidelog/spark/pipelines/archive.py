"""Topics to tables: every committed record once, resumed from where it stopped.

Owns the columns of an archive, which settings a run has and what it reports. A table format
(:mod:`tidelog.spark.pipelines.tables`) stores rows together with the position;
:mod:`tidelog.spark.pipelines.stepping` plans and repeats the steps.

================ ===============================================================================
records          key, value, headers, topic, topicId, partition, offset, timestamp, timestampType, date;
                 where a schema is given, the decoded value
undecodable      the same without the decoded value: what the schema does not fit
================ ===============================================================================
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from threading import Event
from typing import TYPE_CHECKING

from tidelog.spark.options import OptionError
from tidelog.spark.pipelines.dead_letters import DeadLetters
from tidelog.spark.pipelines.decoding import DECODED, Decoding, marked
from tidelog.spark.pipelines.running import Tell, discard
from tidelog.spark.pipelines.source import Topics
from tidelog.spark.pipelines.stepping import ROWS_PER_STEP, Outcome, Pace, Stepper, seconds_of
from tidelog.spark.pipelines.tables import MARK, PARTITION_COLUMNS, Rows, Totals
from tidelog.spark.pipelines.tables.opening import FORMATS, open_existing, open_table

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["PARTITION_COLUMNS", "Archive", "ArchiveReport", "archive", "read_archive"]

TABLE_FORMATS = tuple(FORMATS)

# Not to_date(): that would depend on the session's time zone, and the same record must always go to the same
# place. Within the years 1 to 9999, which all readers of dates know: a producer that counts in microseconds
# sends times far beyond, and one such directory would make a Delta table unreadable.
_UTC_DAY = """date_from_unix_date(cast(
    least(greatest(floor(unix_seconds(timestamp) / 86400), -719162), 2932896) as int))"""
_NO_STEPS = ("minoffsetspertrigger", "maxtriggerdelay")


@dataclass(frozen=True, slots=True)
class Archive:
    """What is archived, and where to."""

    topics: Topics
    target: str
    decoding: Decoding | None = None
    keeps_value: bool = True  # the original bytes, beside what was decoded from them
    table_format: str = "parquet"
    merge_bytes: int = 128 << 20  # target size of files; 0: small files are not merged
    every: str | None = None  # such as "10 seconds"; None: what is there now, then stop
    from_ms: int | None = None  # only records from this time on (milliseconds since 1970), also older ones
    to_ms: int | None = None  # only records before this time
    rows_per_step: int | None = None
    rows_per_second: int | None = None
    allow_loss: bool = False  # go on if records were deleted before they were archived, and report them
    table_options: Mapping[str, str] = field(default_factory=dict)  # of the table format
    dead_letter: str | None = None  # a topic for undecodable records, beside their table

    def __post_init__(self) -> None:
        if self.dead_letter is not None and self.decoding is None:
            raise OptionError(
                "Dead letters are records that a schema does not fit; give a format and a schema."
            )
        if not self.keeps_value and self.decoding is None:
            raise OptionError(
                "Without decoding, nothing would be left of the values: give a format and a schema, or leave "
                "--drop-value out (in Python: keeps_value=True)."
            )
        if self.table_format not in TABLE_FORMATS:
            raise OptionError(
                f"The table format is {self.table_format!r}; allowed: {', '.join(TABLE_FORMATS)}."
            )
        for name in self.topics.options:
            if name.lower() in _NO_STEPS:
                raise OptionError(f"Option {name} does not apply to archives: --every says how long to wait.")
        _ = self.pace

    @property
    def records(self) -> str:
        return f"{self.target}/records"

    @property
    def undecodable(self) -> str:
        return f"{self.target}/undecodable"

    @property
    def pace(self) -> Pace:
        """``maxOffsetsPerTrigger`` is what a stream calls the rows of a step."""
        rows = self.rows_per_step or _option(self.topics, "maxOffsetsPerTrigger") or str(ROWS_PER_STEP)
        if not str(rows).isdecimal() or int(rows) < 1:
            raise OptionError(f"The rows of a step are {rows!r}; allowed: a whole number, 1 or more.")
        every_s = None if self.every is None else seconds_of(self.every)
        return Pace(int(rows), self.rows_per_second, every_s)

    @property
    def letters(self) -> DeadLetters | None:
        if self.dead_letter is None:
            return None
        kafka = {
            name: value for name, value in self.topics.options.items() if name.lower().startswith("kafka.")
        }
        return DeadLetters(self.dead_letter, self.topics.bootstrap, self.target, kafka)

    @property
    def allows_loss(self) -> bool:
        return self.allow_loss or _option(self.topics, "failOnDataLoss").lower() == "false"


@dataclass(frozen=True, slots=True)
class ArchiveReport:
    """The result of this run; ``total`` and ``total_bytes`` count all runs, as do ``files``."""

    records: int
    undecodable: int
    total: int
    files: int
    merged_files: int
    stopped: bool  # before its end, on request
    target: str = field(default="")
    added_files: int = 0
    added_bytes: int = 0
    total_bytes: int = 0
    steps: int = 0
    duration_s: float = 0.0
    lag: dict[str, int] = field(default_factory=dict)  # by topic: offsets that are not archived
    held_back: dict[str, int] = field(default_factory=dict)  # by topic, if any: behind open transactions
    notes: list[str] = field(default_factory=list)  # what the run had to decide, and what is lost
    dead_letters: int = 0  # sent to their topic


def archive(
    spark: "SparkSession", job: Archive, *, stop: Event | None = None, tell: Tell = discard
) -> ArchiveReport:
    """Bring the archive up to date."""
    began = time.monotonic()
    asked = stop or Event()
    table = open_table(spark, job.target, job.table_format, job.table_options)
    stepper = Stepper(
        spark,
        table,
        job.topics,
        partial(rows_of, job.decoding, job.keeps_value),
        pace=job.pace,
        times_ms=(job.from_ms, job.to_ms),
        allows_loss=job.allows_loss,
        compact_bytes=job.merge_bytes,
        letters=job.letters,
        stop=asked,
        tell=tell,
    )
    outcome = stepper.run()
    return _report(job, outcome, table.totals(), time.monotonic() - began, asked.is_set())


def _report(
    job: Archive, outcome: Outcome, totals: Totals, duration_s: float, stopped: bool
) -> ArchiveReport:
    return ArchiveReport(
        records=outcome.added.records,
        undecodable=outcome.added.undecodable,
        total=totals.records + totals.undecodable,
        files=totals.files,
        merged_files=outcome.merged_files,
        stopped=stopped,
        target=job.target,
        added_files=outcome.added.files,
        added_bytes=outcome.added.bytes,
        total_bytes=totals.bytes,
        steps=outcome.steps,
        duration_s=round(duration_s, 3),
        lag=outcome.lag,
        held_back=outcome.held_back,
        notes=outcome.notes,
        dead_letters=outcome.dead_letters,
    )


def read_archive(spark: "SparkSession", target: str, options: Mapping[str, str] | None = None) -> "DataFrame":
    """The records of an archive in any format, with all fields that any of them has."""
    return open_existing(spark, target, options).read()


def rows_of(
    decoding: Decoding | None, keeps_value: bool, records: "DataFrame", ids: Mapping[str, str]
) -> Rows:
    """The rows of the archive's tables from those of the source. Without ids, by topic, there are none."""
    from pyspark.sql import functions

    dated = records.withColumn("topicId", _topic_id(ids)).withColumn("date", functions.expr(_UTC_DAY))
    if decoding is None:
        return Rows(dated, is_empty=not ids, is_raw=True)
    everything = marked(decoding.apply(dated), MARK)
    # One pass writes both tables. Their files have the same columns, and each value only where it belongs:
    # of an undecodable record some fields may have been decoded.
    decoded = functions.when(~functions.col(MARK), functions.col(DECODED))
    everything = everything.withColumn(DECODED, decoded)
    if not keeps_value:
        kept = functions.when(functions.col(MARK), functions.col("value"))
        everything = everything.withColumn("value", kept)
    good = everything.where(~functions.col(MARK)).drop(MARK, *([] if keeps_value else ["value"]))
    broken = everything.where(functions.col(MARK)).drop(MARK, DECODED)
    return Rows(good, broken, everything, is_empty=not ids)


def _topic_id(ids: Mapping[str, str]) -> "Column":
    from pyspark.sql import functions

    known = [(topic, topic_id) for topic, topic_id in ids.items() if topic_id]
    if not known:
        return functions.lit(None).cast("string")
    if len(ids) == 1:
        return functions.lit(known[0][1])
    pairs = [functions.lit(text) for pair in known for text in pair]
    return functions.create_map(*pairs)[functions.col("topic")]


def _option(topics: Topics, name: str) -> str:
    return next((value for key, value in topics.options.items() if key.lower() == name.lower()), "")
