"""When a committed record may be gone: only under the fault sets that the documentation of its mode names.

====================== ====================================================================================
topic                  committed records may be lost when
====================== ====================================================================================
``isr``                every member of the in-sync set (and every eligible former member) has lost power
                       since it became one, and so possibly the unsynced end of its log
``flush.messages=1``   every member has lost its disk
unclean elections on   nobody of them is alive, and somebody else is elected: what he does not hold
``quorum``             never
====================== ====================================================================================

Kept from outside: which machines lost power, what was left on their disks, and who has joined again since.
"""

from collections.abc import Callable, Hashable, Mapping
from uuid import UUID

from tidelog.controller.image import PartitionImage, TopicImage
from tidelog.sim.checkers.metadata import MetadataChecker
from tidelog.sim.checkers.violation import Violation
from tidelog.sim.world import World

NOTHING_LOST = 1 << 62

Key = tuple[UUID, int]
Forgive = Callable[[TopicImage, int, int], None]
"""(topic, partition, offset from which on records may be gone)"""


class Losses:
    def __init__(
        self,
        world: World,
        metadata: MetadataChecker,
        forgive: Forgive,
        end_of: Callable[[Key, int], int],
    ) -> None:
        self._world = world
        self._metadata = metadata
        self._forgive = forgive
        self._end_of = end_of  # where a living node's log ends
        # Replicas that may lack what they once held, and where their logs ended when it happened.
        self._unsound: dict[Key, dict[int, int]] = {}
        self._out: dict[Key, set[int]] = {}  # those of them that have left the set since: joining heals
        self._judged: dict[Key, set[int]] = {}  # members that were found to be all unsound

    def power_lost(self, node: int, ends: Mapping[Key, int], *, disk_too: bool = False) -> None:
        """``ends``: where each log on that machine's disk ends now."""
        for topic in self._metadata.newest.topics.values():
            # A power failure takes nothing that was synced; the controllers, which do not know what was, may
            # still take such a replica for one that forgot.
            end = NOTHING_LOST if is_synced(topic) and not disk_too else 0
            for index, partition in enumerate(topic.partitions):
                if node in partition.replicas:
                    key = (topic.topic_id, index)
                    known = self._unsound.setdefault(key, {})
                    known[node] = min(known.get(node, NOTHING_LOST), max(end, ends.get(key, 0)))
                    self._out.setdefault(key, set()).discard(node)
                    self._judged.pop(key, None)
                    self._judge(topic, index, partition)

    def confessed(self, node: int) -> None:
        """The controllers have heard that the node lost power. They trust it no more with any topic, also not
        with one that was created since.
        """
        for topic in self._metadata.newest.topics.values():
            for index, partition in enumerate(topic.partitions):
                if node in partition.replicas:
                    self._unsound.setdefault((topic.topic_id, index), {}).setdefault(node, NOTHING_LOST)

    def is_unsound(self, key: Hashable, node: int) -> bool:
        """Whether a replica may lack what it held when it became a member."""
        ends: dict[int, int] = self._unsound.get(key, {})  # type: ignore[call-overload]
        return ends.get(node, NOTHING_LOST) < NOTHING_LOST

    def metadata_changed(self) -> None:
        self._judge_elections()
        for key, nodes in self._unsound.items():
            topic = self._metadata.newest.topic_by_id(key[0])
            if topic is None or not nodes:
                continue
            partition = topic.partitions[key[1]]
            members = {*partition.in_sync, *partition.eligible}
            out = self._out.setdefault(key, set())
            for node in list(nodes):
                if node not in members:
                    out.add(node)
                elif node in out and node in partition.in_sync:
                    del nodes[node]  # It has caught up with a leader since.
                    out.discard(node)
            self._judge(topic, key[1], partition)

    def _judge(self, topic: TopicImage, index: int, partition: PartitionImage) -> None:
        unsound = self._unsound[topic.topic_id, index]
        members = {*partition.in_sync, *partition.eligible}
        if members and members <= unsound.keys() and self._judged.get((topic.topic_id, index)) != members:
            self._judged[topic.topic_id, index] = members
            floor = min(unsound[member] for member in members)
            if floor == NOTHING_LOST:
                return
            self._world.note(f"{topic.name}-{index}: all members lost power, from {floor} on all may be gone")
            self._forgive(topic, index, floor)

    def _judge_elections(self) -> None:
        """An unclean election gives up what the elected one lacks, but only where the topic allows it, or
        nobody is left who is known to be whole.
        """
        unclean, self._metadata.unclean = self._metadata.unclean, []
        for topic, index, partition in unclean:
            if topic.configs.get("unclean.leader.election.enable") != "true":
                elected = partition.leader if partition.leader >= 0 else partition.last_leader
                if elected in self._unsound.get((topic.topic_id, index), {}):
                    continue  # Judged when the last of them lost power.
                raise Violation(f"{topic.name}-{index}: an unclean election without leave: {partition}")
            floor = self._end_of((topic.topic_id, index), partition.leader)
            self._world.note(f"{topic.name}-{index}: unclean election, from {floor} on all is given up")
            self._forgive(topic, index, floor)


def is_synced(topic: TopicImage) -> bool:
    return topic.configs.get("flush.messages") == "1"
