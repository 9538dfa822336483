"""The range assignor: of each topic, every subscribed member gets one run of consecutive partitions.

Members have one order for all topics. So topics with the same number of partitions and the same subscribers
are co-partitioned: partition n of each is assigned to the same member. If all members are subscribed to the
same topics, existing members keep their place in the order and new ones come last, so that ranges do not
shift far.
"""

from collections import defaultdict
from uuid import UUID

from tidelog.groups.consumer.assignors.spec import GroupSpec
from tidelog.groups.consumer.partitions import Partitions

_LAST = 1 << 31  # after every partition number


def assign(spec: GroupSpec) -> dict[str, Partitions]:
    targets: dict[str, dict[UUID, frozenset[int]]] = {member_id: {} for member_id in spec.members}
    subscribers: dict[UUID, list[str]] = defaultdict(list)
    for member_id in _order(spec):
        for topic_id in spec.members[member_id].topics:
            subscribers[topic_id].append(member_id)
    for topic_id, members in subscribers.items():
        each, more = divmod(spec.partition_counts[topic_id], len(members))
        begin = 0
        for place, member_id in enumerate(members):
            end = begin + each + (place < more)
            if end > begin:
                targets[member_id][topic_id] = frozenset(range(begin, end))
            begin = end
    return dict(targets)


def _order(spec: GroupSpec) -> list[str]:
    def first_partition(member_id: str) -> int:
        return min((min(indexes) for indexes in spec.members[member_id].had.values()), default=_LAST)

    order = spec.in_order()
    # If subscriptions differ, a previous assignment does not determine the place.
    return sorted(order, key=first_partition) if spec.is_homogeneous else order
