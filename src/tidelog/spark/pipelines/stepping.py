"""The driver loop of an archive: what is new since the table's position is read and added in bounded steps.

Owns the order of things: look at the cluster, plan, read exactly the planned offsets, add them together with
the new position; again after a while. A step is conditional on the position it was planned from, so a run
that was killed, or one that overlaps, repeats nothing.
"""

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Event
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from tidelog.client.errors import ClientError, TopicReplaced, UnknownTopic
from tidelog.spark.options import OptionError
from tidelog.spark.pipelines.archive_plan import Plan, Ranges, plan
from tidelog.spark.pipelines.archive_view import Asked, View, look
from tidelog.spark.pipelines.running import Progress, Restarts, Tell
from tidelog.spark.pipelines.source import Topics
from tidelog.spark.pipelines.tables import (
    Added,
    Position,
    PositionMoved,
    Raw,
    Rows,
    Say,
    Step,
    Table,
    TableError,
)
from tidelog.spark.reading.loss import DataLoss

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS_PER_STEP = 10_000_000
"""A killed run repeats at most one step; a step costs Spark about a second besides its rows."""
FILE_BYTES = 128 << 20
"""Where small files are not merged, files are this large all the same."""
SPLIT_OFFSETS_MIN = 500_000
"""A task of fewer offsets is not worth being divided: each one begins files of its own."""
COMPACT_EVERY_S = 3600.0
"""How often a run that goes on merges small files."""
COMPACT_FILES_MIN = 8
"""Of a day that is not over: a run every five minutes would otherwise merge a few files each time."""

# A leader that was just elected may report an older high watermark until its followers have fetched, or until
# they have left the in-sync set (replica.lag.time.max.ms, half a minute). Taken for a loss that is allowed,
# the records after it would be archived twice.
_SHRUNK_TRIES, _SHRUNK_PAUSE_S = 45, 1.0
_CONFLICTS_MAX = 3
_RATE_STEP_S = 10.0

# Options of a read that the steps set themselves, or that only mean something to a stream.
_OWN_OPTIONS = frozenset(
    {
        "assign", "subscribe", "subscribepattern", "startingoffsets", "startingoffsetsbytimestamp",
        "startingtimestamp", "startingoffsetsbytimestampstrategy", "endingoffsets",
        "endingoffsetsbytimestamp", "endingtimestamp", "failondataloss", "maxoffsetspertrigger", "topicids",
    }
)  # fmt: skip
# Options with which a user says how a read is divided into tasks.
_SPLITTING = frozenset({"minpartitions", "maxpartitions", "maxrecordsperpartition"})
_OUTDATED = (DataLoss, TopicReplaced, UnknownTopic)
_INTERVAL = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|[a-z]+?)s?(?:\s+|$)")
_UNITS_S = {
    "ms": 0.001, "millisecond": 0.001, "s": 1, "sec": 1, "second": 1, "m": 60, "min": 60, "minute": 60,
    "h": 3600, "hour": 3600, "d": 86400, "day": 86400,
}  # fmt: skip


class RecordsLost(TableError):
    """Records are gone that the archive should have."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How much at once, how fast, and how often."""

    rows_per_step: int = ROWS_PER_STEP
    rows_per_second: int | None = None
    every_s: float | None = None  # None: once, up to what is there now.

    @property
    def step_rows(self) -> int:
        if self.rows_per_second is None:
            return self.rows_per_step
        return max(1, min(self.rows_per_step, int(self.rows_per_second * _RATE_STEP_S)))


@dataclass(slots=True)
class Outcome:
    """What a run did."""

    added: Added = field(default_factory=Added)
    steps: int = 0
    merged_files: int = 0
    notes: list[str] = field(default_factory=list)  # Sentences.
    lag: dict[str, int] = field(default_factory=dict)  # By topic: offsets that are not archived.
    held_back: dict[str, int] = field(default_factory=dict)  # By topic, if any: behind open transactions.
    dead_letters: int = 0


def seconds_of(text: str) -> float:
    """A time as Spark writes it: ``10 seconds``, ``1 hour 30 minutes``, ``500ms``."""
    rest = text.strip().lower().removeprefix("interval ").strip()
    total, end = 0.0, 0
    for found in _INTERVAL.finditer(rest):
        if found.start() != end or found[2] not in _UNITS_S:
            break
        total, end = total + float(found[1]) * _UNITS_S[found[2]], found.end()
    if not rest or end != len(rest):
        raise OptionError(f"The interval is {text!r}; allowed: a time such as '10 seconds' or '5 minutes'.")
    return total


def read_ranges(spark: "SparkSession", topics: Topics, ranges: Ranges) -> "DataFrame":
    """Exactly these offsets, and only of the topics with these ids."""
    from tidelog.spark.reading.columns import default_schema

    if not ranges:
        return spark.createDataFrame([], default_schema({"includeHeaders": "true"}))
    return spark.read.format("tidelog").options(**options_of(topics, ranges, _cores(spark))).load()


def options_of(topics: Topics, ranges: Ranges, cores: int) -> dict[str, str]:
    """Of a batch read of these offsets. A partition that has more than its share is read by several tasks."""
    partitions: dict[str, list[int]] = {}
    starts: dict[str, dict[str, int]] = {}
    ends: dict[str, dict[str, int]] = {}
    ids: dict[str, str] = {}
    for place, span in ranges.items():
        partitions.setdefault(place.topic, []).append(place.partition)
        starts.setdefault(place.topic, {})[str(place.partition)] = span.start
        ends.setdefault(place.topic, {})[str(place.partition)] = span.end
        if place.topic_id:
            ids[place.topic] = place.topic_id
    options = {
        **_shared_options(topics),
        "assign": json.dumps(partitions),
        "startingOffsets": json.dumps(starts),
        "endingOffsets": json.dumps(ends),
        "includeHeaders": "true",
    }
    if ids:
        options["topicIds"] = json.dumps(ids)
    if not {name.lower() for name in options} & _SPLITTING:
        share = -(-sum(span.size for span in ranges.values()) // max(cores, 1))
        options["maxRecordsPerPartition"] = str(max(share, SPLIT_OFFSETS_MIN))
    return options


def _cores(spark: "SparkSession") -> int:
    """1 where it is not known: through Spark Connect."""
    return int(spark.sparkContext.defaultParallelism) if hasattr(spark, "_jsparkSession") else 1


def _shared_options(topics: Topics) -> dict[str, str]:
    given = topics.stream_options()
    return {name: value for name, value in given.items() if name.lower() not in _OWN_OPTIONS}


def is_outdated(failure: Exception) -> bool:
    """Whether topics changed after their offsets were looked up, as far as an error of Spark's tells."""
    return isinstance(failure, _OUTDATED) or any(kind.__name__ in str(failure) for kind in _OUTDATED)


class Stepper:
    """One run."""

    def __init__(
        self,
        spark: "SparkSession",
        table: Table,
        topics: Topics,
        rows_of: "Callable[[DataFrame, Mapping[str, str]], Rows]",
        *,
        pace: Pace,
        times_ms: tuple[int | None, int | None] = (None, None),
        allows_loss: bool = False,
        compact_bytes: int = 0,
        letters: "Callable[[DataFrame, Step], int] | None" = None,
        stop: Event,
        tell: Tell,
    ) -> None:
        self._spark, self._table, self._topics, self._rows_of = spark, table, topics, rows_of
        self._pace, self._allows_loss, self._compact_bytes = pace, allows_loss, compact_bytes
        self._from_ms, self._to_ms = times_ms
        self._letters, self._stop, self._tell = letters, stop, tell
        self._restarts = Restarts(stop)
        self._compacted_at = time.monotonic()
        self.outcome = Outcome()

    def run(self) -> Outcome:
        with self._table.exclusive():
            self._table.prepare(self._say)
            while True:
                began = time.monotonic()
                self._catch_up()
                self._compact_if_due()
                if self._pace.every_s is None or self._stop.is_set():
                    break
                self._stop.wait(max(self._pace.every_s - (time.monotonic() - began), 0))
            self._count_lag()
        return self.outcome

    # -- steps -----------------------------------------------------------------------------

    def _catch_up(self) -> None:
        conflicts = 0
        made = self._plan()
        while not made.is_done and not self._stop.is_set():
            began = time.monotonic()
            before = made.before
            ranges = made.take(self._pace.step_rows)
            try:
                confirm = partial(self._confirm, before, ranges)
                added = self._add(ranges, Step(self.outcome.steps, before, made.position, confirm))
            except _PlanOutdated as outdated:
                conflicts += 1
                if conflicts > _CONFLICTS_MAX:
                    raise outdated.reason from None
                made = self._plan()
                continue
            if added is None:
                return
            conflicts = 0
            made.before = made.position
            self._count(added, began)

    def _add(self, ranges: Ranges, step: Step) -> Added | None:
        """None: asked to stop while it waited for a busy machine."""
        ids = {place.topic: place.topic_id for place in ranges}
        while not self._stop.is_set():
            rows = self._rows_of(read_ranges(self._spark, self._topics, ranges), ids)
            if rows.is_raw and ranges:
                size = self._compact_bytes or FILE_BYTES
                options = options_of(self._topics, ranges, _cores(self._spark))
                rows = replace(rows, raw=Raw(options, ids, size))
            try:
                with self._letters_sent(rows, step):
                    return self._table.append(rows, step)
            except PositionMoved as moved:
                raise _PlanOutdated(moved) from None
            except _OUTDATED as failure:
                raise _PlanOutdated(failure) from None
            except (PySparkException, Py4JError) as failure:
                if is_outdated(failure):
                    raise _PlanOutdated(failure) from None
                self._restarts.allow_after(failure)
        return None

    @contextmanager
    def _letters_sent(self, rows: Rows, step: Step) -> Iterator[None]:
        """First the letters: they are not sent again if the step is repeated
        (:mod:`tidelog.spark.pipelines.dead_letters`), and could not be sent if it were not.
        """
        if self._letters is None or rows.undecodable is None:
            yield
            return
        kept = rows.marked.persist() if rows.marked is not None else None  # Or it is read twice.
        try:
            step.confirm()
            self.outcome.dead_letters += self._letters(rows.undecodable, step)
            yield
        finally:
            if kept is not None:
                kept.unpersist()

    def _confirm(self, position: Position, ranges: Ranges) -> None:
        """The rows were read by the names of their topics from some brokers: another topic may have them
        now.
        """
        there = {seen.place for seen in self._look(position).partitions}
        for place in ranges:
            if place.topic_id and place not in there:
                raise _PlanOutdated(RecordsLost(f"The topic {place.topic} was deleted while it was read."))

    def _count(self, added: Added, began: float) -> None:
        so_far = self.outcome.added
        self.outcome.added = Added(
            so_far.records + added.records,
            so_far.undecodable + added.undecodable,
            so_far.files + added.files,
            so_far.bytes + added.bytes,
        )
        self.outcome.steps += 1
        rows = added.records + added.undecodable
        elapsed_s = max(time.monotonic() - began, 1e-9)
        total = self.outcome.added.records + self.outcome.added.undecodable
        if rows:
            self._tell(Progress(total, rows / elapsed_s, self.outcome.steps - 1))
        if self._pace.rows_per_second is not None:
            self._stop.wait(max(rows / self._pace.rows_per_second - elapsed_s, 0))

    # -- plans -----------------------------------------------------------------------------

    def _plan(self) -> Plan:
        position = self._table.position()
        made = plan(position, self._look(position))
        for _ in range(_SHRUNK_TRIES):
            if not made.shrunk:
                break
            self._say_progress("waiting: a topic ends before what was archived of it; its leader may be new")
            if self._stop.wait(_SHRUNK_PAUSE_S):
                break
            made = plan(position, self._look(position))
        for note in made.notes:
            self._note(f"{note}.")
        if made.losses and not self._allows_loss:
            more = f" (and {len(made.losses) - 1} more like it)" if len(made.losses) > 1 else ""
            raise RecordsLost(
                f"{made.losses[0]}{more}; to archive the rest and report the loss, use --allow-loss "
                "(in Python: allow_loss=True)."
            )
        for loss in made.losses:
            self._note(f"Lost: {loss}.")
        return made

    def _look(self, position: Position, *, counts_open: bool = False) -> View:
        archived = sorted({place.topic for place in position.spans})
        options = {
            name: value
            for name, value in self._topics.stream_options().items()
            if name.lower() not in ("failondataloss", "topicids")
        }
        return look(self._spark, Asked(options, archived, self._from_ms, self._to_ms, counts_open))

    def _count_lag(self) -> None:
        position = self._table.position()
        try:
            view = self._look(position, counts_open=True)
        except ClientError:
            return  # the records are safe, and a cluster that is down has no lag to report
        lag: dict[str, int] = {}
        held_back: dict[str, int] = {}
        for seen in view.partitions:
            span = position.spans.get(seen.place)
            end = seen.earliest if span is None else span.end
            topic = seen.place.topic
            lag[topic] = lag.get(topic, 0) + max(seen.latest - end, 0)
            held_back[topic] = held_back.get(topic, 0) + seen.held_back
        self.outcome.lag = lag
        self.outcome.held_back = {topic: offsets for topic, offsets in held_back.items() if offsets}

    # -- small files -----------------------------------------------------------------------

    def _compact_if_due(self) -> None:
        if not self._compact_bytes or self._stop.is_set():
            return
        now = time.monotonic()
        if self._pace.every_s is not None and now - self._compacted_at < COMPACT_EVERY_S:
            return
        self._compacted_at = now
        try:
            done = self._table.compact(
                target_bytes=self._compact_bytes, say=self._say_progress, files_min=COMPACT_FILES_MIN
            )
        except PositionMoved:
            self._note("Small files were not merged, because another run changed the table at the same time.")
            return
        except (TableError, PySparkException, Py4JError, OSError) as failure:
            # The records are added, and the next ones will be, too. As when a file of the table was deleted.
            reason = (str(failure).strip() or type(failure).__name__).splitlines()[0].rstrip(".")
            self._note(f"Small files were not merged ({reason}); `tidelog pipeline verify` tells more.")
            return
        self.outcome.merged_files += done.removed_files - done.added_files

    def _say_progress(self, text: str) -> None:
        total = self.outcome.added.records + self.outcome.added.undecodable
        self._tell(Progress(total, 0.0, 0, f"rows; {text}"))

    @property
    def _say(self) -> Say:
        return self._note

    def _note(self, text: str) -> None:
        if text not in self.outcome.notes:
            self.outcome.notes.append(text)


class _PlanOutdated(Exception):
    """The table or the topics changed after the plan was made."""

    def __init__(self, reason: Exception) -> None:
        super().__init__(str(reason))
        self.reason = reason
