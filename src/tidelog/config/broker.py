"""The settings of a broker, under Kafka's names.

``BrokerConfig`` is both the table (one row per setting) and the typed values one broker runs with. It comes from
a config file (TOML) with ``--set`` on top, and, for settings marked dynamic, from AlterConfigs while it runs: then a
new ``BrokerConfig`` replaces the old one. It remembers which values were given and by whom, because clients ask.

Opens no file: whoever reads ``broker.toml`` hands the text in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakValueDictionary

from tidelog.config.kinds import INT_MAX, LONG_MAX, Bool, Choice, Optional, Raw, Text, Whole, split_list
from tidelog.config.listeners import Listener, Listeners
from tidelog.config.table import Explained, Setting, refuse, refuse_unknown, row, settings_of, shown
from tidelog.config.toml import read_toml
from tidelog.config.topic import TOPIC_SETTINGS, TopicConfig, defaults_from
from tidelog.errors import InvalidConfig

_LONG_MS = Whole(1, LONG_MAX, unit="ms")
_MIB = 1 << 20


class _Directory(Text):
    """One directory. Kafka spreads partitions over several; here a second disk is a second broker."""

    def __init__(self) -> None:
        super().__init__("the path of one directory")

    def parse(self, raw: Raw) -> str:
        directories = split_list(raw)
        if len(directories) > 1:
            raise Explained("Tidelog keeps its data in one directory; run one broker per disk instead")
        return super().parse(directories[0] if directories else "")


def _default_of(topic_name: str, **more: Any) -> Any:
    """A row for the broker-wide default of a topic setting: all that is said about it is said there."""
    setting = TOPIC_SETTINGS[topic_name]
    return row(
        setting.kind, setting.default, f"Default of the topic setting `{topic_name}`.", dynamic=True, **more
    )


def _first_of(topic_name: str, unset: str, **more: Any) -> Any:
    """The same where, unless it is given, another broker setting decides."""
    doc = f"Default of the topic setting `{topic_name}`."
    return row(
        Optional(TOPIC_SETTINGS[topic_name].kind), None, doc, dynamic=True, unset=f"`{unset}` decides", **more
    )


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """Everything that can be set per broker. Make one with ``parse`` or ``load``."""

    node_id: int = row(
        Whole(0),
        1,
        "Number of this broker, different from every other in the cluster.",
        aliases=("broker.id",),
        section="Identity and addresses",
    )
    cluster_id: str | None = row(
        Optional(Text("up to 64 letters, digits, dots, dashes and underscores", r"[A-Za-z0-9._-]{1,64}")),
        None,
        "Name of the cluster this broker belongs to; a data directory of another cluster is refused.",
        unset="taken from the data directory, or made up on the first start",
        ours=True,
    )
    broker_rack: str | None = row(
        Optional(Text()),
        None,
        "Rack or zone this broker stands in.",
        unset="no rack",
    )
    listeners: tuple[Listener, ...] = row(
        Listeners(),
        (Listener("PLAINTEXT", "127.0.0.1", 9092),),
        "Addresses to listen on; an empty host means every interface, port 0 any free port.",
    )
    advertised_listeners: tuple[Listener, ...] = row(
        Listeners(advertised=True),
        (),
        "Addresses that clients are told to use, when they differ from `listeners`.",
        unset="the same as `listeners`",
    )
    log_dir: str = row(_Directory(), "data", "Directory of the broker's data.", aliases=("log.dirs",))
    logging_level: str = row(
        Choice("debug", "info", "warning", "error"),
        "info",
        "How much the broker writes to its own log.",
        dynamic=True,
        ours=True,
    )

    auto_create_topics_enable: bool = row(
        Bool(),
        True,
        "Whether a topic is created when a client asks for one that does not exist.",
        dynamic=True,
        section="Topics",
    )
    delete_topic_enable: bool = row(Bool(), True, "Whether topics can be deleted.", dynamic=True)
    num_partitions: int = row(
        Whole(1), 1, "Partitions of a topic that is created without a number of them.", dynamic=True
    )
    default_replication_factor: int = row(
        Whole(1, 32767), 1, "Replicas of a topic that is created without a number of them.", dynamic=True
    )
    default_replication_mode: str = _default_of("replication.mode", ours=True)
    min_insync_replicas: int = _default_of("min.insync.replicas")
    unclean_leader_election_enable: bool = _default_of("unclean.leader.election.enable")
    message_max_bytes: int = _default_of("max.message.bytes")
    compression_type: str = _default_of("compression.type")

    max_connections: int = row(
        Whole(0),
        INT_MAX,
        "Connections that may be open at the same time; one more is closed at once.",
        dynamic=True,
        section="Limits",
    )
    max_connections_per_ip: int = row(
        Whole(0), INT_MAX, "Connections that one client address may have open at the same time.", dynamic=True
    )
    connections_max_idle_ms: int = row(
        Whole(-1, LONG_MAX, unit="ms", note="-1 for no limit"),
        600_000,
        "How long a connection may stay silent before it is closed.",
    )
    socket_listen_backlog_size: int = row(Whole(1), 50, "Connections that may wait to be accepted.")
    socket_request_max_bytes: int = row(
        Whole(1, unit="bytes"),
        100 * _MIB,
        "Size of the largest request; a connection that announces a larger one is closed.",
    )
    queued_max_request_bytes: int = row(
        Whole(-1, LONG_MAX, unit="bytes", note="-1 for no limit"),
        256 * _MIB,
        "Bytes of requests that may wait in memory, all connections together, before reading pauses.",
    )
    queued_max_requests_per_connection: int = row(
        Whole(1),
        1000,
        "Requests of one connection that may wait for their answer before reading from it pauses.",
        ours=True,
    )
    queued_max_response_bytes_per_connection: int = row(
        Whole(1, LONG_MAX, unit="bytes"),
        4 * _MIB,
        "Bytes of answers that may wait for a slow reader before reading from its connection pauses.",
        ours=True,
    )
    fetch_max_bytes: int = row(
        Whole(1024, unit="bytes"),
        55 * _MIB,
        "Size of the largest answer to a fetch, whatever the client asks for; a larger first batch is still sent.",
    )
    max_incremental_fetch_session_cache_slots: int = row(
        Whole(0),
        1000,
        "Fetch sessions the broker remembers; clients without one send all their partitions each time.",
    )
    max_request_partition_size_limit: int = row(
        Whole(1), 2000, "Partitions in one answer to DescribeTopicPartitions."
    )
    log_open_files_max: int = row(
        Whole(64),
        4096,
        "Segment files kept open at the same time; the least recently used are closed.",
        ours=True,
    )

    log_segment_bytes: int = _default_of("segment.bytes", section="Log: segments and durability")
    log_roll_ms: int | None = _first_of("segment.ms", "log.roll.hours")
    log_roll_hours: int = row(Whole(1, unit="hours"), 168, "The same in hours.")
    log_roll_jitter_ms: int | None = _first_of("segment.jitter.ms", "log.roll.jitter.hours")
    log_roll_jitter_hours: int = row(Whole(0, unit="hours"), 0, "The same in hours.")
    log_index_size_max_bytes: int = _default_of("segment.index.bytes")
    log_index_interval_bytes: int = _default_of("index.interval.bytes")
    log_preallocate: bool = _default_of("preallocate")
    log_flush_interval_messages: int = _default_of("flush.messages")
    log_flush_interval_ms: int | None = _first_of("flush.ms", "log.flush.scheduler.interval.ms")
    log_flush_scheduler_interval_ms: int = row(
        _LONG_MS, LONG_MAX, "How often the broker looks for logs that `flush.ms` wants synced."
    )
    log_flush_offset_checkpoint_interval_ms: int = row(
        _LONG_MS, 60_000, "How often the broker notes how far its logs are synced, which shortens recovery."
    )
    log_flush_start_offset_checkpoint_interval_ms: int = row(
        _LONG_MS, 60_000, "How often the broker notes where its logs start."
    )
    log_message_timestamp_type: str = _default_of("message.timestamp.type")
    log_message_timestamp_before_max_ms: int = _default_of("message.timestamp.before.max.ms")
    log_message_timestamp_after_max_ms: int = _default_of("message.timestamp.after.max.ms")

    log_cleanup_policy: frozenset[str] = _default_of(
        "cleanup.policy", section="Log: retention and compaction"
    )
    log_retention_ms: int | None = _first_of("retention.ms", "log.retention.minutes")
    log_retention_minutes: int | None = row(
        Optional(Whole(-1, unit="minutes", note="-1 for no limit")),
        None,
        "The same in minutes.",
        unset="`log.retention.hours` decides",
    )
    log_retention_hours: int = row(Whole(-1, unit="hours", note="-1 for no limit"), 168, "The same in hours.")
    log_retention_bytes: int = _default_of("retention.bytes")
    log_retention_check_interval_ms: int = row(
        _LONG_MS, 300_000, "How often the broker looks for segments to drop."
    )
    log_segment_delete_delay_ms: int = _default_of("file.delete.delay.ms")
    log_cleaner_enable: bool = row(
        Bool(), True, "Whether topics with the cleanup policy `compact` are compacted."
    )
    log_cleaner_backoff_ms: int = row(
        Whole(0, LONG_MAX, unit="ms"),
        15_000,
        "How long compaction rests when no log needs it.",
        dynamic=True,
    )
    log_cleaner_dedupe_buffer_size: int = row(
        Whole(_MIB, LONG_MAX, unit="bytes"),
        128 * _MIB,
        "Memory that compaction may use to remember the newest offset of each key.",
        dynamic=True,
    )
    log_cleaner_min_cleanable_ratio: float = _default_of("min.cleanable.dirty.ratio")
    log_cleaner_min_compaction_lag_ms: int = _default_of("min.compaction.lag.ms")
    log_cleaner_max_compaction_lag_ms: int = _default_of("max.compaction.lag.ms")
    log_cleaner_delete_retention_ms: int = _default_of("delete.retention.ms")

    static_values: Mapping[str, str] = field(default_factory=dict)
    """What the config file and ``--set`` gave, in Kafka's spelling; needs a restart to change."""
    dynamic_values: Mapping[str, str] = field(default_factory=dict)
    """What AlterConfigs gave for this broker; wins over everything else."""
    dynamic_defaults: Mapping[str, str] = field(default_factory=dict)
    """What AlterConfigs gave for all brokers of the cluster; wins over the config file."""

    topic_defaults: Mapping[str, Any] = field(init=False, repr=False, compare=False)
    """Attributes of a topic without overrides, worked out once."""
    topic_configs: WeakValueDictionary[frozenset[tuple[str, str]], TopicConfig] = field(
        init=False, repr=False, compare=False, default_factory=WeakValueDictionary
    )
    """Instances in use, by overrides: equal topics share one. Weak, so altering a topic leaves nothing behind."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "topic_defaults", defaults_from(self))

    @classmethod
    def parse(cls, values: Mapping[str, Raw]) -> BrokerConfig:
        """From values by name; refuses unknown names and values, naming what is allowed."""
        return _build(_canonical(values), {}, {})

    @classmethod
    def load(cls, toml_text: str, overrides: Mapping[str, Raw] | None = None) -> BrokerConfig:
        """From a config file's text, with the values of ``--set`` on top."""
        return _build(_canonical(read_toml(toml_text)) | _canonical(overrides or {}), {}, {})

    def with_dynamic(
        self, values: Mapping[str, str], defaults: Mapping[str, str] | None = None
    ) -> BrokerConfig:
        """With what AlterConfigs gave for this broker and for all brokers, in place of what it gave before."""
        from tidelog.config.checks import check_dynamic_broker

        check_dynamic_broker(values)
        check_dynamic_broker(defaults or {})
        return _build(self.static_values, values, defaults or {})


BROKER_SETTINGS: Mapping[str, Setting] = settings_of(BrokerConfig)

_ALIASES = {alias: name for name, setting in BROKER_SETTINGS.items() for alias in setting.aliases}

_ONE_LOOP = "one event loop serves all connections, so there are no threads to count"
_NOT_HERE: dict[str, str] = {
    "num.network.threads": _ONE_LOOP,
    "num.io.threads": _ONE_LOOP,
    "zookeeper.connect": "Tidelog does not need ZooKeeper",
} | {
    setting.name: f"as a default for all topics it is called {setting.synonyms[0].name}"
    for setting in TOPIC_SETTINGS.values()
    if setting.name not in BROKER_SETTINGS
}


def broker_setting(name: str) -> Setting:
    """The row of a broker setting, also by an alias; refuses a name that is none."""
    setting = BROKER_SETTINGS.get(_ALIASES.get(name, name))
    if setting is None:
        refuse_unknown(name, "broker", [*BROKER_SETTINGS, *_ALIASES], _NOT_HERE)
    return setting


def _canonical(values: Mapping[str, Raw]) -> dict[str, str]:
    """Checked values in Kafka's spelling, by the settings' first names."""
    canonical: dict[str, str] = {}
    for name, raw in values.items():
        setting = broker_setting(name)
        text = setting.format(setting.parse(raw))
        if text is None:
            continue
        if canonical.setdefault(setting.name, text) != text:
            other = canonical[setting.name]
            raise InvalidConfig(
                f"{name}={shown(raw)} is refused: {setting.name} is the same, and is {other}."
            )
    return canonical


def _build(
    static: Mapping[str, str], dynamic: Mapping[str, str], dynamic_defaults: Mapping[str, str]
) -> BrokerConfig:
    values: dict[str, Any] = {}
    for name, text in {**static, **dynamic_defaults, **dynamic}.items():
        setting = BROKER_SETTINGS[name]
        values[setting.attribute] = setting.parse(text)
    values.setdefault("advertised_listeners", values.get("listeners", BROKER_SETTINGS["listeners"].default))
    config = BrokerConfig(
        **values, static_values=static, dynamic_values=dynamic, dynamic_defaults=dynamic_defaults
    )
    _check_together(config)
    return config


def _check_together(config: BrokerConfig) -> None:
    """Rules between settings, checked when all of them are known."""
    names = {listener.name for listener in config.listeners}
    for listener in config.advertised_listeners:
        if listener.name not in names:
            allowed = "names that listeners has: " + ", ".join(sorted(names))
            refuse("advertised.listeners", str(listener), allowed)
    if 0 <= config.queued_max_request_bytes < config.socket_request_max_bytes:
        # One allowed request could never be read, and its connection would hang.
        allowed = f"at least socket.request.max.bytes, which is {config.socket_request_max_bytes}, or -1"
        refuse("queued.max.request.bytes", config.queued_max_request_bytes, allowed)
