"""The topics that a restore writes to: checked before the first record is sent, and created if they are
missing.

Owns what a target must be like. A topic that is missing gets as many partitions as the archive has records
of, unless the number is given; where partitions are kept, fewer are refused.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from tidelog.client.cluster import Cluster
from tidelog.client.topic_creation import DEFAULT, create_topic
from tidelog.spark.options import OptionError


@dataclass(frozen=True, slots=True)
class NewTopics:
    """How missing topics are created."""

    partitions: int | None = None  # None: as many as the archive has records of
    replicas: int | None = None  # None: the cluster's default
    settings: Mapping[str, str] | None = None


def prepare(
    cluster: Cluster, wanted: Mapping[str, int], new: NewTopics, *, keeps_partitions: bool
) -> list[str]:
    """Check and create the topics; the names of those that were created. ``wanted``: for each the number of
    partitions that the archive has.
    """
    found = cluster.known_topics(list(wanted))
    for topic, needed in wanted.items():
        count = len(found[topic].partitions) if topic in found else new.partitions or needed
        check(topic, needed, count, new.partitions, exists=topic in found, keeps_partitions=keeps_partitions)
    created = []
    for topic, needed in wanted.items():
        if topic not in found and create_topic(
            cluster,
            topic,
            partitions=new.partitions or needed,
            replicas=DEFAULT if new.replicas is None else new.replicas,
            settings=new.settings,
        ):
            created.append(topic)
    # A broker may not know of it yet, and the writers of Spark ask only for a while.
    cluster.topics(wanted)
    return created


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
