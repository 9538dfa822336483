"""The topics that a restore writes to: checked before the first record is sent, and created if they are
missing.

Owns what a target must be like. A topic that is missing gets as many partitions as the archive has records
of, unless the number is given; where partitions are kept, fewer are refused. Restored records keep their
times: a topic that deletes records of that age would be empty again soon after, so one that is created keeps
them, and one that exists is refused.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from tidelog.client.administration import OF_TOPIC, alter_settings
from tidelog.client.cluster import Cluster
from tidelog.client.errors import Refused
from tidelog.client.topic_creation import DEFAULT, create_topic
from tidelog.client.topic_settings import topic_setting
from tidelog.errors import ErrorCode
from tidelog.spark.options import OptionError

RETENTION = "retention.ms"
FOR_EVER = "-1"


@dataclass(frozen=True, slots=True)
class NewTopics:
    """How missing topics are created."""

    partitions: int | None = None  # None: as many as the archive has records of
    replicas: int | None = None  # None: the cluster's default
    settings: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a topic must take."""

    partitions: int  # That the archive has records of.
    oldest_ms: int | None = None  # Of its records, as far as they have times.


@dataclass(frozen=True, slots=True)
class Prepared:
    created: list[str]
    kept: list[str]  # Those of them that keep records for ever, because the default would delete some.


def prepare(
    cluster: Cluster, wanted: Mapping[str, Wanted], new: NewTopics, *, keeps_partitions: bool, now_ms: int
) -> Prepared:
    """Check and create the topics."""
    found = cluster.known_topics(list(wanted))
    for topic, needs in wanted.items():
        needed = needs.partitions
        count = len(found[topic].partitions) if topic in found else new.partitions or needed
        check(topic, needed, count, new.partitions, exists=topic in found, keeps_partitions=keeps_partitions)
    settings = new.settings or {}
    asked = settings.get(RETENTION)
    for topic, needs in wanted.items():
        if topic in found or asked is not None:
            retained = _retention(cluster, topic) if topic in found else asked
            check_age(topic, needs.oldest_ms, retained, now_ms, exists=topic in found)
    created, kept = [], []
    for topic, needs in wanted.items():
        if topic not in found and create_topic(
            cluster,
            topic,
            partitions=new.partitions or needs.partitions,
            replicas=DEFAULT if new.replicas is None else new.replicas,
            settings=new.settings,
        ):
            created.append(topic)
    # A broker may not know of it yet, and the writers of Spark ask only for a while.
    cluster.topics(wanted)
    for topic in created:
        if asked is None and is_too_old(wanted[topic].oldest_ms, _retention(cluster, topic), now_ms):
            alter_settings(cluster, OF_TOPIC, topic, {RETENTION: FOR_EVER})
            kept.append(topic)
    return Prepared(created, kept)


def _retention(cluster: Cluster, topic: str) -> str | None:
    """None if records are not deleted by the times that a restore writes, or if it may not be read."""
    try:
        policy = topic_setting(cluster, [topic], "cleanup.policy")[topic]
        kind = topic_setting(cluster, [topic], "message.timestamp.type")[topic]
        if "delete" not in policy or kind == "LogAppendTime":
            return None
        return topic_setting(cluster, [topic], RETENTION)[topic]
    except Refused as refusal:
        if refusal.code != ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            raise
        return None  # writing to a topic does not need the right to read its settings


def is_too_old(oldest_ms: int | None, retention_ms: str | None, now_ms: int) -> bool:
    """Whether a topic deletes such a record soon after it is written."""
    limit = _whole(retention_ms)
    return oldest_ms is not None and limit is not None and oldest_ms < now_ms - limit


def _whole(retention_ms: str | None) -> int | None:
    """None: no limit, or not a number, which the brokers refuse."""
    return int(retention_ms) if retention_ms is not None and retention_ms.isdecimal() else None


def check_age(
    topic: str, oldest_ms: int | None, retention_ms: str | None, now_ms: int, *, exists: bool
) -> None:
    """:class:`OptionError` if the topic would delete records that are restored."""
    if oldest_ms is None or not is_too_old(oldest_ms, retention_ms, now_ms):
        return
    first_kept = _day(now_ms - (_whole(retention_ms) or 0))
    do = f"use `tidelog topic alter {topic} --set {RETENTION}=-1`" if exists else f"use --set {RETENTION}=-1"
    raise OptionError(
        f"The topic {topic} {'deletes' if exists else 'would delete'} records after {retention_ms} ms "
        f"({RETENTION}), and the archive has records since {_day(oldest_ms)}, which would be gone again soon "
        f"after the restore; {do}, or leave them out with --where \"date > '{first_kept}'\"."
    )


def _day(time_ms: int) -> str:
    """In UTC, as the column ``date`` of an archive."""
    return datetime.fromtimestamp(max(time_ms, 0) / 1000, UTC).date().isoformat()


def check(
    topic: str, needed: int, count: int, asked: int | None, *, exists: bool, keeps_partitions: bool
) -> None:
    """:class:`OptionError` if the topic cannot take the records."""
    if exists and asked is not None and asked != count:
        raise OptionError(
            f"The topic {topic} exists and has {_partitions(count)}, not {asked}; leave out --partitions, or "
            "restore to another topic."
        )
    if keeps_partitions and count < needed:
        has = f"has {_partitions(count)}" if exists else f"would have {_partitions(count)}"
        do = f"`tidelog topic alter {topic} --partitions {needed}`" if exists else f"--partitions {needed}"
        raise OptionError(
            f"The topic {topic} {has}, and the archive has records of partition {needed - 1}; use {do}, or "
            "choose partitions by key with --by-key."
        )


def _partitions(count: int) -> str:
    return "1 partition" if count == 1 else f"{count} partitions"
