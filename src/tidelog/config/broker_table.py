"""The table of broker settings: one row per setting, in the order in which the documentation lists them.

Rows only; ``BrokerConfig`` in broker.py reads them from files and requests. A broker-wide default of a
topic setting takes its kind, range and default from the topic's row, so the two cannot drift apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tidelog.config.authorization import STANDARD_AUTHORIZER, Principals
from tidelog.config.controllers import (
    BROKER_ROLE,
    CONTROLLER_ROLE,
    ListenerName,
    ListenerNames,
    NodeAddresses,
    QuorumVoter,
    QuorumVoters,
)
from tidelog.config.kinds import (
    INT_MAX,
    LONG_MAX,
    Bool,
    Choice,
    ChoiceSet,
    ConfigType,
    ExplainedError,
    Kind,
    Nullable,
    Raw,
    Text,
    Whole,
    split_list,
)
from tidelog.config.listeners import Listener, Listeners, ProtocolMap, SecurityProtocol
from tidelog.config.modes import DEFAULT
from tidelog.config.table import row
from tidelog.config.topic import TOPIC_SETTINGS

_LONG_MS = Whole(1, LONG_MAX, unit="ms")
_MIB = 1 << 20


class _Directory(Text):
    """One directory. Kafka spreads partitions over several; here a second disk is a second broker."""

    def __init__(self) -> None:
        super().__init__("the path of one directory")

    def parse(self, raw: Raw) -> str:
        directories = split_list(raw)
        # A comma in the only element of a TOML list counts, too: it would be two when read back.
        if len(directories) > 1 or any("," in directory for directory in directories):
            raise ExplainedError("Tidelog stores its data in one directory; run one broker per disk instead")
        return super().parse(directories[0] if directories else "")


class _Assignors(Kind[tuple[str, ...]]):
    """Some of the assignors there are, each once, in order of preference."""

    type = ConfigType.LIST
    allowed = "uniform, range or both, separated by a comma"

    def parse(self, raw: Raw) -> tuple[str, ...]:
        words = tuple(split_list(raw))
        if not words or len(set(words)) < len(words) or not {"uniform", "range"}.issuperset(words):
            raise ValueError(raw)
        return words

    def format(self, value: tuple[str, ...]) -> str:
        return ",".join(value)


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
        Nullable(TOPIC_SETTINGS[topic_name].kind), None, doc, dynamic=True, unset=f"`{unset}` decides", **more
    )


# Never made by itself: what dataclasses would generate for it is generated for BrokerConfig.
@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class BrokerTable:
    """Everything that can be set per broker."""

    node_id: int = row(
        Whole(0),
        1,
        "Id of this broker, unique in the cluster.",
        aliases=("broker.id",),
        section="Identity and addresses",
    )
    cluster_id: str | None = row(
        Nullable(Text("up to 64 letters, digits, dots, dashes and underscores", r"[A-Za-z0-9._-]{1,64}")),
        None,
        "Id of the broker's cluster; a data directory of another cluster is refused.",
        unset="taken from the data directory, or generated on the first start",
        ours=True,
    )
    broker_rack: str | None = row(
        Nullable(Text()),
        None,
        "Rack or zone of this broker.",
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
        "Addresses for clients, if they differ from `listeners`. A client is told the addresses of the "
        "listener that it came in by.",
        unset="the same as `listeners`",
    )
    listener_security_protocol_map: tuple[tuple[str, SecurityProtocol], ...] = row(
        ProtocolMap(),
        (),
        "Security protocol of each listener as `NAME:PROTOCOL`: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.",
        unset="a listener named like a protocol has that protocol, any other PLAINTEXT",
    )
    inter_broker_listener_name: str | None = row(
        Nullable(ListenerName()),
        None,
        "Listener at which other brokers connect to this one. Its protocol is also what this broker speaks "
        "to them.",
        unset="the first of `listeners` that serves clients",
    )
    allow_insecure_listeners: bool = row(
        Bool(),
        False,
        "Whether a listener without authentication may have an address that other machines reach. "
        "Every client that reaches it owns the cluster.",
        ours=True,
    )
    node_addresses: tuple[QuorumVoter, ...] = row(
        NodeAddresses(),
        (),
        "Other nodes as `id@host:port`: this node connects to them at these addresses instead of those that "
        "they advertise. For clusters whose brokers reach each other by another way than clients do, such as "
        "a tunnel or a proxy.",
        unset="the advertised addresses",
        ours=True,
    )
    log_dir: str = row(
        _Directory(),
        "data",
        "Directory of the broker's data; a relative path starts at the config file's directory.",
        aliases=("log.dirs",),
    )
    logging_level: str = row(
        Choice("debug", "info", "warning", "error"),
        "info",
        "Level of the broker's own log.",
        dynamic=True,
        ours=True,
    )
    logging_format: str = row(
        Choice("plain", "json"), "plain", "Line format of the broker's own log.", ours=True
    )
    http_port: int = row(
        Whole(0, 65535),
        0,
        "Port on the first listener's host that serves `/metrics` for Prometheus, and `/health`, `/ready` "
        "and `/live` for probes; 0 is off.",
        ours=True,
    )
    event_loop_sample_interval_ms: int = row(
        Whole(1, 1000),
        20,
        "How often the broker measures the lag of its event loop, for the histograms in `/metrics`. "
        "Anything that blocks the loop for longer than this is always recorded.",
        ours=True,
    )

    process_roles: frozenset[str] = row(
        ChoiceSet(BROKER_ROLE, CONTROLLER_ROLE),
        frozenset((BROKER_ROLE, CONTROLLER_ROLE)),
        "Roles of this node: host partitions (broker), vote in the metadata quorum (controller), or both.",
        section="Controllers",
    )
    controller_quorum_voters: tuple[QuorumVoter, ...] = row(
        QuorumVoters(),
        (),
        "The controllers of the cluster as `id@host:port`. They create it. Later the voter set is stored in "
        "the metadata log, and a node uses this list only to find the controllers.",
        unset="this node is the only controller",
    )
    controller_listener_names: tuple[str, ...] = row(
        ListenerNames(),
        (),
        "Listeners for traffic between controllers and from brokers to controllers. They are not advertised "
        "to clients.",
        unset="all listeners serve clients, brokers and controllers",
    )
    controller_quorum_fetch_timeout_ms: int = row(
        Whole(200),
        1000,
        "An active controller that is silent for this time is replaced. One that does not hear from a "
        "majority for this time steps down.",
    )
    metadata_log_max_record_bytes_between_snapshots: int = row(
        Whole(1, LONG_MAX),
        20 * _MIB,
        "Each node writes a snapshot after this many bytes of new metadata, and drops older metadata.",
    )
    metadata_log_max_snapshot_interval_ms: int = row(
        Whole(0, LONG_MAX, unit="ms"),
        3_600_000,
        "Longest time until new metadata is in a snapshot; 0 is off.",
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
        Whole(1), 1, "Number of partitions of a topic that is created without one.", dynamic=True
    )
    cluster_partitions_max: int = row(
        Whole(1),
        200_000,
        "Partitions that the topics of the cluster may have together, without those of internal topics; "
        "requests for more are refused with POLICY_VIOLATION.",
        dynamic=True,
        ours=True,
    )
    default_replication_factor: int = row(
        Whole(1, 32767),
        3,
        "Number of replicas of a topic that is created without one; at most the number of brokers in the "
        "cluster.",
        dynamic=True,
    )
    auto_leader_rebalance_enable: bool = row(
        Bool(),
        True,
        "Whether leadership returns automatically to the preferred leader, the first replica of a partition.",
        dynamic=True,
    )
    leader_imbalance_check_interval_seconds: int = row(
        Whole(1), 30, "How often leaders are checked and moved back.", dynamic=True
    )
    broker_drain: bool = row(
        Bool(),
        False,
        "Whether this broker leaves leadership to other replicas; set by `tidelog broker drain`.",
        dynamic=True,
        ours=True,
    )
    default_replication_mode: str = row(
        TOPIC_SETTINGS["replication.mode"].kind,
        DEFAULT,
        "Replication mode of new topics that name none. Existing topics keep theirs.",
        dynamic=True,
        ours=True,
    )
    min_insync_replicas: int = _default_of("min.insync.replicas")
    unclean_leader_election_enable: bool = _default_of("unclean.leader.election.enable")
    message_max_bytes: int = _default_of("max.message.bytes")
    compression_type: str = _default_of("compression.type")

    authorizer_class_name: str = row(
        Choice("", STANDARD_AUTHORIZER),
        "",
        f"Empty: every client may do everything. `{STANDARD_AUTHORIZER}`: a client may do what the cluster's "
        "access rules allow it. The name is Kafka's; nothing of Java is loaded. Set the same on all nodes.",
        section="Access rules",
    )
    super_users: tuple[str, ...] = row(
        Principals(),
        (),
        "Principals that may do everything, separated by semicolons, such as `User:admin`. Set the same on "
        "all nodes.",
        unset="none",
    )
    allow_everyone_if_no_acl_found: bool = row(
        Bool(),
        False,
        "Whether all clients may use a resource that no access rule names. Set the same on all nodes.",
    )
    audit_log_file: str | None = row(
        Nullable(Text("a path")),
        None,
        "File for one line of JSON for every refused operation, and every change of users, access rules, "
        "quotas, topics and settings, with its principal; a relative path starts at the config file's "
        "directory.",
        unset="these lines are part of the broker's own log",
        ours=True,
    )

    max_connections: int = row(
        Whole(0),
        INT_MAX,
        "Largest number of open connections; further ones are closed at once.",
        dynamic=True,
        section="Limits",
    )
    max_connections_per_ip: int = row(
        Whole(0), INT_MAX, "Largest number of open connections from one client address.", dynamic=True
    )
    connections_max_idle_ms: int = row(
        Whole(-1, LONG_MAX, unit="ms", note="-1 for no limit"),
        600_000,
        "Time after which an idle connection is closed.",
    )
    socket_listen_backlog_size: int = row(Whole(1), 1024, "Connections that may wait to be accepted.")
    socket_request_max_bytes: int = row(
        Whole(1, unit="bytes"),
        100 * _MIB,
        "Size of the largest request; a connection that announces a larger one is closed.",
    )
    queued_max_request_bytes: int = row(
        Whole(-1, LONG_MAX, unit="bytes", note="-1 for no limit"),
        256 * _MIB,
        "Bytes of requests of all connections that may wait in memory before reading pauses.",
    )
    queued_max_requests_per_connection: int = row(
        Whole(1),
        1000,
        "Unanswered requests of one connection before reading from it pauses.",
        ours=True,
    )
    fetch_max_bytes: int = row(
        Whole(1024, unit="bytes"),
        55 * _MIB,
        "Largest size of a fetch response, whatever the client asks for; a larger first batch is still sent.",
    )
    max_incremental_fetch_session_cache_slots: int = row(
        Whole(0),
        1000,
        "Number of cached fetch sessions; without one, a client names all partitions in each fetch.",
    )
    max_request_partition_size_limit: int = row(
        Whole(1), 2000, "Partitions in one answer to DescribeTopicPartitions."
    )
    broker_session_timeout_ms: int = row(
        Whole(300),
        1500,
        "A broker that the controllers do not hear from for this time is fenced, and its partitions get new "
        "leaders. A leader that does not hear from the controllers for this time stops leading, unless every "
        "replica that could take over still follows it.",
        section="Replication",
    )
    broker_heartbeat_interval_ms: int = row(Whole(20), 300, "Interval between heartbeats to the controllers.")
    replica_lag_time_max_ms: int = row(
        Whole(100),
        10_000,
        "A follower that has not caught up for this time leaves the in-sync set, and writes no longer wait "
        "for it.",
        dynamic=True,
    )
    leader_replication_throttled_rate: int = row(
        Whole(1, LONG_MAX),
        LONG_MAX,
        "Bytes per second that replicas named by a topic's `leader.replication.throttled.replicas` get from "
        "this broker while they catch up.",
        dynamic=True,
    )
    follower_replication_throttled_rate: int = row(
        Whole(1, LONG_MAX),
        LONG_MAX,
        "Accepted for Kafka's tools; only the leader's setting has an effect.",
        dynamic=True,
    )
    replica_selector_class: str = row(
        Choice("", "rack-aware", "org.apache.kafka.common.replica.RackAwareReplicaSelector"),
        "",
        "Empty: consumers read from leaders. rack-aware: a consumer with a `client.rack` reads from "
        "an in-sync replica there.",
    )
    producer_id_expiration_ms: int = row(
        _LONG_MS,
        86_400_000,
        "How long a partition remembers an idle idempotent producer; a retry after that is stored "
        "a second time.",
        dynamic=True,
    )
    producer_ids_per_partition_max: int = row(
        Whole(1),
        10_000,
        "Number of idempotent producers that a partition remembers; the longest idle ones are forgotten.",
        dynamic=True,
        ours=True,
    )
    log_open_files_max: int = row(
        Whole(64),
        4096,
        "Segment files kept open at the same time; the least recently used are closed.",
        ours=True,
    )

    log_segment_bytes: int = _default_of("segment.bytes", section="Log: segments and durability")
    log_roll_ms: int | None = _first_of("segment.ms", "log.roll.hours")
    log_roll_hours: int = row(
        Whole(1, unit="hours"), 168, "Default of the topic setting `segment.ms`, in hours."
    )
    log_roll_jitter_ms: int | None = _first_of("segment.jitter.ms", "log.roll.jitter.hours")
    log_roll_jitter_hours: int = row(
        Whole(0, unit="hours"), 0, "Default of the topic setting `segment.jitter.ms`, in hours."
    )
    log_index_size_max_bytes: int = _default_of("segment.index.bytes")
    log_index_interval_bytes: int = _default_of("index.interval.bytes")
    log_preallocate: bool = _default_of("preallocate")
    log_flush_interval_messages: int = _default_of("flush.messages")
    log_flush_interval_ms: int = _default_of("flush.ms")
    log_scrub_bytes_per_second: int = row(
        Whole(0),
        4 << 20,
        "Bytes per second at which old segments are verified in the background, to find damaged records; "
        "0 is off.",
        dynamic=True,
        ours=True,
    )
    log_flush_scheduler_interval_ms: int = row(
        # Kafka never looks by default, so a topic's flush.ms does nothing there until this is set, too.
        _LONG_MS,
        100,
        "How often the broker syncs logs that are due by `flush.ms`.",
    )
    log_flush_offset_checkpoint_interval_ms: int = row(
        _LONG_MS,
        60_000,
        "How often the broker checkpoints how far its logs are synced, which shortens recovery.",
    )
    log_flush_start_offset_checkpoint_interval_ms: int = row(
        _LONG_MS,
        60_000,
        "Accepted for Kafka's tools; log start offsets are checkpointed together with synced offsets.",
    )
    log_message_timestamp_type: str = _default_of("message.timestamp.type")
    log_message_timestamp_before_max_ms: int = _default_of("message.timestamp.before.max.ms")
    log_message_timestamp_after_max_ms: int = _default_of("message.timestamp.after.max.ms")

    log_cleanup_policy: frozenset[str] = _default_of(
        "cleanup.policy", section="Log: retention and compaction"
    )
    log_retention_ms: int | None = _first_of("retention.ms", "log.retention.minutes")
    log_retention_minutes: int | None = row(
        Nullable(Whole(-1, unit="minutes", note="-1 for no limit")),
        None,
        "Default of the topic setting `retention.ms`, in minutes.",
        unset="`log.retention.hours` decides",
    )
    log_retention_hours: int = row(
        Whole(-1, unit="hours", note="-1 for no limit"),
        168,
        "Default of the topic setting `retention.ms`, in hours.",
    )
    log_retention_bytes: int = _default_of("retention.bytes")
    log_retention_check_interval_ms: int = row(
        _LONG_MS, 300_000, "How often the broker checks for segments to delete."
    )
    log_segment_delete_delay_ms: int = _default_of("file.delete.delay.ms")
    log_cleaner_enable: bool = row(
        Bool(), True, "Whether topics with the cleanup policy `compact` are compacted."
    )
    log_cleaner_backoff_ms: int = row(
        Whole(0, LONG_MAX, unit="ms"),
        15_000,
        "Pause of compaction when no log needs it.",
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

    offsets_topic_num_partitions: int = row(
        Whole(1), 50, "Number of partitions of `__consumer_offsets`; used when it is created.",
        section="Consumer groups",
    )  # fmt: skip
    offsets_topic_replication_factor: int = row(
        Whole(1, 32767),
        3,
        "Number of replicas of `__consumer_offsets`; at most the number of brokers when it is created.",
    )
    offsets_topic_segment_bytes: int = row(
        Whole(1, unit="bytes"),
        100 * _MIB,
        "Segment size of `__consumer_offsets`; small, so that compaction runs early.",
    )
    offsets_retention_minutes: int = row(
        Whole(1, unit="minutes"),
        10_080,
        "How long committed offsets are kept after the last member left the group, or after the last commit "
        "of a group without members.",
        dynamic=True,
    )
    offsets_retention_check_interval_ms: int = row(
        _LONG_MS, 600_000, "How often the broker checks for expired offsets."
    )
    offset_metadata_max_bytes: int = row(
        Whole(0, 32767, unit="bytes"),
        4096,
        "Largest size of the metadata that a client may attach to a committed offset.",
        dynamic=True,
    )
    group_min_session_timeout_ms: int = row(
        Whole(1, unit="ms"), 6_000, "Shortest session timeout a group member may ask for.", dynamic=True
    )
    group_max_session_timeout_ms: int = row(
        Whole(1, unit="ms"), 1_800_000, "Longest session timeout a group member may ask for.", dynamic=True
    )
    group_initial_rebalance_delay_ms: int = row(
        # Kafka waits 3 s, which is most of the time until a small group's first record. Half a second is
        # enough for members that are started together, and each that joins in it extends it.
        Whole(0, unit="ms"),
        500,
        "How long the first rebalance of an empty group waits for more members after each join.",
        dynamic=True,
    )
    group_max_size: int = row(Whole(1), INT_MAX, "Largest number of members of a group.", dynamic=True)
    group_consumer_session_timeout_ms: int = row(
        Whole(1, unit="ms"),
        45_000,
        "A member with the consumer protocol that sends no heartbeat for this time loses its partitions.",
        dynamic=True,
    )
    group_consumer_heartbeat_interval_ms: int = row(
        Whole(1, unit="ms"),
        5_000,
        "Heartbeat interval of members with the consumer protocol.",
        dynamic=True,
    )
    group_consumer_min_session_timeout_ms: int = row(
        Whole(1, unit="ms"),
        45_000,
        "Shortest `consumer.session.timeout.ms` that a group may have of its own.",
        dynamic=True,
    )
    group_consumer_max_session_timeout_ms: int = row(
        Whole(1, unit="ms"),
        60_000,
        "Longest `consumer.session.timeout.ms` that a group may have of its own.",
        dynamic=True,
    )
    group_consumer_min_heartbeat_interval_ms: int = row(
        Whole(1, unit="ms"),
        5_000,
        "Shortest `consumer.heartbeat.interval.ms` that a group may have of its own.",
        dynamic=True,
    )
    group_consumer_max_heartbeat_interval_ms: int = row(
        Whole(1, unit="ms"),
        15_000,
        "Longest `consumer.heartbeat.interval.ms` that a group may have of its own.",
        dynamic=True,
    )
    group_consumer_rebalance_heartbeat_interval_ms: int = row(
        Whole(1, unit="ms"),
        500,
        "Heartbeat interval during a rebalance, so that members get revoked partitions quickly.",
        dynamic=True,
        ours=True,
    )
    group_consumer_max_size: int = row(
        Whole(1), INT_MAX, "Largest number of members of a group with the consumer protocol.", dynamic=True
    )
    group_consumer_assignors: tuple[str, ...] = row(
        _Assignors(),
        ("uniform", "range"),
        "Assignors that members may request; the first one is the default.",
    )
    group_consumer_migration_policy: str = row(
        Choice("bidirectional", "upgrade", "downgrade", "disabled"),
        "bidirectional",
        "Whether a group changes its protocol while it has members: to the consumer protocol when the first "
        "member that speaks it joins (upgrade), back when the last such member leaves (downgrade).",
        dynamic=True,
    )

    transaction_state_log_num_partitions: int = row(
        Whole(1),
        50,
        "Number of partitions of `__transaction_state`; used when it is created.",
        section="Transactions",
    )
    transaction_state_log_replication_factor: int = row(
        Whole(1, 32767),
        3,
        "Number of replicas of `__transaction_state`; at most the number of brokers when it is created.",
    )
    transaction_state_log_min_isr: int = row(
        Whole(1),
        2,
        "Number of replicas of `__transaction_state` that must hold a write, if it has that many.",
    )
    transaction_state_log_segment_bytes: int = row(
        Whole(1, unit="bytes"), 100 * _MIB, "Segment size of `__transaction_state`."
    )
    transaction_max_timeout_ms: int = row(
        Whole(1, unit="ms"),
        900_000,
        "Longest transaction timeout that a producer may request; a longer transaction is aborted.",
    )
    transactional_id_expiration_ms: int = row(
        Whole(1, unit="ms"),
        604_800_000,
        "How long a transactional id is remembered after its last transaction.",
    )
    transaction_remove_expired_transaction_cleanup_interval_ms: int = row(
        Whole(1, unit="ms"), 3_600_000, "How often the broker checks for expired transactional ids."
    )
    transaction_partition_verification_enable: bool = row(
        Bool(),
        True,
        "Whether a partition asks the coordinator before it accepts the first batch of a transaction. "
        "Without it, a late batch can remain that is never committed or aborted and that blocks consumers.",
        dynamic=True,
    )
