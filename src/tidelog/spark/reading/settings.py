"""The options of a read, under the names of Spark's own Kafka source.

Owns the existing options, their defaults and which exclude each other. Nothing here talks to a cluster.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from tidelog.client.fetching import FetchSettings
from tidelog.client.messages import EARLIEST, LATEST, TopicPartition
from tidelog.client.messages_by_id import id_bytes
from tidelog.client.settings import ClientSettings
from tidelog.spark.client_settings import ISOLATION, client_settings
from tidelog.spark.options import OptionError, Options

CHOOSERS = ("assign", "subscribe", "subscribePattern")
STRATEGIES = ("error", "latest")

OPTIONS = (
    *CHOOSERS,
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "startingTimestamp",
    "endingOffsets",
    "endingOffsetsByTimestamp",
    "endingTimestamp",
    "failOnDataLoss",
    "checkTopicIds",
    "topicIds",
    "minPartitions",
    "maxPartitions",
    "maxRecordsPerPartition",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "includeHeaders",
    "columns",
    "groupIdPrefix",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "path",  # what Spark makes of an argument of load()
)

_ONLY_BATCH = ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp", "topicIds")
_ONLY_STREAM = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")

DEFAULT_FETCH_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class TaskSettings:
    """Everything a task needs besides its range; picklable."""

    client: ClientSettings
    fetch: FetchSettings
    fail_on_data_loss: bool
    fail_on_replaced: bool  # whether another topic of the same name is an error, even if a loss is none
    patience_ms: int  # how long to retry without success


class At(Enum):
    """How an offset is given."""

    OFFSET = "offset"  # or EARLIEST or LATEST
    TIME = "time"  # milliseconds


@dataclass(frozen=True, slots=True)
class Edge:
    """Where a read begins or ends."""

    option: str  # the option's name, for error messages
    at: At = At.OFFSET
    everywhere: int | None = None  # the same for all partitions
    each: Mapping[TopicPartition, int] | None = None  # or one for each


@dataclass(frozen=True, slots=True)
class Choice:
    """Which partitions are read."""

    assigned: tuple[TopicPartition, ...] = ()
    topics: tuple[str, ...] = ()
    pattern: str | None = None

    def matches(self, topic: str) -> bool:
        return self.pattern is not None and re.fullmatch(self.pattern, topic) is not None


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """Everything a reader knows; picklable."""

    choice: Choice
    start: Edge
    end: Edge
    latest_if_none_younger: bool  # for a start by time
    task: TaskSettings
    check_topic_ids: bool
    topic_ids: Mapping[str, str]  # that the topics of a batch read must have
    min_partitions: int | None
    max_partitions: int | None
    max_records_per_partition: int | None
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay_ms: int


def read_settings(given: Mapping[str, str], *, streaming: bool) -> ReadSettings:
    options = Options(given)
    options.refuse_unknown(OPTIONS)
    _refuse_out_of_place(options, streaming)
    return ReadSettings(
        choice=_choice(options),
        start=_start(options, streaming),
        end=_end(options),
        latest_if_none_younger=options.choice("startingOffsetsByTimestampStrategy", STRATEGIES, "error")
        == "latest",
        task=_task(options),
        check_topic_ids=options.flag("checkTopicIds", True),
        topic_ids=_topic_ids(options),
        min_partitions=options.number("minPartitions", None, least=1),
        max_partitions=_max_partitions(options),
        max_records_per_partition=options.number("maxRecordsPerPartition", None, least=1),
        max_offsets_per_trigger=options.number("maxOffsetsPerTrigger", None, least=1),
        min_offsets_per_trigger=_min_offsets(options),
        max_trigger_delay_ms=options.duration_ms("maxTriggerDelay", 15 * 60_000),
    )


def _refuse_out_of_place(options: Options, streaming: bool) -> None:
    for name in _ONLY_BATCH if streaming else _ONLY_STREAM:
        if name in options:
            kind, other = ("a stream", "a batch read") if streaming else ("a batch read", "a stream")
            raise OptionError(f"Option {name} does not apply to {kind}, only to {other}.")
    if "path" in options:
        raise OptionError("load() takes no path here; option subscribe says which topics to read.")


def _choice(options: Options) -> Choice:
    chosen = [name for name in CHOOSERS if name in options]
    if len(chosen) != 1:
        given = " and ".join(chosen) or "none"
        raise OptionError(
            f"The topics are missing: exactly one of {', '.join(CHOOSERS)} is needed; given: {given}."
        )
    if chosen == ["assign"]:
        return Choice(assigned=tuple(options.partition_lists("assign")))
    text = options.required(chosen[0], "orders")
    if chosen == ["subscribe"]:
        topics = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
        if not topics:
            raise OptionError(f"Option subscribe is {text!r}; allowed: topics, separated by commas.")
        return Choice(topics=topics)
    try:
        re.compile(text)
    except re.error as error:
        raise OptionError(
            f"Option subscribePattern is {text!r}, which is not a valid pattern: {error}."
        ) from None
    return Choice(pattern=text)


def _start(options: Options, streaming: bool) -> Edge:
    if (edge := _by_time(options, "starting")) is not None:
        return edge
    default = "latest" if streaming else "earliest"
    allowed = {"earliest": EARLIEST, "latest": LATEST} if streaming else {"earliest": EARLIEST}
    return _by_offset(options, "startingOffsets", default, allowed, least=EARLIEST)


def _end(options: Options) -> Edge:
    if (edge := _by_time(options, "ending")) is not None:
        return edge
    return _by_offset(options, "endingOffsets", "latest", {"latest": LATEST}, least=LATEST)


def _by_time(options: Options, which: str) -> Edge | None:
    """A time for all partitions overrides times for each, as in Spark's own source."""
    if f"{which}Timestamp" in options:
        time_ms = options.whole(f"{which}Timestamp", 0)
        return Edge(f"{which}Timestamp", At.TIME, everywhere=time_ms)
    name = f"{which}OffsetsByTimestamp"
    return Edge(name, At.TIME, each=options.per_partition(name, least=0)) if name in options else None


def _by_offset(options: Options, name: str, default: str, words: Mapping[str, int], *, least: int) -> Edge:
    text = options.text(name, default) or default
    if text.lower() in words:
        return Edge(name, everywhere=words[text.lower()])
    if not text.startswith("{"):
        allowed = " or ".join([*words, 'JSON such as {"orders":{"0":23,"1":-1}}'])
        raise OptionError(f"Option {name} is {text!r}; allowed: {allowed}.")
    return Edge(name, each=options.per_partition(name, least=least))


def _min_offsets(options: Options) -> int | None:
    least = options.number("minOffsetsPerTrigger", None, least=1)
    most = options.number("maxOffsetsPerTrigger", None, least=1)
    if least is not None and most is not None and least > most:
        raise OptionError(f"Option minOffsetsPerTrigger is {least}, more than maxOffsetsPerTrigger, {most}.")
    return least


def _topic_ids(options: Options) -> dict[str, str]:
    if "topicIds" not in options:
        return {}
    if not options.flag("checkTopicIds", True):
        raise OptionError("Options topicIds and checkTopicIds=false exclude each other.")
    ids = options.texts("topicIds", '{"orders":"lGPuyIbQTKK6yXYrnGbqDw"}')
    for topic_id in ids.values():
        try:
            id_bytes(topic_id)
        except ValueError as error:
            raise OptionError(
                f"Option topicIds: {error}, which has 22 characters as Kafka prints it."
            ) from None
    return ids


def _max_partitions(options: Options) -> int | None:
    most = options.number("maxPartitions", None, least=1)
    if most is None:
        return None
    if "maxRecordsPerPartition" in options:
        raise OptionError("Options maxPartitions and maxRecordsPerPartition exclude each other.")
    least = options.number("minPartitions", None, least=1)
    if least is not None and least > most:
        raise OptionError(f"Option minPartitions is {least}, more than maxPartitions, {most}.")
    return most


def _task(options: Options) -> TaskSettings:
    client = client_settings(options)
    options.whole("fetchOffset.numRetries", 3)  # checked, though only the time counts here
    options.whole("fetchOffset.retryIntervalMs", 10)
    fetch = FetchSettings(
        max_bytes=options.whole(
            "kafka.max.partition.fetch.bytes", DEFAULT_FETCH_BYTES, least=1, most=1 << 29
        ),
        max_wait_ms=options.whole("kafka.fetch.max.wait.ms", 500),
        min_bytes=options.whole("kafka.fetch.min.bytes", 1),
        read_committed=options.choice("kafka.isolation.level", ISOLATION, ISOLATION[0]) == ISOLATION[1],
        rack=options.text("kafka.client.rack") or "",
        check_crcs=options.flag("kafka.check.crcs", True),
    )
    return TaskSettings(
        client=client,
        fetch=fetch,
        fail_on_data_loss=options.flag("failOnDataLoss", True),
        fail_on_replaced="topicIds" in options,
        patience_ms=options.whole("kafkaConsumer.pollTimeoutMs", 120_000, least=1),
    )
