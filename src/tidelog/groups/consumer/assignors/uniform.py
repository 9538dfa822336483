"""The uniform assignor: as even as subscriptions allow, with as few moves as possible.

If all members are subscribed to the same topics, each gets the same number of partitions, or one more. Each
member keeps its partitions up to that number.

If subscriptions differ, each member first keeps all its partitions, and the others are assigned to the least
loaded members. Then partitions are passed on: a member that has at least two more than another gives one to
it, directly or through other members, as long as there is such a path. If there is none, no assignment is
more even (it is an optimal semi-matching: A. Harvey et al., 2006).
"""

from collections import deque
from collections.abc import Iterator
from heapq import heapify, heapreplace
from typing import NamedTuple
from uuid import UUID

from tidelog.groups.consumer.assignors.spec import GroupSpec
from tidelog.groups.consumer.partitions import Partitions

_Slot = tuple[UUID, int]


def assign(spec: GroupSpec) -> dict[str, Partitions]:
    if not spec.members:
        return {}
    slots = _homogeneous(spec) if spec.is_homogeneous else _Balance(spec).result()
    return {member_id: _by_topic(owned) for member_id, owned in slots.items()}


def _by_topic(slots: list[_Slot]) -> Partitions:
    indexes: dict[UUID, set[int]] = {}
    for topic_id, index in slots:
        indexes.setdefault(topic_id, set()).add(index)
    return {topic_id: frozenset(indexes[topic_id]) for topic_id in sorted(indexes)}


def _kept(spec: GroupSpec, member_id: str, taken: set[_Slot]) -> list[_Slot]:
    """The partitions that a member had and may keep, in order."""
    member = spec.members[member_id]
    slots = sorted(
        (topic_id, index)
        for topic_id, indexes in member.had.items()
        if topic_id in member.topics
        for index in indexes
        if index < spec.partition_counts[topic_id] and (topic_id, index) not in taken
    )
    taken.update(slots)
    return slots


# -- the same subscriptions ----------------------------------------------------------------------------------


def _homogeneous(spec: GroupSpec) -> dict[str, list[_Slot]]:
    order = spec.in_order()
    everything = [
        (topic_id, index)
        for topic_id in sorted(spec.members[order[0]].topics)
        for index in range(spec.partition_counts[topic_id])
    ]
    each, more = divmod(len(everything), len(order))
    taken: set[_Slot] = set()
    owned = {member_id: _kept(spec, member_id, taken) for member_id in order}
    for slots in owned.values():
        # Members that already have one more than the others may keep it.
        allowed = each + 1 if more and len(slots) > each else each
        more -= allowed > each
        del slots[allowed:]
    placed = {slot for slots in owned.values() for slot in slots}
    left = deque(slot for slot in everything if slot not in placed)
    # Round robin, so that a topic's partitions do not all go to one member.
    wanting = [member_id for member_id in order if len(owned[member_id]) < each]
    while wanting:
        for member_id in wanting:
            owned[member_id].append(left.popleft())
        wanting = [member_id for member_id in wanting if len(owned[member_id]) < each]
    for member_id in (member_id for member_id in order if len(owned[member_id]) == each):
        if not left:
            break
        owned[member_id].append(left.popleft())
    return owned


# -- different subscriptions ---------------------------------------------------------------------------------


class _Pass(NamedTuple):
    """A partition of a topic is passed from one member to another."""

    giver: str
    topic_id: UUID
    taker: str


class _Balance:
    def __init__(self, spec: GroupSpec) -> None:
        self._spec = spec
        self._order = spec.in_order()
        self._subscribers: dict[UUID, list[str]] = {}
        for member_id in self._order:
            for topic_id in sorted(spec.members[member_id].topics):
                self._subscribers.setdefault(topic_id, []).append(member_id)
        # Per member and topic, the partitions it has; no empty lists.
        self._owned: dict[str, dict[UUID, list[int]]] = {member_id: {} for member_id in self._order}
        self._load = dict.fromkeys(self._order, 0)

    def result(self) -> dict[str, list[_Slot]]:
        taken: set[_Slot] = set()
        for member_id in self._order:
            for slot in _kept(self._spec, member_id, taken):
                self._give(member_id, slot)
        self._hand_out(taken)
        self._even_out()
        return {
            member_id: [(topic_id, index) for topic_id, indexes in owned.items() for index in indexes]
            for member_id, owned in self._owned.items()
        }

    def _give(self, member_id: str, slot: _Slot) -> None:
        self._owned[member_id].setdefault(slot[0], []).append(slot[1])
        self._load[member_id] += 1

    def _hand_out(self, taken: set[_Slot]) -> None:
        """Topics with few subscribers come first, because the others have more choices."""
        for topic_id in sorted(self._subscribers, key=lambda topic_id: len(self._subscribers[topic_id])):
            members = self._subscribers[topic_id]
            least = [(self._load[member_id], place) for place, member_id in enumerate(members)]
            heapify(least)
            for index in range(self._spec.partition_counts[topic_id]):
                if (topic_id, index) not in taken:
                    load, place = least[0]
                    self._give(members[place], (topic_id, index))
                    heapreplace(least, (load + 1, place))

    def _even_out(self) -> None:
        open_members = set(self._order)
        while open_members:
            giver = max(open_members, key=lambda member_id: (self._load[member_id], member_id))
            way, reached = self._way_from(giver, open_members)
            for step in way:
                self._pass_on(step)
            if not way:
                # Every reachable member has at most one less, and no partition can leave this set. So all of
                # its members are done.
                open_members -= reached

    def _way_from(self, giver: str, open_members: set[str]) -> tuple[list[_Pass], set[str]]:
        """The shortest path to a member that has at least two less, if any; and the members reached."""
        came_by: dict[str, _Pass] = {}
        reached = {giver}
        topics_seen: set[UUID] = set()
        queue = deque([giver])
        while queue:
            member_id = queue.popleft()
            for topic_id in self._owned[member_id]:
                if topic_id in topics_seen:
                    continue
                topics_seen.add(topic_id)
                for taker in self._subscribers[topic_id]:
                    if taker in reached or taker not in open_members:
                        continue
                    reached.add(taker)
                    came_by[taker] = _Pass(member_id, topic_id, taker)
                    if self._load[taker] <= self._load[giver] - 2:
                        return list(_steps_back(taker, giver, came_by)), reached
                    queue.append(taker)
        return [], reached

    def _pass_on(self, step: _Pass) -> None:
        indexes = self._owned[step.giver][step.topic_id]
        index = indexes.pop()
        if not indexes:
            del self._owned[step.giver][step.topic_id]
        self._load[step.giver] -= 1
        self._give(step.taker, (step.topic_id, index))


def _steps_back(taker: str, giver: str, came_by: dict[str, _Pass]) -> Iterator[_Pass]:
    while taker != giver:
        step = came_by[taker]
        yield step
        taker = step.giver
