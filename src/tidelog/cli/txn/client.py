"""Requests about transactions, and the one answer that the schemas cannot read: a transaction that never
began has the time -1 in it.
"""

from typing import NamedTuple

from tidelog.cli.cluster.controllers import require_coordinators
from tidelog.cli.cluster_client import ClusterClient
from tidelog.cli.failure import CommandFailed
from tidelog.cli.reach import Address
from tidelog.client.reader import Reader
from tidelog.errors import ErrorCode

DESCRIBE_TRANSACTIONS = 65
_TRANSACTION_COORDINATOR = 1


class Described(NamedTuple):
    """What a coordinator says of a transactional id."""

    error: ErrorCode
    transactional_id: str
    state: str
    timeout_ms: int
    started_ms: int  # -1: no transaction was begun
    producer_id: int
    epoch: int
    partitions: tuple[tuple[str, int], ...]


class TxnClient(ClusterClient):
    def coordinator_of(self, transactional_id: str) -> tuple[int, Address]:
        whose, topic = f"'{transactional_id}'", "__transaction_state"
        require_coordinators(self, whose, topic)
        return self.find_coordinator(_TRANSACTION_COORDINATOR, transactional_id, whose, topic)

    def leader_of(self, topic: str, partition: int) -> Address:
        found = self.metadata(topic)
        described = found.topics[0]
        if described.error_code:
            raise CommandFailed(
                f"Topic '{topic}' does not exist; `tidelog topic list` shows the existing ones."
            )
        leaders = {each.partition_index: each.leader_id for each in described.partitions}
        if partition not in leaders:
            raise CommandFailed(f"Topic '{topic}' has no partition {partition}.")
        addresses = {each.node_id: Address(each.host, each.port) for each in found.brokers}
        if leaders[partition] not in addresses:
            raise CommandFailed(
                f"{topic}-{partition} has no leader now; `tidelog cluster status` says what to start."
            )
        return addresses[leaders[partition]]

    def describe(self, address: Address, transactional_id: str) -> Described:
        body = {"transactional_ids": [transactional_id]}
        return _read_description(self.exchange(address, DESCRIBE_TRANSACTIONS, body))


def _read_description(body: memoryview) -> Described:
    """DescribeTransactions, version 0: throttle time, one state."""
    reader = Reader(body)
    reader.int32()  # throttle time
    reader.compact_count()
    error, name, state = reader.int16(), reader.compact_string(), reader.compact_string()
    timeout_ms, started_ms = reader.int32(), reader.int64()
    producer_id, epoch = reader.int64(), reader.int16()
    partitions = []
    for _ in range(reader.compact_count()):
        topic = reader.compact_string()
        partitions += [(topic, reader.int32()) for _ in range(reader.compact_count())]
        reader.skip_tags()
    return Described(
        ErrorCode(error), name, state, timeout_ms, started_ms, producer_id, epoch, tuple(sorted(partitions))
    )
