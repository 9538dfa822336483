"""What a cluster has of the topics that are archived: ids, offsets, and where a first run begins.

Owns the requests to the cluster. Runs in the driver, or, with Spark Connect, in a worker of the server: only
the server may be able to reach the brokers.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING

from tidelog.client.cluster import Cluster
from tidelog.client.errors import UnknownTopic
from tidelog.client.messages import TopicPartition
from tidelog.spark.pipelines.tables import Place
from tidelog.spark.reading.planning import Planner
from tidelog.spark.reading.settings import Choice, ReadSettings, read_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Asked:
    """What to look for."""

    options: Mapping[str, str]  # Of a stream from these topics.
    archived_topics: Sequence[str]  # That the archive has records of already.
    from_ms: int | None = None
    to_ms: int | None = None
    counts_open: bool = False  # Whether ``held_back`` is needed, which is one more request.


@dataclass(frozen=True, slots=True)
class Seen:
    """A partition of a topic."""

    place: Place
    earliest: int
    latest: int  # Exclusive: the last stable offset for read_committed.
    start: int  # Where a first run begins, by the options.
    from_offset: int | None = None  # Of the first record that is not older than the requested time.
    to_offset: int | None = None
    held_back: int = 0  # Offsets behind ``latest``: of open transactions, and of what was written later.


@dataclass(frozen=True, slots=True)
class View:
    partitions: list[Seen] = field(default_factory=list)
    # Named topics that do not exist, with similar names; and archived ones that a pattern does not find now.
    missing: dict[str, list[str]] = field(default_factory=dict)
    gone: list[str] = field(default_factory=list)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "View":
        fields = json.loads(text)
        seen = [Seen(**(one | {"place": Place(*one["place"])})) for one in fields["partitions"]]
        return cls(seen, fields["missing"], fields["gone"])


def look(spark: "SparkSession", asked: Asked) -> View:
    """The present state of the cluster."""
    if hasattr(spark, "_jsparkSession"):
        return _look(asked)
    import pyarrow as pa

    def in_worker(batches: object) -> object:
        yield pa.RecordBatch.from_pydict({"view": [_look(asked).to_json()]})

    found = spark.range(0, 1, 1, 1).mapInArrow(in_worker, "view string").collect()  # type: ignore[arg-type]
    return View.from_json(found[0]["view"])


def _look(asked: Asked) -> View:
    settings = read_settings(asked.options, streaming=True)
    with Cluster(settings.task.client, settings.task.patience_ms) as cluster:
        chosen, missing = _existing(cluster, settings)
        if chosen is None:
            return View([], missing)
        planner = Planner(cluster, chosen)
        found = planner.partitions()
        there = {topic for topic, _ in found}
        gone = [name for name in asked.archived_topics if settings.choice.matches(name) and name not in there]
        return View(_partitions(cluster, planner, found, asked), missing, gone)


def _existing(cluster: Cluster, settings: ReadSettings) -> tuple[ReadSettings | None, dict[str, list[str]]]:
    """The settings with those topics only that exist, None if none does."""
    named = settings.choice.topics
    if not named:
        return settings, {}
    try:
        cluster.topics(named)
    except UnknownTopic:
        known = cluster.known_topics(None)
        missing = {
            name: get_close_matches(name, [*known], n=3, cutoff=0.6) for name in named if name not in known
        }
        there = tuple(name for name in named if name in known)
        return (replace(settings, choice=Choice(topics=there)) if there else None), missing
    return settings, {}


def _partitions(cluster: Cluster, planner: Planner, found: list[TopicPartition], asked: Asked) -> list[Seen]:
    topics = cluster.known_topics([*dict.fromkeys(topic for topic, _ in found)])
    # First, so that what is written meanwhile does not seem to be held back.
    written = planner.written(found) if asked.counts_open else {}
    earliest, latest = planner.earliest(found), planner.latest(found)
    is_first = not any(topic in asked.archived_topics for topic, _ in found)
    # Partitions and topics that appear later are read from their beginning, as in a stream.
    start = planner.start(found) if is_first else earliest
    since = {} if asked.from_ms is None else planner.younger_than(found, asked.from_ms)
    until = {} if asked.to_ms is None else planner.younger_than(found, asked.to_ms)
    return [
        Seen(
            Place(one[0], topics[one[0]].topic_id, one[1]),
            earliest[one],
            latest[one],
            start[one],
            since.get(one),
            until.get(one),
            max(written.get(one, 0) - latest[one], 0),
        )
        for one in found
        if one[0] in topics
    ]
