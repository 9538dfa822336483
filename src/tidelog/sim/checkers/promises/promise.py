"""What a replication mode promises, as far as the modes differ, seen from outside.

A promise is told what happens to the partitions of its mode (a machine lost power, the controllers decided,
a leader committed) and either calls :meth:`Promise.forgive`, when the mode's documentation names the fault
set under which records may be gone, or raises a :class:`~tidelog.sim.checkers.violation.Violation`. What
holds in every mode stands in the other checkers.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple
from uuid import UUID

from tidelog.broker.node import Node
from tidelog.controller.image import PartitionImage, TopicImage
from tidelog.replication.hosted import Hosted
from tidelog.sim.checkers.metadata import MetadataChecker

NOTHING_LOST = 1 << 62
ACKS_ALL = -1

Key = tuple[UUID, int]


class Place(NamedTuple):
    """One partition, as the newest metadata describes it."""

    topic: TopicImage
    number: int  # of the partition

    @property
    def key(self) -> Key:
        return self.topic.topic_id, self.number

    @property
    def partition(self) -> PartitionImage:
        return self.topic.partitions[self.number]

    @property
    def name(self) -> str:
        return f"{self.topic.name}-{self.number}"


class Surroundings(NamedTuple):
    """What every promise can see and do."""

    metadata: MetadataChecker
    nodes: Callable[[], Iterable[Node]]  # those alive
    note: Callable[[str], None]  # a line of the trace
    forgive: Callable[[Place, int], None]  # everything in the partition from this offset on may be gone
    committed_end: Callable[[Key], int]  # behind the last record that anybody took for committed


class Promise:
    """The base of all: a mode that loses nothing, ever, and whose every ok means a committed record."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around

    # --- what a mode means ----------------------------------------------------------------------------------

    def is_synced(self, topic: TopicImage) -> bool:
        """Whether whatever a replica acknowledges has been synced before."""
        return topic.configs.get("flush.messages") == "1"

    def is_safe(self, acks: int) -> bool:
        """Whether an ok for such a write means that it is committed."""
        return acks != 0

    def is_whole(self, place: Place) -> bool:
        """Whether nothing is missing any more, after the faults: somebody leads, and all replicas count."""
        return place.partition.leader >= 0

    def can_do_without(self, place: Place, node: int) -> bool:
        """Whether one of the replicas may lose its disk, now that everything is whole."""
        return len(place.partition.replicas) > 1

    # --- what happens ---------------------------------------------------------------------------------------

    def power_lost(self, place: Place, node: int, end: int, *, disk_too: bool) -> None:
        """One of the replicas lost what was not synced, or everything; its log on disk ends at ``end``."""

    def confessed(self, place: Place, node: int) -> None:
        """The controllers have heard that the node lost power. They trust it no more with any topic, also
        not with one that was created since.
        """

    def decided(self, place: Place, before: PartitionImage) -> None:
        """The controllers changed the partition."""

    def metadata_changed(self) -> None:
        """Something was decided, after :meth:`decided` was called for every partition it concerns."""

    def committed(self, place: Place, leader: Hosted) -> None:
        """A leader takes something more for committed."""

    # --- for promises ---------------------------------------------------------------------------------------

    def end_of(self, key: Key, node_id: int) -> int:
        """Where a living node's log ends; 0 when there is none."""
        for node in self._around.nodes():
            if node.me == node_id and key in node.host.hosted:
                return node.host.hosted[key].log.end_offset
        return 0
