"""Leaders with damaged records that no other replica has.

Such a leader serves what is intact, and its followers stop before the damage. It does not give up records by
itself: another replica that has them may return. An operator may, as the documentation says: stop the
leader's broker, force another replica to lead, and start the broker again. In ``primary-backup`` only the
first replica can be forced to lead: a backup is promoted.
"""

from collections.abc import Iterator
from typing import NamedTuple

from tidelog.replication.driver import ReplicaDriver
from tidelog.replication.replica import Role
from tidelog.sim.checkers.batches import is_intact_from
from tidelog.sim.checkers.promises import Place
from tidelog.sim.checkers.votes import elects_itself
from tidelog.sim.cluster import SimCluster


class Stuck(NamedTuple):
    topic: str
    partition: int
    node_id: int


def find(cluster: SimCluster) -> Iterator[Stuck]:
    for place in cluster.checker.places():
        if elects_itself(place.partition):
            continue
        drivers = {machine.node_id: driver for machine, driver in cluster.drivers(*_name(place))}
        leader = drivers.get(place.partition.leader)
        if leader is not None and _is_stuck(leader, drivers):
            yield Stuck(*_name(place), place.partition.leader)


def _is_stuck(leader: ReplicaDriver, drivers: dict[int, ReplicaDriver]) -> bool:
    """Whether it knows of damage, and damage is ahead of every other replica. One that has only the first of
    several damaged records cannot fetch the others from the leader, either.
    """
    if leader.damage.offset is None or leader.replica.role is not Role.LEADER:
        return False
    others = (driver for driver in drivers.values() if driver is not leader)
    return not any(is_intact_from(leader.log, driver.log.end_offset) for driver in others)


def _name(place: Place) -> tuple[str, int]:
    return place.topic.name, place.number
