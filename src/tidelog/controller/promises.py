"""From when a promise counts: a setting that promises more than before does so for what is acknowledged from
now on, and for the rest only when it is confirmed.

=============================== ==============================================================================
more is promised                until then
=============================== ==============================================================================
an ok means "synced"            ``unsynced`` names all replicas, and each of them leaves it when its broker
                                says that all of its log is synced; a power failure of one that is still there
                                counts as it does for a topic that does not sync
an ok means more copies         ``copies`` is the smaller number, until the leader says that all of its log
                                has as many as are asked for now; a primary that has to find out what was
                                acknowledged goes by it
copies on replicas that go      ``ending`` is set, until the leader says that all of its log has as many
count no more                   copies as are asked for on the others; only then the first ones go
=============================== ==============================================================================

It does not matter how more came to be promised: by a setting of the topic, by one of all brokers, or by a
step to another mode. The record that does it says so: whoever acts on the setting knows what is to be
confirmed, and a confirmation names ``promise_epoch``, so that one from before the setting was taken back and
given again does not count.
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


class Kept(NamedTuple):
    """What a broker confirms of one partition."""

    topic_id: UUID
    partition: int
    promise_epoch: int
    synced: bool = False  # All of its log is on disk.
    copied: bool = False  # It leads, and all of its log has as many copies as are asked for.


def survives_power_failure(partition: PartitionImage, broker_id: int, rules: Rules) -> bool:
    """Whether a replica has lost nothing that it acknowledged when its machine lost power."""
    return rules.synced and broker_id not in partition.unsynced


def of_topic(before: TopicImage, old: Rules, after: TopicImage, new: Rules) -> Iterator[PartitionChanged]:
    """What another setting of a topic promises."""
    for index, (was, now) in enumerate(zip(before.partitions, after.partitions, strict=True)):
        marked = promised(was, old, now, new)
        if marked is not now:
            yield record_of(after.topic_id, index, marked)


def of_all(
    before: ClusterImage, old: RulesOf, after: ClusterImage, new: RulesOf
) -> Iterator[PartitionChanged]:
    """What another setting of all brokers promises."""
    for name, topic in after.topics.items():
        yield from of_topic(before.topics[name], old(before.topics[name]), topic, new(topic))


class Unconfirmed(NamedTuple):
    """A partition of which not all is so yet that its settings promise."""

    partition: int
    waits_for: str


def unconfirmed(topic: TopicImage) -> Iterator[Unconfirmed]:
    """What does not count yet, and why."""
    for index, partition in enumerate(topic.partitions):
        if partition.unsynced:
            brokers = ", ".join(map(str, partition.unsynced))
            yield Unconfirmed(index, f"brokers {brokers}, to confirm that all they hold is synced")
        if partition.copies:
            had = partition.copies
            yield Unconfirmed(index, f"the leader: some records may have only {had} of the copies asked for")


def confirm(
    image: ClusterImage, broker_id: int, broker_epoch: int, kept: Iterable[Kept], rules_of: RulesOf
) -> list[MetadataRecord]:
    """A broker says what is so by now. It may say so any number of times."""
    broker = image.brokers.get(broker_id)
    if broker is None or broker.broker_epoch != broker_epoch:
        # What an earlier run of it had written, this one may have lost.
        raise TidelogError("another run of the broker is registered", ErrorCode.STALE_BROKER_EPOCH)
    records: list[MetadataRecord] = []
    for each in kept:
        topic = image.topic_by_id(each.topic_id)
        if topic is not None and 0 <= each.partition < len(topic.partitions):
            partition = topic.partitions[each.partition]
            new = _confirmed(partition, broker_id, each, rules_of(topic))
            if new is not partition:
                records.append(record_of(each.topic_id, each.partition, new))
    return records


def _confirmed(partition: PartitionImage, broker_id: int, kept: Kept, rules: Rules) -> PartitionImage:
    if kept.promise_epoch != partition.promise_epoch:
        return partition
    new = partition
    if kept.synced and broker_id in new.unsynced:
        left = tuple(replica for replica in new.unsynced if replica != broker_id)
        since = new.synced_since if left else new.leader_epoch
        new = msgspec.structs.replace(new, unsynced=left, synced_since=since)
    if kept.copied and broker_id == new.leader and broker_id in new.in_sync and (new.copies or new.ending):
        new = msgspec.structs.replace(new, copies=AS_ASKED)
        new = promised(new, rules, copied(new), rules)
    return new
