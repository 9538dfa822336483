"""When a stronger promise takes effect: a setting that promises more than before does so at once for new
acknowledgements, and for earlier records only when it is confirmed that the promise holds for them.

=============================== ==============================================================================
stronger promise                until it is confirmed
=============================== ==============================================================================
acknowledged means synced       ``unsynced`` names all replicas; each is removed from it when its broker
                                confirms that its whole log is synced. A power failure of a replica that is
                                still in it counts as it does for a topic that does not sync
more copies are required        ``copies`` is the smaller number, until the leader confirms that its whole log
                                has as many as are required now. A primary that has to find out what was
                                acknowledged uses it
copies on removed replicas do   ``ending`` is set, until the leader confirms that its whole log has as many
not count any more              copies as are required on the other replicas; only then the old ones go
=============================== ==============================================================================

It does not matter what made the promise stronger: a setting of the topic, a setting of all brokers, or a
change of mode. The same record marks it: a replica that acts on the setting knows what is to be confirmed. A
confirmation names ``promise_epoch``, so that one from before the setting was reverted and set again does not
count.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple
from uuid import UUID

import msgspec

from tidelog.controller.image import ClusterImage, PartitionImage, TopicImage
from tidelog.controller.records import MetadataRecord, PartitionChanged
from tidelog.controller.successions import copied
from tidelog.controller.successions.promising import AS_ASKED, promised
from tidelog.controller.successions.steps import Rules, RulesOf, record_of
from tidelog.errors import ErrorCode, TidelogError


class ConfirmedPromise(NamedTuple):
    """What a broker confirms for one partition."""

    topic_id: UUID
    partition: int
    promise_epoch: int
    synced: bool = False  # its whole log is synced
    copied: bool = False  # it leads, and its whole log has as many copies as are required


def survives_power_failure(partition: PartitionImage, broker_id: int, rules: Rules) -> bool:
    """Whether a replica keeps everything that it acknowledged when its machine loses power."""
    return rules.synced and broker_id not in partition.unsynced


def of_topic(before: TopicImage, old: Rules, after: TopicImage, new: Rules) -> Iterator[PartitionChanged]:
    """Changes of partitions whose promise becomes stronger by a new setting of the topic."""
    for index, (was, now) in enumerate(zip(before.partitions, after.partitions, strict=True)):
        marked = promised(was, old, now, new)
        if marked is not now:
            yield record_of(after.topic_id, index, marked)


def of_all(
    before: ClusterImage, old: RulesOf, after: ClusterImage, new: RulesOf
) -> Iterator[PartitionChanged]:
    """The same for a new setting of all brokers."""
    for name, topic in after.topics.items():
        yield from of_topic(before.topics[name], old(before.topics[name]), topic, new(topic))


class Unconfirmed(NamedTuple):
    """A partition for which a promise of its settings is not confirmed yet."""

    partition: int
    waits_for: str


def unconfirmed(topic: TopicImage) -> Iterator[Unconfirmed]:
    """What is not confirmed yet, and what it waits for."""
    for index, partition in enumerate(topic.partitions):
        if partition.unsynced:
            brokers = ", ".join(map(str, partition.unsynced))
            yield Unconfirmed(index, f"brokers {brokers}, to confirm that their logs are synced")
        if partition.copies:
            had = partition.copies
            yield Unconfirmed(index, f"the leader: some records may have only {had} of the required copies")


def confirm(
    image: ClusterImage,
    broker_id: int,
    broker_epoch: int,
    confirmed: Iterable[ConfirmedPromise],
    rules_of: RulesOf,
) -> list[MetadataRecord]:
    """A broker confirms what holds now. Confirmations can be repeated."""
    broker = image.brokers.get(broker_id)
    if broker is None or broker.broker_epoch != broker_epoch:
        # The present process may have lost what an earlier one had written.
        raise TidelogError("another process of the broker is registered", ErrorCode.STALE_BROKER_EPOCH)
    records: list[MetadataRecord] = []
    for each in confirmed:
        topic = image.topic_by_id(each.topic_id)
        if topic is not None and 0 <= each.partition < len(topic.partitions):
            partition = topic.partitions[each.partition]
            new = _confirmed(partition, broker_id, each, rules_of(topic))
            if new is not partition:
                records.append(record_of(each.topic_id, each.partition, new))
    return records


def _confirmed(
    partition: PartitionImage, broker_id: int, confirmed: ConfirmedPromise, rules: Rules
) -> PartitionImage:
    if confirmed.promise_epoch != partition.promise_epoch:
        return partition
    new = partition
    if confirmed.synced and broker_id in new.unsynced:
        left = tuple(replica for replica in new.unsynced if replica != broker_id)
        since = new.synced_since if left else new.leader_epoch
        new = msgspec.structs.replace(new, unsynced=left, synced_since=since)
    if (
        confirmed.copied
        and broker_id == new.leader
        and broker_id in new.in_sync
        and (new.copies or new.ending)
    ):
        new = msgspec.structs.replace(new, copies=AS_ASKED)
        new = promised(new, rules, copied(new), rules)
    return new
