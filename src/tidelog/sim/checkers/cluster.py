"""All checkers of one simulated cluster, and what each of them needs to be told."""

from collections.abc import Callable, Iterable, Mapping
from typing import cast
from uuid import UUID

from tidelog.broker.metadata_opening import METADATA_KEY
from tidelog.broker.node import Node
from tidelog.controller.image import ClusterImage, TopicImage
from tidelog.replication.hosted import Hosted
from tidelog.replication.messages import PartitionKey
from tidelog.replication.replica import Role
from tidelog.sim.checkers.batches import batches_between, end_on_disk, entries_between
from tidelog.sim.checkers.history import PartitionHistory
from tidelog.sim.checkers.losses import Key, Losses, is_synced
from tidelog.sim.checkers.metadata import MetadataChecker
from tidelog.sim.checkers.replicas import ReplicaChecker
from tidelog.sim.checkers.violation import Violation
from tidelog.sim.disk import SimulatedDisk
from tidelog.sim.machine import DATA
from tidelog.sim.world import World


class ClusterChecker:
    def __init__(self, world: World, nodes: Callable[[], Iterable[Node]]) -> None:
        self._world = world
        self._nodes = nodes  # those alive
        self.replicas = ReplicaChecker(world, self.name)
        self.metadata = MetadataChecker(world.note)
        self.losses = Losses(world, self.metadata, self._forgive, self._end_of)
        self._histories: dict[tuple[str, int], PartitionHistory] = {}

    def name(self, key: PartitionKey) -> str:
        if key == METADATA_KEY:
            return "metadata"
        topic_id, index = cast(tuple[UUID, int], key)
        return f"{self.metadata.newest.topic_names.get(topic_id, 'deleted')}-{index}"

    def history(self, topic: str, partition: int) -> PartitionHistory:
        name = (topic, partition)
        if name not in self._histories:
            self._histories[name] = PartitionHistory(f"{topic}-{partition}")
        return self._histories[name]

    @property
    def histories(self) -> Iterable[PartitionHistory]:
        return self._histories.values()

    # --- while it happens -----------------------------------------------------------------------------------

    def role_changed(self, hosted: Hosted) -> None:
        self.replicas.role_changed(hosted)

    def committed(self, hosted: Hosted) -> None:
        self.replicas.committed(hosted)
        if hosted.key != METADATA_KEY and hosted.replica.role is Role.LEADER:
            self._members_hold(hosted)

    def applied(self, node: Node, image: ClusterImage) -> None:
        """A node is about to act on new metadata."""
        self.metadata.applied(node.me, node.metadata.committed_offset, image)
        self.losses.metadata_changed()

    def _members_hold(self, hosted: Hosted) -> None:
        """What a leader commits, every member that the controllers know of holds: each of them may be the
        next leader.
        """
        replica, (topic_id, index) = hosted.replica, cast(Key, hosted.key)
        topic = self.metadata.newest.topic_by_id(topic_id)
        if topic is None or topic.partitions[index].leader_epoch != replica.epoch:
            return
        members = topic.partitions[index].in_sync
        for node in self._nodes():
            other = node.host.hosted.get(hosted.key)
            if node.me not in members or other is None or other.replica.epoch > replica.epoch:
                continue
            if self.losses.is_unsound(hosted.key, node.me):
                continue
            held = other.log.end_offset
            if held < replica.high_watermark:
                raise Violation(
                    f"{self.name(hosted.key)}: node {replica.me} takes all before {replica.high_watermark} "
                    f"for committed, but member {node.me} holds {held}"
                )

    def power_lost(
        self,
        node_id: int,
        disk: SimulatedDisk,
        promised: Mapping[PartitionKey, int],
        *,
        disk_too: bool = False,
    ) -> None:
        """``promised``: up to where the node has told leaders that it holds their logs."""
        ends = {
            (topic.topic_id, index): end_on_disk(disk, f"{DATA}/{topic.name}-{index}")
            for topic in self.metadata.newest.topics.values()
            for index in range(len(topic.partitions))
        }
        if not disk_too:
            self._promises_kept(node_id, ends, promised)
        self.losses.power_lost(node_id, ends, disk_too=disk_too)

    def _promises_kept(
        self, node_id: int, ends: Mapping[Key, int], promised: Mapping[PartitionKey, int]
    ) -> None:
        """Where an ok means synced, a fetch that acknowledges leaves only after the sync."""
        for (topic_id, index), end_offset in ends.items():
            topic = self.metadata.newest.topic_by_id(topic_id)
            told = promised.get((topic_id, index), 0)
            if topic is not None and is_synced(topic) and end_offset < told:
                raise Violation(
                    f"{topic.name}-{index}: node {node_id} acknowledged everything before {told}, "
                    f"and holds {end_offset} after a power failure"
                )

    def _end_of(self, key: Key, node_id: int) -> int:
        for node in self._nodes():
            if node.me == node_id and key in node.host.hosted:
                return node.host.hosted[key].log.end_offset
        return 0

    def _forgive(self, topic: TopicImage, index: int, floor: int) -> None:
        self.replicas.forget((topic.topic_id, index), floor)
        if (topic.name, index) in self._histories:
            epoch = topic.partitions[index].leader_epoch
            self._histories[topic.name, index].forgive(floor, epoch, self._world.now_ms)

    # --- when it is over ------------------------------------------------------------------------------------

    def check_end(self) -> None:
        """After the calm: every replica equal to the last byte, and every history borne out by the log."""
        for topic in self.metadata.newest.topics.values():
            for index in range(len(topic.partitions)):
                self._check_partition(topic, index)

    def _check_partition(self, topic: TopicImage, index: int) -> None:
        key = (topic.topic_id, index)
        replicas = [node.host.hosted[key] for node in self._nodes() if key in node.host.hosted]
        leader = next(hosted for hosted in replicas if hosted.replica.role is Role.LEADER)
        log = leader.log
        expected = batches_between(log, log.start_offset, log.end_offset)
        for hosted in replicas:
            start = max(log.start_offset, hosted.log.start_offset)
            found = batches_between(hosted.log, start, hosted.log.end_offset)
            if found != [each for each in expected if each[0] >= start]:
                raise Violation(f"{self.name(key)}: nodes {hosted.replica.me} and {leader.replica.me} differ")
        history = self._histories.get((topic.name, index))
        if history is not None:
            entries = entries_between(log, log.start_offset, log.end_offset)
            history.check(entries, log.start_offset, leader.replica.epoch)
