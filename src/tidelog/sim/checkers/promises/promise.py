"""What a replication mode promises, as far as the modes differ, seen from outside.

A promise is told what happens to the partitions of its mode (a machine lost power, the controllers decided,
a leader committed) and either calls :meth:`Promise.forgive`, when the mode's documentation names the fault
set under which records may be gone, or raises a :class:`~tidelog.sim.checkers.violation.Violation`. What
holds in every mode stands in the other checkers.
"""

from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from tidelog.broker.node.node import Node
from tidelog.controller.image import PartitionImage, TopicImage
from tidelog.replication.hosted import Hosted
from tidelog.sim.checkers.metadata import MetadataChecker
from tidelog.sim.checkers.promises.losses import NOTHING_LOST, Losses, trusted
from tidelog.sim.checkers.promises.place import Key, Place
from tidelog.sim.checkers.promises.syncing import Syncing
from tidelog.sim.checkers.violation import Violation

ACKS_ALL = -1


class Surroundings(NamedTuple):
    """What every promise can see and do."""

    metadata: MetadataChecker
    nodes: Callable[[], Iterable[Node]]  # those alive
    note: Callable[[str], None]  # a line of the trace
    forgive: Callable[[Place, int], None]  # everything in the partition from this offset on may be gone
    committed_end: Callable[[Key], int]  # behind the last record that anybody took for committed
    committed_before: Callable[[Key, int], int]  # the same, by leaders of earlier epochs than this one
    agreed_end: Callable[[Hosted], int]  # up to where a log is what was committed
    # As committed since an epoch; None: not changed since.
    voters: Callable[[Key, int], frozenset[int] | None]
    losses: Losses  # shared: a topic may change its mode before everybody has got back what it lost
    syncing: Syncing  # from when on a node's log is synced as its topic wants
    may_be_forced: set[Key]  # partitions for which an operator has asked for a leader at any price


class Promise:
    """The base of all: a mode that loses nothing, ever, and whose every ok means a committed record."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around

    # --- what a mode means ----------------------------------------------------------------------------------

    flush_default = ""  # of the mode

    def wants_sync(self, topic: TopicImage) -> bool:
        """Whether the topic wants that whatever a replica acknowledges has been synced before."""
        return topic.configs.get("flush.messages", self.flush_default) == "1"

    def is_synced(self, place: Place, node: int) -> bool:
        """Whether whatever a replica has acknowledged is synced. Where the topic began to ask for that while
        it was in use, it is so once the replica's log was seen to be synced.
        """
        return self._around.syncing.holds(place, node)

    def is_safe(self, acks: int) -> bool:
        """Whether an ok for such a write means that it is committed."""
        return acks != 0

    def is_whole(self, place: Place) -> bool:
        """Whether nothing is missing any more, after the faults: somebody leads, and all replicas count."""
        return place.partition.leader >= 0

    def can_do_without(self, place: Place, node: int) -> bool:
        """Whether one of the replicas may lose its disk, now that everything is whole."""
        return len(place.partition.replicas) > 1

    def bears(self, place: Place, node: int) -> bool:
        """Whether the seeds may have a replica lose what it has not synced."""
        return True

    def operator_decides(self, place: Place, replaced: AbstractSet[int]) -> bool:
        """Whether the partition waits for an operator, as the mode's documentation says: by what was really
        lost, not by what the controllers take for lost. ``replaced``: nodes with new disks.
        """
        return False

    def bears_failing_disk(self, place: Place, node: int) -> bool:
        """Whether the seeds may have a replica's disk fail: it is trusted no more then, synced or not."""
        return True

    # --- what happens ---------------------------------------------------------------------------------------

    def lost(self, place: Place, node: int, end: int, *, for_good: bool) -> None:
        """A replica lost what was not synced, or (``for_good``) also what was; its log ends at ``end``."""
        # A power failure takes nothing that was synced; the controllers, which do not know what was, may
        # still take such a replica for one that forgot.
        if self.is_synced(place, node) and not for_good:
            end = NOTHING_LOST
        self._around.losses.note(place.key, node, end, for_good=for_good)
        self.judge(place)

    def confessed(self, place: Place, node: int) -> None:
        """The controllers have heard that the node lost power. They trust it no more with any topic, also
        not with one that was created since.
        """
        synced = self.is_synced(place, node)  # Its word may have arrived when it was dead already.
        lost = self._around.losses.confessed(place.key, node, synced=synced)
        if lost and node in trusted(place.partition) and not self.must_trust(place):
            raise Violation(f"{place.name}: node {node} lost power and is trusted on: {place.partition}")

    def must_trust(self, place: Place) -> bool:
        """Whether so many have lost something that there is nobody else to rely on."""
        return False

    def judge(self, place: Place) -> None:
        """Somebody lost something, or got it back: is it a fault set under which records may be gone?"""

    def described(self, place: Place) -> None:
        """The topic is new, or the controllers changed anything of it."""

    def decided(self, place: Place, before: PartitionImage) -> None:
        """The controllers changed the partition."""

    def leads(self, place: Place, leader: Hosted) -> None:
        """A replica begins to lead."""

    def committed(self, place: Place, leader: Hosted) -> None:
        """A leader takes something more for committed."""

    # --- for promises ---------------------------------------------------------------------------------------

    def kept_by(self, key: Key, node_id: int) -> int:
        """How much of what was committed a living node has: up to where its log ends, or goes on with records
        of its own from a time when it led; 0 when there is none.
        """
        for node in self._around.nodes():
            if node.me == node_id and key in node.host.hosted:
                return self._around.agreed_end(node.host.hosted[key])
        return 0
