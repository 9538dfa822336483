"""Brokers that start and stop, and the consequences for their partitions: an image in, records or a refusal
out.
"""

from collections.abc import Iterator

import msgspec

from tidelog.controller.availability import DRAIN_SETTING, BrokerAvailability, Rank, same_rank
from tidelog.controller.image import ClusterImage, PartitionImage
from tidelog.controller.leader_assignment import assign_leaders, without_memory
from tidelog.controller.promises import survives_power_failure
from tidelog.controller.records import (
    BrokerConfigChanged,
    BrokerFencingChanged,
    BrokerRegistered,
    BrokerUnregistered,
    MetadataRecord,
    PartitionChanged,
)
from tidelog.controller.successions import can_hand_over
from tidelog.controller.successions.steps import RulesOf, record_of, union
from tidelog.errors import ErrorCode, TidelogError


def fenced(broker_id: int, *, session_lasts: bool = False) -> MetadataRecord:
    """A broker is taken for dead: from now on it leads no partition and is a member of no in-sync set.
    ``session_lasts``: only its connections closed. If it lives, it considers itself a leader until its
    session is over.
    """
    return BrokerFencingChanged(broker_id, True, session_lasts=session_lasts)


def unfenced(broker_id: int) -> MetadataRecord:
    """A broker is back and knows the current metadata: partitions that waited for it can be led again."""
    return BrokerFencingChanged(broker_id, False)


def leaving(broker_id: int) -> MetadataRecord:
    """A broker is shutting down: other brokers lead from now on where they can. It stays a member, and keeps
    serving the partitions that no other broker can lead.
    """
    return BrokerFencingChanged(broker_id, False, leaving=True)


def is_needed(image: ClusterImage, broker_id: int) -> bool:
    """Whether a broker leads a partition that another one can lead once it has caught up."""
    willing = BrokerAvailability.of(image).willing
    return any(
        partition.leader == broker_id
        and can_hand_over(partition)
        and any(replica in willing and replica not in partition.offline for replica in partition.replicas)
        for topic in image.topics.values()
        for partition in topic.partitions
    )


def check_newest(image: ClusterImage, broker_id: int, known_epoch: int | None) -> None:
    """Refuse the registration of a process that does not know of the latest one, or that its broker was
    unregistered since. The process may be dead, and its message late. The process that registered after it
    has been counted for what it has caught up with since, and must not be replaced. A live process is told
    the latest epoch and registers again.
    """
    newest = image.registration_epoch(broker_id)
    if known_epoch is not None and known_epoch < newest:
        raise TidelogError(
            f"broker {broker_id} registers with epoch {known_epoch}, but the latest is {newest}",
            ErrorCode.STALE_BROKER_EPOCH,
        )


def register(
    image: ClusterImage,
    registration: BrokerRegistered,
    rules_of: RulesOf,
    rank: Rank = same_rank,
    *,
    forgot: bool,
    empty: bool,
    others_later: bool = False,
) -> list[MetadataRecord]:
    """A broker process has started. It begins fenced and loses the leaderships that it had. They end together
    with the registration; otherwise the new process would take them for its own. ``others_later``: changes of
    partitions that it does not lead are decided later.

    ``forgot``: it stopped without syncing and its machine lost power, so it may lack records that it once
    held. ``empty``: its disk is a new one. In both cases it no longer counts as holding what was committed.

    Its logs that were offline are open again; if not, the broker will report them again. A damaged log lacks
    records that it had synced, or is about to drop some. A log that only refused writes still holds what it
    had synced: nothing is missing if everything it acknowledged was synced; otherwise its tail may be.
    """
    broker_id = registration.broker_id
    records: list[MetadataRecord] = [registration]
    if DRAIN_SETTING in image.broker_configs.get(str(broker_id), {}):
        # It was drained in order to be stopped, and it has stopped.
        records.append(BrokerConfigChanged(str(broker_id), {DRAIN_SETTING: None}))
    records += _forget(image.apply(records), broker_id, rules_of, forgot=forgot, empty=empty)
    if others_later:

        def led_by_it(partition: PartitionImage) -> bool:
            return partition.leader == broker_id

        return [*records, *assign_leaders(image.apply(records), rules_of, rank, led_by_it)]
    return with_leaders(image, records, rules_of, rank)


def _forget(
    image: ClusterImage, broker_id: int, rules_of: RulesOf, *, forgot: bool, empty: bool
) -> Iterator[PartitionChanged]:
    for topic in image.topics.values():
        rules = rules_of(topic)
        for index, partition in enumerate(topic.partitions):
            was_offline, damaged = broker_id in partition.offline, broker_id in partition.damaged
            unsynced = not survives_power_failure(partition, broker_id, rules)
            new = partition
            if empty or damaged or (unsynced and (forgot or was_offline)):
                new = without_memory(partition, broker_id, empty=empty, tail=not empty and not damaged)
            elif was_offline:
                offline = union(partition.offline, (), without=(broker_id,))
                new = msgspec.structs.replace(partition, offline=offline)
            if new != partition:
                yield record_of(topic.topic_id, index, new)


def unregister(image: ClusterImage, broker_id: int) -> list[MetadataRecord]:
    """Remove a broker from the cluster. Not while it runs, because it would register again; not while it has
    replicas, because their number would silently drop.
    """
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise TidelogError(f"there is no broker {broker_id}", ErrorCode.BROKER_ID_NOT_REGISTERED)
    if not broker.fenced:
        raise TidelogError(
            f"broker {broker_id} is running; stop it before you unregister it", ErrorCode.INVALID_REQUEST
        )
    for topic in image.topics.values():
        for index, partition in enumerate(topic.partitions):
            if broker_id in partition.replicas:
                raise TidelogError(
                    f"broker {broker_id} has a replica of {topic.name}-{index}; move it away first "
                    "(tidelog topic reassign)",
                    ErrorCode.INVALID_REQUEST,
                )
    return [BrokerUnregistered(broker_id)]


def with_leaders(
    image: ClusterImage, records: list[MetadataRecord], rules_of: RulesOf, rank: Rank
) -> list[MetadataRecord]:
    """These changes, and the resulting changes of partitions."""
    return [*records, *assign_leaders(image.apply(records), rules_of, rank)]
