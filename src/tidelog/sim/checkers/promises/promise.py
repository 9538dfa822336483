"""What a replication mode promises, where the modes differ, seen from outside.

A promise gets the events of the partitions of its mode (a machine lost power, the controllers decided, a
leader committed) and either calls :meth:`Promise.forgive`, if the mode's documentation names the fault set
under which records may be lost, or raises a :class:`~tidelog.sim.checkers.violation.Violation`. What holds in
every mode is in the other checkers.
"""

from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from typing import NamedTuple, Protocol

from tidelog.broker.node.node import Node
from tidelog.controller.image import PartitionImage, TopicImage
from tidelog.replication.driver import ReplicaDriver
from tidelog.sim.checkers.metadata import MetadataChecker
from tidelog.sim.checkers.promises.losses import NOTHING_LOST, Losses, trusted
from tidelog.sim.checkers.promises.place import Key, Place
from tidelog.sim.checkers.promises.syncing import Syncing
from tidelog.sim.checkers.violation import Violation

ACKS_ALL = -1


class HeldOnDisk(Protocol):
    def __call__(self, place: Place, node_id: int, *, synced: bool) -> int: ...


class Surroundings(NamedTuple):
    """What every promise can see and do."""

    metadata: MetadataChecker
    nodes: Callable[[], Iterable[Node]]  # those alive
    note: Callable[[str], None]  # a line of the trace
    forgive: Callable[[Place, int], None]  # everything in the partition from this offset on may be lost
    committed_end: Callable[[Key], int]  # after the last record that any node considered committed
    committed_before: Callable[[Key, int], int]  # the same, by leaders of earlier epochs than this one
    agreed_end: Callable[[ReplicaDriver], int]  # up to where a log equals what was committed
    # As committed since an epoch; None: not changed since.
    voters: Callable[[Key, int], frozenset[int] | None]
    losses: Losses  # shared: a topic may change its mode before all replicas have restored what they lost
    syncing: Syncing  # from when on a node's log is synced as its topic requires
    may_be_forced: set[Key]  # partitions for which an operator has forced a leader
    held_on_disk: HeldOnDisk  # up to where a node's disk holds what was committed


class Promise:
    """The base of all: a mode that never loses anything, and whose every acknowledgement means a committed
    record.
    """

    def __init__(self, around: Surroundings) -> None:
        self._around = around

    # --- what a mode means ----------------------------------------------------------------------------------

    flush_default = ""  # of the mode

    def wants_sync(self, topic: TopicImage) -> bool:
        """Whether the topic requires that everything a replica acknowledges was synced before."""
        return topic.configs.get("flush.messages", self.flush_default) == "1"

    def is_synced(self, place: Place, node: int) -> bool:
        """Whether everything a replica has acknowledged is synced. If the topic began to require that while
        in use, it holds once the replica's log was seen to be synced.
        """
        return self._around.syncing.holds(place, node)

    def is_safe(self, acks: int) -> bool:
        """Whether an acknowledgement of such a write means that it is committed."""
        return acks != 0

    def is_whole(self, place: Place) -> bool:
        """Whether nothing is missing any more, after the faults: there is a leader, and all
        replicas count.
        """
        return place.partition.leader >= 0

    def can_do_without(self, place: Place, node: int) -> bool:
        """Whether one of the replicas may lose its disk, while everything is complete."""
        return len(place.partition.replicas) > 1

    def bears(self, place: Place, node: int) -> bool:
        """Whether the seeds may let a replica lose what it has not synced."""
        return True

    def can_elect(self, place: Place) -> bool:
        """Whether replicas, once they run, can elect a leader without the controllers."""
        return False

    def operator_decides(self, place: Place, replaced: AbstractSet[int]) -> bool:
        """Whether the partition waits for an operator, as the mode's documentation says: by the actual
        losses, not by those that the controllers assume. ``replaced``: nodes with new disks.
        """
        return False

    def bears_failing_disk(self, place: Place, node: int) -> bool:
        """Whether the seeds may let a replica's disk fail: it is then no longer trusted, synced or not."""
        return True

    # --- what happens ---------------------------------------------------------------------------------------

    def lost(self, place: Place, node: int, end: int, *, for_good: bool) -> None:
        """A replica lost what was not synced, or (``for_good``) also what was; its log ends at ``end``."""
        # A power failure removes nothing that was synced; the controllers, which do not know what was, may
        # still count such a replica as one that lost data.
        if self.is_synced(place, node) and not for_good:
            end = NOTHING_LOST
            if node not in place.partition.unsynced:
                self._around.losses.confirmed(place.key, node)
        self._around.losses.note(place.key, node, end, for_good=for_good)
        self.judge(place)

    def confessed(self, place: Place, node: int) -> None:
        """The controllers know that the node lost power, or that its disk is another one. They no longer
        trust it with any topic, including those created since.
        """
        synced = self.is_synced(place, node)  # Its report may have arrived after its death.
        lost = self._around.losses.confessed(place.key, node, synced=synced)
        if lost and node in trusted(place.partition) and not self.must_trust(place):
            raise Violation(f"{place.name}: node {node} lost power and is trusted on: {place.partition}")

    def must_trust(self, place: Place) -> bool:
        """Whether so many have lost something that no other replica is left to rely on."""
        return False

    def judge(self, place: Place) -> None:
        """A replica lost something, or restored it: is it a fault set under which records may be lost?"""

    def dropped(self, place: Place, damaged: AbstractSet[int]) -> None:
        """A replica has dropped its damaged records and all after them. ``damaged``: those that have not."""

    def described(self, place: Place) -> None:
        """The topic is new, or the controllers changed anything of it."""

    def decided(self, place: Place, before: PartitionImage) -> None:
        """The controllers changed the partition."""

    def passed(self, place: Place, state: PartitionImage) -> None:
        """Together with the newest state, the controllers decided this earlier one. Called after
        :meth:`decided`, in the order of the decisions.
        """

    def leads(self, place: Place, leader: ReplicaDriver) -> None:
        """A replica begins to lead."""

    def committed(self, place: Place, leader: ReplicaDriver) -> None:
        """A leader considers more records committed."""

    # --- for promises ---------------------------------------------------------------------------------------

    def kept_by(self, key: Key, node_id: int) -> int:
        """How much of what was committed a living node has: up to its log end, or to where its own records
        from an earlier leadership begin; 0 if there is none.
        """
        for node in self._around.nodes():
            if node.me == node_id and key in node.host.drivers:
                return self._around.agreed_end(node.host.drivers[key])
        return 0
