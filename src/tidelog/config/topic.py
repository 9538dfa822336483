"""The settings of a topic, under Kafka's names.

``TopicConfig`` is both the table (one row per setting) and the typed values that one topic runs with. A
value comes from the topic's own override, else from its replication mode where that has a default of its
own, else from the broker-wide setting of the same meaning, else from the default here. Topics with equal
overrides share one instance, so that thousands of topics cost the memory of a few.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidelog.config.kinds import LONG_MAX, Bool, Choice, ChoiceSet, KeyOf, Real, ThrottledReplicas, Whole
from tidelog.config.modes import DEFAULT, DEFAULTS, MODES
from tidelog.config.table import Setting, Synonym, attribute_of, refuse_unknown, row, settings_of

if TYPE_CHECKING:
    from tidelog.config.broker import BrokerConfig

_MINUTE_MS = 60_000
_HOUR_MS = 60 * _MINUTE_MS
_WEEK_MS = 7 * 24 * _HOUR_MS

COMPRESSION_TYPES = ("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd")
"""``producer`` keeps what the producer chose."""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class TopicConfig:
    """Everything that can be set per topic. All of it takes effect on a live topic."""

    replication_mode: str = row(
        KeyOf(MODES),
        DEFAULT,
        "The rules for commit and leader election of this topic. A new topic that names none gets "
        "the broker's `default.replication.mode` and keeps it.",
        ours=True,
        section="Replication",
    )
    min_insync_replicas: int = row(
        Whole(1),
        2,
        "How many replicas must hold a record before it is acknowledged with acks=all; with "
        "fewer in sync, such writes are refused. A topic with fewer replicas requires all of them.",
        synonyms=(Synonym("min.insync.replicas"),),
    )
    unclean_leader_election_enable: bool = row(
        Bool(),
        False,
        "Whether a replica that may lack acknowledged records can become leader if no other is alive. "
        "This gives availability at the price of losing these records.",
        synonyms=(Synonym("unclean.leader.election.enable"),),
    )
    replication_degrade_after_ms: int = row(
        Whole(-1, LONG_MAX, unit="ms", note="-1 for never"),
        -1,
        "Only in mode primary-backup, with two copies or more: if too few backups keep up for this time, "
        "writes are acknowledged with the available copies, until the backups have caught up again. "
        "Each change is logged and counted. An acknowledged record can then be lost with one broker.",
        ours=True,
    )

    leader_replication_throttled_replicas: str = row(
        ThrottledReplicas(),
        "",
        "Replicas that are throttled to `leader.replication.throttled.rate`: `partition:broker,…`, or "
        "`*` for all. Members of the in-sync set are never throttled.",
    )
    follower_replication_throttled_replicas: str = row(
        ThrottledReplicas(),
        "",
        "Accepted for Kafka's tools; only the leader's setting has an effect.",
    )

    cleanup_policy: frozenset[str] = row(
        ChoiceSet("compact", "delete", may_be_empty=True),
        frozenset({"delete"}),
        "What happens to old records: `delete` removes old segments by age and size, `compact` keeps the "
        "newest record of each key. Empty: all records are kept.",
        synonyms=(Synonym("log.cleanup.policy"),),
        section="Retention and compaction",
    )
    retention_ms: int = row(
        Whole(-1, LONG_MAX, unit="ms", note="-1 for no limit"),
        _WEEK_MS,
        "How long records are kept if the cleanup policy has `delete`.",
        synonyms=(
            Synonym("log.retention.ms"),
            Synonym("log.retention.minutes", _MINUTE_MS),
            Synonym("log.retention.hours", _HOUR_MS),
        ),
    )
    retention_bytes: int = row(
        Whole(-1, LONG_MAX, unit="bytes", note="-1 for no limit"),
        -1,
        "How large a partition may grow before its oldest segments are deleted, if the cleanup policy has "
        "`delete`.",
        synonyms=(Synonym("log.retention.bytes"),),
    )
    delete_retention_ms: int = row(
        Whole(0, LONG_MAX, unit="ms"),
        24 * _HOUR_MS,
        "How long compaction keeps a tombstone, so that a consumer reading from the start "
        "learns of the deletion.",
        synonyms=(Synonym("log.cleaner.delete.retention.ms"),),
    )
    min_compaction_lag_ms: int = row(
        Whole(0, LONG_MAX, unit="ms"),
        0,
        "Minimum age of a record before it can be compacted.",
        synonyms=(Synonym("log.cleaner.min.compaction.lag.ms"),),
    )
    max_compaction_lag_ms: int = row(
        Whole(1, LONG_MAX, unit="ms"),
        LONG_MAX,
        "Maximum age of a record before it becomes eligible for compaction.",
        synonyms=(Synonym("log.cleaner.max.compaction.lag.ms"),),
    )
    min_cleanable_dirty_ratio: float = row(
        Real(0, 1),
        0.5,
        "Share of a log that must be new since the last compaction before the next one starts.",
        synonyms=(Synonym("log.cleaner.min.cleanable.ratio"),),
    )
    file_delete_delay_ms: int = row(
        Whole(0, LONG_MAX, unit="ms"),
        _MINUTE_MS,
        "How long the files of a deleted segment stay on disk, for responses that still read them.",
        synonyms=(Synonym("log.segment.delete.delay.ms"),),
    )

    segment_bytes: int = row(
        Whole(14, unit="bytes"),
        1 << 30,
        "Size at which a new segment is started.",
        synonyms=(Synonym("log.segment.bytes"),),
        section="Segments and indexes",
    )
    segment_ms: int = row(
        Whole(1, LONG_MAX, unit="ms"),
        _WEEK_MS,
        "Age at which a new segment is started even if the old one is not full.",
        synonyms=(Synonym("log.roll.ms"), Synonym("log.roll.hours", _HOUR_MS)),
    )
    segment_jitter_ms: int = row(
        Whole(0, LONG_MAX, unit="ms"),
        0,
        "How much earlier than `segment.ms` a segment may be started, at random, so that not all partitions "
        "do so at once.",
        synonyms=(Synonym("log.roll.jitter.ms"), Synonym("log.roll.jitter.hours", _HOUR_MS)),
    )
    segment_index_bytes: int = row(
        Whole(64, unit="bytes"),
        10 << 20,
        "Size of a segment's index at which a new segment is started.",
        synonyms=(Synonym("log.index.size.max.bytes"),),
    )
    index_interval_bytes: int = row(
        Whole(0, unit="bytes"),
        4096,
        "Bytes of records between two entries of the index.",
        synonyms=(Synonym("log.index.interval.bytes"),),
    )
    preallocate: bool = row(
        Bool(),
        False,
        "Whether the disk space of a new segment is reserved at once.",
        synonyms=(Synonym("log.preallocate"),),
    )

    flush_messages: int = row(
        Whole(1, LONG_MAX),
        LONG_MAX,
        "Number of records after which the log is synced to disk; with 1, no write is acknowledged "
        "before it is synced.",
        synonyms=(Synonym("log.flush.interval.messages"),),
        section="Durability",
    )
    flush_ms: int = row(
        Whole(0, LONG_MAX, unit="ms"),
        LONG_MAX,
        "How long a record may stay unsynced.",
        synonyms=(Synonym("log.flush.interval.ms"),),
    )

    max_message_bytes: int = row(
        Whole(0, unit="bytes"),
        (1 << 20) + 12,
        "Largest size of a record batch, as sent (compressed or not).",
        synonyms=(Synonym("message.max.bytes"),),
        section="Records",
    )
    compression_type: str = row(
        Choice(*COMPRESSION_TYPES),
        "producer",
        "Codec of stored batches; `producer` stores them as they were sent.",
        synonyms=(Synonym("compression.type"),),
    )
    message_timestamp_type: str = row(
        Choice("CreateTime", "LogAppendTime"),
        "CreateTime",
        "Whether a record carries the producer's time or the time at which the broker appended it.",
        synonyms=(Synonym("log.message.timestamp.type"),),
    )
    message_timestamp_before_max_ms: int = row(
        Whole(0, LONG_MAX, unit="ms"),
        LONG_MAX,
        "How far a producer's timestamp may be behind the broker's clock.",
        synonyms=(Synonym("log.message.timestamp.before.max.ms"),),
    )
    message_timestamp_after_max_ms: int = row(
        Whole(0, LONG_MAX, unit="ms"),
        _HOUR_MS,
        "How far a producer's timestamp may be ahead of the broker's clock.",
        synonyms=(Synonym("log.message.timestamp.after.max.ms"),),
    )

    @classmethod
    def resolve(cls, overrides: Mapping[str, str], broker: BrokerConfig) -> TopicConfig:
        """What a topic with these overrides runs with; equal overrides give the same instance."""
        key = frozenset(overrides.items())
        config = broker.topic_configs.get(key)
        if config is None:
            values = dict(broker.topic_defaults)
            for name, value in DEFAULTS[mode_of(overrides)].items():
                values[attribute_of(name)] = value
            for name, text in overrides.items():
                setting = topic_setting(name)
                values[setting.attribute] = setting.parse(text)
            config = broker.topic_configs[key] = cls(**values)
        return config

    @property
    def compacts(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def deletes(self) -> bool:
        return "delete" in self.cleanup_policy


TOPIC_SETTINGS: Mapping[str, Setting] = settings_of(TopicConfig)

REPLICATION_MODE = "replication.mode"
MODE_CHANGE = "replication.mode.change"
"""Name under which clients read what is left of a change of mode."""
UNCONFIRMED = "replication.unconfirmed"
"""Name under which clients read which settings are not confirmed yet."""

_REMOVED = "Kafka dropped it, and Tidelog stores records in the one current format"
_SPLIT = "use message.timestamp.before.max.ms and message.timestamp.after.max.ms"
_TIERED = "Tidelog keeps all segments on the broker's own disk"
_NOT_HERE: dict[str, str] = {
    "message.format.version": _REMOVED,
    "message.downconversion.enable": _REMOVED,
    "message.timestamp.difference.max.ms": _SPLIT,
    "remote.storage.enable": _TIERED,
    "local.retention.ms": _TIERED,
    "local.retention.bytes": _TIERED,
    MODE_CHANGE: "it only shows the progress of a change of replication.mode",
    UNCONFIRMED: "it only shows which settings are not confirmed yet",
    "default.replication.mode": f"for a topic it is called {REPLICATION_MODE}",
} | {
    synonym.name: f"for a topic it is called {setting.name}"
    for setting in TOPIC_SETTINGS.values()
    for synonym in setting.synonyms
    if synonym.name not in TOPIC_SETTINGS
}


def topic_setting(name: str) -> Setting:
    """The row of a topic setting; refuses a name that is none."""
    setting = TOPIC_SETTINGS.get(name)
    if setting is None:
        refuse_unknown(name, "topic", TOPIC_SETTINGS, _NOT_HERE)
    return setting


def mode_of(overrides: Mapping[str, str]) -> str:
    """The replication mode of a topic with these overrides. No broker's setting has a say: a topic keeps the
    mode it was created with when the default for new ones changes.
    """
    text = overrides.get(REPLICATION_MODE)
    return DEFAULT if text is None else str(topic_setting(REPLICATION_MODE).parse(text))


def defaults_from(broker: Any) -> dict[str, Any]:
    """The values of a topic without overrides: of each chain of broker settings, the first that is set."""
    return {setting.attribute: _default_from(setting, broker) for setting in TOPIC_SETTINGS.values()}


def _default_from(setting: Setting, broker: Any) -> Any:
    for synonym in setting.synonyms:
        value = getattr(broker, synonym.attribute)
        if value is not None:
            return synonym.scale(value)
    return setting.default
