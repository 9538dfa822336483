"""RocketMQ master-slave, DLedger, NATS JetStream and RabbitMQ quorum queues.

Options have the names that the system gives them; ``replicas`` and ``queues`` are ours.
"""

from collections.abc import Callable, Mapping

from tidelog.config.modes import LEAST_REPLICAS, PRIMARY_BACKUP, QUORUM
from tidelog.planner.promises import Terms
from tidelog.planner.translation import Translated, number

Options = Mapping[str, str]
_ONCE = "Producers are idempotent here: a retry does not write a record twice."


def _is(options: Options, name: str, wanted: str) -> bool:
    return options.get(name, "").lower() == wanted.lower()


def _unknown(options: Options, *known: str) -> tuple[str, ...]:
    left = [name for name in options if name not in ("replicas", "queues", *known)]
    return tuple(f"{name}: not known. It is not taken into account, and may matter." for name in left)


# Names, addresses, sizes and retention: without influence on what is lost or stops.
_ROCKETMQ_HARMLESS = (
    *("brokerClusterName", "brokerName", "brokerId", "brokerIP1", "brokerIP2", "listenPort", "namesrvAddr"),
    *("haListenPort", "deleteWhen", "fileReservedTime", "mapedFileSizeCommitLog", "maxMessageSize"),
    *("mappedFileSizeCommitLog", "storePathRootDir", "storePathCommitLog", "storePathConsumeQueue"),
    *("storePathIndex", "defaultTopicQueueNums", "autoCreateTopicEnable", "autoCreateSubscriptionGroup"),
    *("sendMessageThreadPoolNums", "pullMessageThreadPoolNums", "diskMaxUsedSpaceRatio"),
)


# Options with few values. Another value must not be taken for the default: it may be a misspelt stronger one.
_VALUES = {
    "brokerRole": ("SYNC_MASTER", "ASYNC_MASTER"),
    "flushDiskType": ("SYNC_FLUSH", "ASYNC_FLUSH"),
    "enableAutoInSyncReplicas": ("true", "false"),
}


def _check_values(options: Options) -> None:
    """ValueError: a sentence for the user."""
    for name, values in _VALUES.items():
        if name in options and options[name].lower() not in [each.lower() for each in values]:
            more = " Use the settings of the master." if _is(options, name, "SLAVE") else ""
            raise ValueError(f"{name} is {options[name]!r}; it is {' or '.join(values)}.{more}")


def from_rocketmq(options: Options) -> Translated:
    """A master with slaves: synchronous or not, flushed or not, degrading or not."""
    _check_values(options)
    synchronous = _is(options, "brokerRole", "SYNC_MASTER")
    copies = number(options, "inSyncReplicas", "2") if synchronous else 1
    terms = Terms(
        PRIMARY_BACKUP,
        number(options, "replicas", "2"),
        min_in_sync=copies,
        synced=_is(options, "flushDiskType", "SYNC_FLUSH"),
        degrades=_is(options, "enableAutoInSyncReplicas", "true") and copies > 1,
    )
    notes = [
        "RocketMQ replicates a group of brokers, Tidelog a partition: a topic with a partition per group "
        "has the "
        "same layout.",
        "A slave that is late gives FLUSH_SLAVE_TIMEOUT there although the message is written. Here the "
        "write fails "
        "with NOT_ENOUGH_REPLICAS_AFTER_APPEND and is retried.",
        _ONCE,
    ]
    if synchronous and "inSyncReplicas" not in options:
        notes.append(
            "No inSyncReplicas was given. RocketMQ 4 waits for one slave, and this is what is assumed. "
            "RocketMQ 5 has a default of 1: without inSyncReplicas=2, SYNC_MASTER waits for no slave there."
        )
    if copies > terms.replicas:
        notes.append(
            f"inSyncReplicas={copies} with {terms.replicas} replicas: RocketMQ refuses every message. What "
            f"follows, and the command, is for {terms.copies}."
        )
    if not synchronous and "inSyncReplicas" in options:
        notes.append("inSyncReplicas has no meaning without brokerRole=SYNC_MASTER.")
    if terms.may_degrade:
        notes.append(
            "enableAutoInSyncReplicas is replication.degrade.after.ms here. RocketMQ does not go below "
            "minInSyncReplicas (1 by default); here it is always 1."
        )
    known = (
        *("brokerRole", "flushDiskType", "inSyncReplicas", "minInSyncReplicas", "enableAutoInSyncReplicas"),
        *_ROCKETMQ_HARMLESS,
    )
    queues = number(options, "queues", "0", 0)
    return Translated("rocketmq", terms, queues, tuple(notes), _unknown(options, *known))


def from_dledger(options: Options) -> Translated:
    _check_values(options)
    wanted = number(options, "replicas", "3")
    terms = Terms(QUORUM, _enough(wanted), synced=_is(options, "flushDiskType", "SYNC_FLUSH"))
    notes = [
        "DLedger replicates a whole broker: all of its queues get a new leader together. Here every "
        "partition has "
        "its own leader, and leaders are spread over the brokers.",
        _ONCE,
    ]
    if not terms.synced:
        notes.append(
            "DLedger does not flush before it acknowledges unless flushDiskType=SYNC_FLUSH: a power failure"
            " of a "
            "majority may lose records. The default of quorum topics here is flush.messages=1."
        )
    notes += _more_replicas(wanted)
    queues = number(options, "queues", "0", 0)
    return Translated("dledger", terms, queues, tuple(notes), _unknown(options, "flushDiskType"))


def _enough(replicas: int) -> int:
    """Quorum topics with fewer are refused."""
    return max(LEAST_REPLICAS[QUORUM], replicas)


def _more_replicas(wanted: int) -> list[str]:
    if wanted == _enough(wanted):
        return []
    return [f"quorum needs {_enough(wanted)} replicas; {wanted} would not survive anything."]


def from_nats(options: Options) -> Translated:
    """A JetStream stream."""
    wanted = number(options, "replicas", "3")
    terms = Terms(QUORUM, _enough(wanted), synced=_is(options, "sync_interval", "always"))
    notes = [
        "A stream is one partition here; subjects become keys or topics.",
        "A publish that does not wait for its PubAck is acks=0.",
    ]
    if not terms.synced:
        notes.append(
            "JetStream syncs to disk every two minutes unless sync_interval=always: a power failure of a "
            "majority may "
            "lose records."
        )
    notes += _more_replicas(wanted)
    queues = number(options, "queues", "1")
    return Translated("nats", terms, queues, tuple(notes), _unknown(options, "sync_interval"))


def from_rabbitmq(options: Options) -> Translated:
    """A quorum queue."""
    size = number(options, "x-quorum-initial-group-size", "3")
    wanted = number(options, "replicas", str(size))
    terms = Terms(QUORUM, _enough(wanted), synced=True)
    notes = (
        "A queue is empty when it has been consumed; a topic keeps its records, and every group has a "
        "position.",
        "Without publisher confirms it is acks=0.",
        "Delivery limits and dead-letter exchanges have no equivalent in a broker; pipelines have dead "
        "letters.",
        *_more_replicas(wanted),
    )
    queues = number(options, "queues", "1")
    return Translated("rabbitmq", terms, queues, notes, _unknown(options, "x-quorum-initial-group-size"))


SYSTEMS: dict[str, Callable[[Options], Translated]] = {
    "rocketmq": from_rocketmq,
    "dledger": from_dledger,
    "nats": from_nats,
    "rabbitmq": from_rabbitmq,
}
