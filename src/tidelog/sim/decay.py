"""Batches on disk that differ from what was written, where the modes promise that other replicas make up
for it.

================== ===========================================================================================
fault              what a replica finds
================== ===========================================================================================
a flipped bit      a batch whose checksum is wrong
a lost write       nothing where a batch was written and synced
a misdirected      the same, and another batch, complete and with a valid checksum, in the place of a third
one
write
two at once        a flipped bit in each of two replicas of a partition
================== ===========================================================================================

All other replicas of the partition are intact then: what is damaged everywhere is lost, as if all disks had
been lost. The process is restarted with the fault, because what a process has written or read is in the
machine's memory, where the disk cannot damage it. Bits that no checksum covers (the offset and the leader
epoch of a batch) do not flip: that could not be noticed. After the recovery point a power failure removes
batches, too, and the two cannot be told apart: a machine whose newest batches are damaged stays on until the
broker has read them, and the last batch of all is not one that was never written. A misdirected write does
not
hit a place where the same offset is expected, as in another partition: the batch would fit, and that could
not
be noticed, either. In compacted logs, any offset that does not go back fits.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from tidelog.errors import CorruptBatch
from tidelog.log.checkpoints import RECOVERY_POINTS_FILE, decode_offsets
from tidelog.protocol.batch import iterate
from tidelog.sim.checkers.damage import Damage
from tidelog.sim.checkers.promises import Place
from tidelog.sim.machine import DATA
from tidelog.types import TopicPartition

if TYPE_CHECKING:
    from tidelog.sim.cluster import BrokerMachine, SimCluster

OFFSET_BYTES = 8  # at the beginning of a batch; then comes its length,
DECAYS = ("flipped bit", "lost write", "misdirected write", "two damaged")
EPOCH = range(12, 16)  # and then, not covered either, the leader epoch.


class Spot(NamedTuple):
    """A batch on a disk."""

    place: Place
    path: str
    position: int
    size: int
    offset: int
    is_new: bool  # After the recovery point in the disk's checkpoint.
    is_last: bool  # in its file
    previous_end: int  # where the batch before it in its file ends; where the file begins without one
    previous: int  # where that one begins; its own offset without one

    @property
    def may_be_lost(self) -> bool:
        """Whether it can be known that a batch was there."""
        return not (self.is_new and self.is_last)


class Decay:
    def __init__(self, cluster: "SimCluster", *, changing: bool = False) -> None:
        """``changing``: replication modes change meanwhile. Only members of the in-sync set count at a step
        to quorum: when two of three are damaged, there may be no majority, and an operator decides.
        """
        self._cluster = cluster
        self._changing = changing

    def faults(self) -> dict[str, Callable[[int], str]]:
        """By their names: the faults of a node."""
        return dict(zip(DECAYS, (self.flip, self.lose_write, self.misdirect, self.strike_two), strict=True))

    def flip(self, node_id: int) -> str:
        """Damage one bit of one batch on this node's disk, if the budget allows it; returns what was done."""
        return self._strike(node_id, self._flip)

    def lose_write(self, node_id: int) -> str:
        return self._strike(node_id, self._lose)

    def misdirect(self, node_id: int) -> str:
        return self._strike(node_id, self._misdirect)

    def strike_two(self, node_id: int) -> str:
        """Two replicas of one partition, if there is a third that has everything."""
        chance, machines = self._cluster.world.chance, self._cluster.machines
        pairs = [
            (place, other)
            for place in self._cluster.checker.places()
            for other in place.partition.replicas
            if other != node_id and not self._changing and self._bears_two(place, node_id, other)
        ]
        if not pairs:
            return f"{node_id}: nothing that two others have"
        place, other = chance.choice(pairs)
        struck = []
        both = [(machines[each], _batches(machines[each], place)) for each in (node_id, other)]
        for machine, spots in both:
            if spots:
                struck.append(self._hit(machine, spots, self._flip))
        return " and ".join(struck)

    def _strike(self, node_id: int, how: "How") -> str:
        machine = self._cluster.machines[node_id]
        spots = self._spots(machine)
        return self._hit(machine, spots, how) if spots else f"{node_id}: nothing that others have"

    def _hit(self, machine: "BrokerMachine", spots: list[Spot], how: "How") -> str:
        machine.kill()
        struck = how(machine, spots)
        for spot in struck:
            data = machine.disk.contents(spot.path.rpartition("/")[0])[spot.path]
            planted = data[spot.position : spot.position + spot.size]
            machine.decayed = True
            machine.must_stay_on |= spot.is_new
            # Of two batches that do not follow each other, it is unknown which is wrong: both are removed.
            offset = spot.offset if how == self._flip else spot.previous
            damage = Damage(
                machine.node_id, spot.place.key, machine.disk, spot.path, spot.position, offset, planted
            )
            self._cluster.checker.damaged(spot.place, damage)
        where = ", ".join(f"{spot.path} at {spot.position}, offset {spot.offset}" for spot in struck)
        return f"{machine.node_id} {where or 'nothing'}"

    def _flip(self, machine: "BrokerMachine", spots: list[Spot]) -> list[Spot]:
        chance = self._cluster.world.chance
        spot = chance.choice(spots)
        at = spot.position + chance.choice(covered(spot.size))
        machine.disk.flip(spot.path, at, chance.randrange(8))
        return [spot]

    def _lose(self, machine: "BrokerMachine", spots: list[Spot]) -> list[Spot]:
        lost = [spot for spot in spots if spot.may_be_lost]
        if not lost:
            return []
        spot = self._cluster.world.chance.choice(lost)
        machine.disk.lose_write(spot.path, spot.position, spot.size)
        return [spot]

    def _misdirect(self, machine: "BrokerMachine", spots: list[Spot]) -> list[Spot]:
        """It overwrites what it covers, up to the end of the file."""
        chance = self._cluster.world.chance
        lost = [spot for spot in spots if spot.may_be_lost]
        if len(spots) < 2 or not lost:
            return []
        source = chance.choice(lost)
        targets = [spot for spot in spots if spot != source and not self._fits(source, spot)]
        if not targets:
            return []
        target = chance.choice(targets)
        machine.disk.misdirect((source.path, source.position), (target.path, target.position), source.size)
        return [source, target]

    def _fits(self, source: Spot, target: Spot) -> bool:
        """Whether a misplaced batch cannot be noticed: it begins where one is expected. In a compacted log it
        is enough that it does not go back.
        """
        if self._cluster.checker.is_compacted(target.place.key):
            return source.offset >= target.previous_end
        return source.offset == target.offset

    def _spots(self, machine: "BrokerMachine") -> list[Spot]:
        return [
            spot
            for place in self._cluster.checker.places()
            if machine.node_id in place.partition.replicas and self._is_bearable(place, machine.node_id)
            for spot in _batches(machine, place)
        ]

    def _bears_two(self, place: Place, one: int, other: int) -> bool:
        """Whether every other replica is intact, there is one, and it lacks nothing acknowledged."""
        committed = self._cluster.checker.replicas.committed_end(place.key)
        others = [node for node in place.partition.replicas if node not in (one, other)]
        driver = {
            machine.node_id: driver
            for machine, driver in self._cluster.drivers(place.topic.name, place.number)
        }
        return (
            one in place.partition.replicas
            and bool(others)
            and all(node in driver and driver[node].log.end_offset >= committed for node in others)
            and self._is_bearable(place, one)
            and self._is_bearable(place, other)
        )

    def _is_bearable(self, place: Place, node_id: int) -> bool:
        """Whether all other replicas of the partition are intact."""
        checker, machines = self._cluster.checker, self._cluster.machines
        others = [machines[node] for node in place.partition.replicas if node != node_id]
        return (
            bool(others)
            and all(each.alive and not each.forgot and not each.wiped for each in others)
            and not any(damage.key == place.key for damage in checker.damages.there())
            and not place.partition.is_moving
            and checker.promise(place).is_whole(place)
            and checker.promise(place).can_do_without(place, node_id)
        )


How = Callable[["BrokerMachine", list[Spot]], list[Spot]]
"""Damages batches of a disk; which ones."""


def covered(size: int) -> list[int]:
    """The bytes of a batch whose damage its checksum or its length shows."""
    return [*range(OFFSET_BYTES, EPOCH.start), *range(EPOCH.stop, size)]


def recovery_point(machine: "BrokerMachine", place: Place) -> int:
    """Up to where the log is synced according to the disk's checkpoint. A damaged checkpoint counts as
    missing, as in the broker.
    """
    points = machine.disk.contents(DATA).get(f"{DATA}/{RECOVERY_POINTS_FILE}", b"")
    try:
        noted = decode_offsets(points) if points else {}
    except CorruptBatch:
        return 0
    return noted.get(TopicPartition(place.topic.name, place.number), 0)


def _batches(machine: "BrokerMachine", place: Place) -> list[Spot]:
    """All batches; if the machine has been off, only those that were synced according to the checkpoint."""
    point = recovery_point(machine, place)
    contents = machine.disk.contents(f"{DATA}/{place.name}")
    found = []
    for path, data in contents.items():
        if not path.endswith(".log"):
            continue
        previous_end = int(path.rpartition("/")[2].removesuffix(".log"))
        previous = -1
        for position, header in iterate(data):
            if header.base_offset < point or not machine.may_lose_writes:
                is_last = position + header.size == len(data.rstrip(bytes(1)))
                is_new = header.base_offset >= point
                spot = Spot(
                    place, path, position, header.size, header.base_offset, is_new, is_last, previous_end,
                    previous if previous >= 0 else header.base_offset,
                )  # fmt: skip
                found.append(spot)
            previous, previous_end = header.base_offset, header.next_offset
    return found
