"""Single logs that fail and are repaired while their broker keeps running."""

from collections.abc import Iterable, Iterator, Sequence
from uuid import UUID

import msgspec

from tidelog.controller.availability import BrokerAvailability, Rank, same_rank
from tidelog.controller.image import ClusterImage
from tidelog.controller.leader_assignment import without_memory
from tidelog.controller.leadership import PartitionPlace
from tidelog.controller.records import MetadataRecord
from tidelog.controller.successions import in_a_new_epoch, next_state
from tidelog.controller.successions.steps import RulesOf, record_of, union
from tidelog.errors import ErrorCode, TidelogError


def take_offline(
    image: ClusterImage,
    broker_id: int,
    broker_epoch: int,
    partitions: Iterable[tuple[UUID, int]],
    rules_of: RulesOf,
    rank: Rank = same_rank,
) -> list[MetadataRecord]:
    """Logs of a broker are damaged: for these partitions the broker counts as dead, and its records cannot be
    trusted, even after a restart.
    """
    available = BrokerAvailability.of(image, rank)
    records: list[MetadataRecord] = []
    for topic, index, partition in _replicas(image, broker_id, broker_epoch, partitions):
        if broker_id not in partition.damaged:
            damaged = msgspec.structs.replace(
                partition,
                offline=union(partition.offline, (broker_id,), without=()),
                unwritable=union(partition.unwritable, (), without=(broker_id,)),
            )
            records.append(record_of(topic.topic_id, index, next_state(damaged, available, rules_of(topic))))
    return records


def outdated(
    image: ClusterImage, broker_id: int, partitions: Sequence[tuple[UUID, int]], epochs: Sequence[int]
) -> set[tuple[UUID, int]]:
    """The partitions that have changed since the broker reported damage in that partition epoch. The report
    may be a late copy, from before a repair or an operator's decision: if it counted again, a voter would
    lose its vote a second time. A broker whose report is still valid repeats it with the new epoch.
    """
    late: set[tuple[UUID, int]] = set()
    for (topic_id, index), epoch in zip(partitions, epochs, strict=False):
        topic = image.topic_by_id(topic_id)
        if topic is not None and 0 <= index < len(topic.partitions):
            partition = topic.partitions[index]
            if epoch < partition.partition_epoch and broker_id not in partition.damaged:
                late.add((topic_id, index))
    return late


def fail(
    image: ClusterImage,
    broker_id: int,
    broker_epoch: int,
    partitions: Iterable[tuple[UUID, int]],
    rules_of: RulesOf,
    rank: Rank = same_rank,
) -> list[MetadataRecord]:
    """Logs of a broker could not be opened, written or synced: for these partitions the broker counts as dead
    until it restarts. A log that is known to be damaged stays so.
    """
    available = BrokerAvailability.of(image, rank)
    records: list[MetadataRecord] = []
    for topic, index, partition in _replicas(image, broker_id, broker_epoch, partitions):
        if broker_id not in partition.offline:
            failed = msgspec.structs.replace(
                partition,
                offline=(*partition.offline, broker_id),
                unwritable=(*partition.unwritable, broker_id),
            )
            records.append(record_of(topic.topic_id, index, next_state(failed, available, rules_of(topic))))
    return records


def bring_online(
    image: ClusterImage,
    broker_id: int,
    broker_epoch: int,
    partitions: Iterable[tuple[UUID, int]],
    rules_of: RulesOf,
    rank: Rank = same_rank,
) -> list[MetadataRecord]:
    """A broker has repaired logs. They may end before the high watermark: their replicas may follow, and join
    the in-sync set when they have caught up.
    """
    available = BrokerAvailability.of(image, rank)
    records: list[MetadataRecord] = []
    for topic, index, partition in _replicas(image, broker_id, broker_epoch, partitions):
        if broker_id in partition.offline:
            healed = in_a_new_epoch(without_memory(partition, broker_id, empty=False))
            records.append(record_of(topic.topic_id, index, next_state(healed, available, rules_of(topic))))
    return records


def _replicas(
    image: ClusterImage, broker_id: int, broker_epoch: int, partitions: Iterable[tuple[UUID, int]]
) -> Iterator[PartitionPlace]:
    """Those of the partitions of which the broker has a replica. Raises if another process of the broker is
    registered.
    """
    broker = image.brokers.get(broker_id)
    if broker is None or broker.broker_epoch != broker_epoch:
        raise TidelogError("another process of the broker is registered", ErrorCode.STALE_BROKER_EPOCH)
    for topic_id, index in dict.fromkeys(partitions):
        topic = image.topic_by_id(topic_id)
        if topic is not None and 0 <= index < len(topic.partitions):
            partition = topic.partitions[index]
            if broker_id in partition.replicas:
                yield PartitionPlace(topic, index, partition)
