"""Bits that flip in any batch, where the promise of the modes says that others make up for it.

Not more than one replica of a partition is damaged at a time, and all the others are whole then: what is
damaged everywhere is gone, as if all disks had been lost. The process is started anew with it, because what a
process has written or read it has in the machine's memory, where the medium cannot harm it. Bits that no
checksum covers (the offset and the leader epoch of a batch) stay as they are: nobody could notice. Behind the
recovery point a power failure takes batches, too, and nobody can tell one from the other: a machine whose
newest batches are damaged stays on until it has looked at them.
"""

from typing import TYPE_CHECKING, NamedTuple

from tidelog.log.checkpoints import RECOVERY_POINTS_FILE, decode_offsets
from tidelog.protocol.batch import iterate
from tidelog.sim.checkers.damage import Damage
from tidelog.sim.checkers.promises import Place
from tidelog.sim.machine import DATA
from tidelog.types import TopicPartition

if TYPE_CHECKING:
    from tidelog.sim.cluster import BrokerMachine, SimCluster

OFFSET_BYTES = 8  # at the beginning of a batch; then comes its length,
EPOCH = range(12, 16)  # and then, not covered either, the leader epoch.


class Spot(NamedTuple):
    """A batch on a disk."""

    place: Place
    path: str
    position: int
    size: int
    offset: int
    is_new: bool  # Behind the recovery point that is noted on the disk.


class Decay:
    def __init__(self, cluster: "SimCluster") -> None:
        self._cluster = cluster

    def strike(self, node_id: int) -> str:
        """One bit of one batch on this node's disk, if the cluster can bear it; what was done."""
        machine, chance = self._cluster.machines[node_id], self._cluster.world.chance
        spots = self._spots(machine)
        if not spots:
            return f"{node_id}: nothing that others have"
        spot = chance.choice(spots)
        machine.kill()
        inside = [*range(OFFSET_BYTES, EPOCH.start), *range(EPOCH.stop, spot.size)]
        at = spot.position + chance.choice(inside)
        machine.disk.flip(spot.path, at, chance.randrange(8))
        machine.decayed = True
        machine.must_stay_on |= spot.is_new
        damage = Damage(node_id, spot.place.key, machine.disk, spot.path, spot.position, spot.offset)
        self._cluster.checker.damaged(spot.place, damage)
        return f"{node_id} {spot.path} at {at}, offset {spot.offset}"

    def _spots(self, machine: "BrokerMachine") -> list[Spot]:
        return [
            spot
            for place in self._cluster.checker.places()
            if machine.node_id in place.partition.replicas and self._is_bearable(place, machine.node_id)
            for spot in _batches(machine, place)
        ]

    def _is_bearable(self, place: Place, node_id: int) -> bool:
        """Whether all other replicas of the partition are whole."""
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


def _batches(machine: "BrokerMachine", place: Place) -> list[Spot]:
    """All batches; where the machine has been off, only those that were noted as synced."""
    points = machine.disk.contents(DATA).get(f"{DATA}/{RECOVERY_POINTS_FILE}", b"")
    point = decode_offsets(points).get(TopicPartition(place.topic.name, place.number), 0) if points else 0
    contents = machine.disk.contents(f"{DATA}/{place.name}")
    return [
        Spot(place, path, position, header.size, header.base_offset, header.base_offset >= point)
        for path in contents
        if path.endswith(".log")
        for position, header in iterate(contents[path])
        if header.base_offset < point or not machine.rebooted
    ]
