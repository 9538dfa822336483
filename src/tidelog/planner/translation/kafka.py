"""Kafka: broker properties, topic settings and producer settings to a topic of Tidelog, and back."""

from collections.abc import Iterator, Mapping

from tidelog.config.modes import ISR
from tidelog.planner.promises import RULES, SYNC_EVERY_MESSAGE, Terms
from tidelog.planner.translation import Translated, flag, number

NEVER = str(2**63 - 1)  # Kafka's default for messages between syncs

# Names of broker-wide and topic settings that decide about a promise → the topic's name for it.
_DECIDING = {
    "default.replication.factor": "replication.factor",
    "replication.factor": "replication.factor",
    "min.insync.replicas": "min.insync.replicas",
    "unclean.leader.election.enable": "unclean.leader.election.enable",
    "log.flush.interval.messages": "flush.messages",
    "flush.messages": "flush.messages",
    "num.partitions": "num.partitions",
    "acks": "acks",
    "enable.idempotence": "enable.idempotence",
}
# Known, and without influence on what is lost or stops; by the beginning of their names.
_HARMLESS = (
    *(
        "advertised.",
        "auth",
        "auto.create",
        "auto.leader.rebalance",
        "leader.imbalance.",
        "background.",
        "batch.size",
        "bootstrap.servers",
        "buffer.memory",
    ),
    *(
        "cleanup.policy",
        "client.",
        "compression",
        "connections.",
        "delete.",
        "fetch.",
        "file.delete",
        "group.",
    ),
    *(
        "index.",
        "inter.",
        "key.",
        "linger.ms",
        "listener",
        "log.cleaner",
        "log.cleanup",
        "log.dir",
        "log.index",
    ),
    *(
        "log.message",
        "log.preallocate",
        "log.retention",
        "log.roll",
        "log.segment",
        "max.message",
        "message.",
    ),
    *("log.flush.scheduler.", "log.flush.offset.", "log.flush.start.offset."),
    *("num.io.threads", "num.network.threads", "num.recovery.threads", "num.replica."),
    *("metric", "offsets.", "preallocate", "queued.", "quota", "request.", "retention.", "sasl."),
    *("security.", "segment.", "socket.", "ssl.", "super.users", "transaction.", "value."),
)
# Known, and of influence on how long something takes, not on whether it happens.
_TIMES = ("replica.", "leader.", "broker.session.", "broker.heartbeat.", "zookeeper.session.")
_SOMETIMES = "a sync now and then: a power failure of all loses less, and still may lose records"
_ELSEWHERE = {
    "broker.rack": "placement over racks",
    "broker.id": "identity of the broker",
    "node.id": "identity of the broker",
    "process.roles": "whether the brokers are the controllers; see --separate-controllers",
    "controller.": "the controllers; see --separate-controllers",
    "zookeeper.": "ZooKeeper appoints the leaders there, the controllers do so here",
    "log.flush.interval.ms": _SOMETIMES,
    "flush.ms": _SOMETIMES,
    "offsets.topic.replication": "replicas of the topic with the positions of groups, not of this topic",
    "transaction.state.log.": "replicas of the topic with transactions, not of this topic",
    "remote.": "tiered storage, which Tidelog does not have",
}


def from_kafka(settings: Mapping[str, str]) -> Translated:
    """``settings``: of brokers, topic and producer in one table."""
    # A topic's own setting counts, wherever the broker-wide one is in the file.
    by_name = sorted(settings.items(), key=lambda each: _DECIDING.get(each[0]) == each[0])
    known = {_DECIDING[name]: value.strip() for name, value in by_name if name in _DECIDING}
    acks = known.get("acks", "all")
    terms = Terms(
        ISR,
        number(known, "replication.factor", "1"),
        min_in_sync=number(known, "min.insync.replicas", "1"),
        synced=number(known, "flush.messages", NEVER) == SYNC_EVERY_MESSAGE,
        unclean=flag(known, "unclean.leader.election.enable", "false"),
        acks="all" if acks == "-1" else acks,
        kafka=True,
    )
    partitions = number(known, "num.partitions", "0", 0)
    return Translated("kafka", terms, partitions, tuple(_notes(terms, known)), tuple(_others(settings)))


def _notes(terms: Terms, known: Mapping[str, str]) -> Iterator[str]:
    if "replication.factor" not in known:
        yield "No replication factor was given: Kafka's default is 1."
    if "min.insync.replicas" not in known:
        yield "No min.insync.replicas was given: Kafka's default is 1."
    if terms.acks == "1":
        yield f"acks=1: {RULES[ISR].acks_1}."
    if terms.acks != "all":
        yield (
            f"What is said about writes is for acks=all. With acks={terms.acks}, a leader also takes records "
            "while fewer replicas than min.insync.replicas are in sync."
        )
    if terms.acks == "0":
        yield "acks=0: the producer does not learn whether a record was written."
    if terms.replicas > 1:
        yield (
            "Before Kafka 4.1, or without eligible.leader.replicas.version=1, the last member of the "
            "in-sync set leads again even with an empty disk: one lost disk may then cost what the others "
            "had."
        )
    if not flag(known, "enable.idempotence", "true"):
        yield "Without enable.idempotence, retries can write a record twice or out of order."
    if terms.min_in_sync > terms.replicas:
        yield (
            f"min.insync.replicas={terms.min_in_sync} with {terms.replicas} replicas: Kafka refuses every "
            "write with acks=all. Tidelog refuses to create such a topic: the command has "
            f"min.insync.replicas={terms.copies}."
        )


def _others(settings: Mapping[str, str]) -> Iterator[str]:
    """Settings that are not translated, and whether they matter."""
    for name in settings:
        if name in _DECIDING:
            continue
        where = next((words for begin, words in _ELSEWHERE.items() if name.startswith(begin)), "")
        if where:
            yield f"{name}: not translated ({where})."
        elif name.startswith(_HARMLESS):
            continue
        elif name.startswith(_TIMES):
            yield f"{name}: changes how long a failover takes, not what is lost."
        else:
            yield f"{name}: not known. It is not taken into account, and may matter."


def to_kafka(terms: Terms) -> tuple[dict[str, str], list[str]]:
    """Topic and producer settings with the closest promise, and what Kafka does not have."""
    settings = {
        "replication.factor": str(terms.replicas),
        "min.insync.replicas": str(terms.copies),
        "unclean.leader.election.enable": str(terms.unclean).lower(),
        "acks": "all" if RULES[terms.mode].acks_1_is_all else terms.acks,
        "enable.idempotence": "true",
    }
    if terms.synced:
        settings["flush.messages"] = "1"
    return settings, list(_missing_in_kafka(terms))


def _missing_in_kafka(terms: Terms) -> Iterator[str]:
    """How many faults are tolerated there depends on where the controllers are, and is not said here."""
    rule = RULES[terms.mode]
    if terms.mode != ISR and terms.copies < terms.replicas:
        yield (
            f"Kafka waits for every member of the in-sync set, {terms.mode} for {terms.copies} of "
            f"{terms.replicas} replicas: a slow replica costs latency there until it is left out."
        )
    if rule.elects_itself:
        yield "Kafka's leaders are appointed by the controllers: without their majority there is no failover."
    if not rule.leader_can_be_replaced and terms.replicas > 1:
        yield "Kafka has no fixed primary: the controllers appoint another replica when the leader fails."
    if terms.may_degrade:
        yield "Kafka does not degrade to fewer copies: below min.insync.replicas it refuses acks=all."
