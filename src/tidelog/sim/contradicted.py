"""Replicas that stopped because their leader lacks records that they know to be committed.

That happens where a disk lied about syncs and its replica leads without knowing what it lost. A follower
that the controllers consider complete makes the leader step back. Any other one stops and drops nothing. An
operator starts its broker again; if the leader still lacks the records, the operator decides for the leader
and removes the follower's log before. Anywhere else, a contradiction is a defect and ends the run.
"""

from collections.abc import Iterator
from typing import NamedTuple

from tidelog.replication.driver import ReplicaDriver
from tidelog.replication.replica import Role
from tidelog.sim.checkers.promises import Place
from tidelog.sim.checkers.promises.losses import trusted
from tidelog.sim.cluster import BrokerMachine, SimCluster
from tidelog.sim.machine import DATA


class Contradicted(NamedTuple):
    topic: str
    partition: int
    node_id: int


def find(cluster: SimCluster) -> Iterator[Contradicted]:
    """Those that an operator may restart: where somebody leads, and nobody relies on what they hold."""
    for place in cluster.checker.places():
        for machine, _ in cluster.drivers(place.topic.name, place.number):
            stopped = place.key in machine.contradicted and machine.node_id not in trusted(place.partition)
            if stopped and _leader(cluster, place) is not None:
                yield Contradicted(place.topic.name, place.number, machine.node_id)


def restart(cluster: SimCluster, replica: Contradicted) -> None:
    machine = cluster.machines[replica.node_id]
    place = Place(cluster.checker.metadata.newest.topics[replica.topic], replica.partition)
    leader, own = _leader(cluster, place), machine.drivers().get(place.key)
    if leader is None or own is None:
        return
    is_wrong = _agreed_end(own, leader) < own.replica.high_watermark
    how = "without its log" if is_wrong else "with its log"
    cluster.world.note(f"operator: node {machine.node_id} starts again, {how} of {place.name}")
    machine.kill()
    if is_wrong:
        _remove(machine, f"{DATA}/{place.name}")
        cluster.checker.promise(place).lost(place, machine.node_id, 0, for_good=True)
    machine.start()


def _leader(cluster: SimCluster, place: Place) -> ReplicaDriver | None:
    for _, driver in cluster.drivers(place.topic.name, place.number):
        if driver.replica.role is Role.LEADER and driver.replica.epoch == place.partition.leader_epoch:
            return driver
    return None


def _agreed_end(own: ReplicaDriver, leader: ReplicaDriver) -> int:
    """Up to where both logs are the same."""
    epoch, end = leader.log.epochs.end_offset_for(own.replica.last_epoch, leader.log.end_offset)
    _, own_end = own.log.epochs.end_offset_for(epoch, own.log.end_offset)
    return min(end, own_end)


def _remove(machine: BrokerMachine, directory: str) -> None:
    for path in machine.disk.contents(directory):
        machine.disk.remove(path)
    machine.disk.remove_directory(directory)
    machine.disk.sync_directory(DATA)
