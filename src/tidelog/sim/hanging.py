"""Hanging transactions: records of them are in a partition, and no coordinator will ever end them there.

That happens where records were given up. A coordinator whose log has lost its end knows nothing of
transactions begun since; a partition that has lost a marker is not sent another one. ``read_committed``
readers wait before such a transaction, and so do requests for a group's offsets, until an operator ends it
(``tidelog txn abort --topic``), or the producer begins another one there. Anywhere else, a hanging
transaction is a defect of the cluster, and the operator does not help.
"""

from collections.abc import Iterator
from typing import NamedTuple

from tidelog.broker.coordinators.internal_topics import TRANSACTION_STATE
from tidelog.errors import ErrorCode
from tidelog.replication.replica import Role
from tidelog.sim.checkers.promises import Place
from tidelog.sim.clients.client import Client, Reply, RequestCall
from tidelog.sim.cluster import SimCluster
from tidelog.transactions.states import AT_REST
from tidelog.transactions.transaction import Transaction
from tidelog.types import TopicPartition

WRITE_TXN_MARKERS = 27


class Hanging(NamedTuple):
    """Its entry in DescribeProducers."""

    name: TopicPartition
    leader: int
    producer_id: int
    epoch: int
    coordinator_epoch: int
    start_offset: int


def find(cluster: SimCluster) -> list[Hanging]:
    """As ``kafka-transactions.sh find-hanging`` does: open in a partition, unknown to the coordinators."""
    known = _coordinated(cluster)
    if known is None:
        return []
    return [
        each
        for place in cluster.checker.places()
        if _is_given_up(cluster, place)
        for each in _open(cluster, place)
        if not any(_ends(transaction, each) for transaction in known)
    ]


def _is_given_up(cluster: SimCluster, place: Place) -> bool:
    checker = cluster.checker
    return checker.transactions.void or (place.topic.name, place.number) in checker.given_up


def _coordinated(cluster: SimCluster) -> list[Transaction] | None:
    """All transactions; None if a coordinator is missing."""
    topic = cluster.checker.metadata.newest.topics.get(TRANSACTION_STATE)
    if topic is None:
        return None
    machines = [
        machine
        for each in cluster.machines.values()
        if each.broker is not None
        for machine in each.broker.coordinators.transactions.machines()
    ]
    if len(machines) < len(topic.partitions):
        return None
    return [transaction for machine in machines for transaction in machine.transactions]


def _open(cluster: SimCluster, place: Place) -> Iterator[Hanging]:
    name = TopicPartition(place.topic.name, place.number)
    for machine, driver in cluster.drivers(*name):
        if driver.replica.role is Role.LEADER:
            producers = driver.log.producers
            for producer_id, start_offset in producers.transactions.open.items():
                producer = producers.get(producer_id)
                if producer is not None:
                    yield Hanging(
                        name, machine.node_id, producer_id, producer.epoch, producer.coordinator_epoch,
                        start_offset,
                    )  # fmt: skip


def _ends(transaction: Transaction, hanging: Hanging) -> bool:
    """Whether the coordinator will end it there. A marker of an older epoch would be refused."""
    return (
        transaction.state not in AT_REST
        and transaction.producer_id == hanging.producer_id
        and transaction.epoch >= hanging.epoch
        and hanging.name in transaction.partitions
    )


def abort(client: Client, hanging: Hanging) -> None:
    """What ``tidelog txn abort --topic T --partition P --start-offset O`` does."""
    topic, partition = hanging.name
    client.world.note(f"operator: aborts the transaction at {topic}-{partition} {hanging.start_offset}")
    marker = {
        "producer_id": hanging.producer_id,
        "producer_epoch": hanging.epoch,
        "transaction_result": False,
        "topics": [{"name": topic, "partition_indexes": [partition]}],
        "coordinator_epoch": max(0, hanging.coordinator_epoch),
    }

    def heard(reply: Reply) -> None:
        if reply.body is None:
            code = reply.error
        else:
            code = ErrorCode(reply.body.markers[0].topics[0].partitions[0].error_code)
        client.world.note(f"operator: {code.name}")

    body = {"markers": [marker]}
    client.ask(
        hanging.leader, RequestCall(client.client_id, client.next_number(), WRITE_TXN_MARKERS, body), heard
    )
