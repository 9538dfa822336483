"""Requests about transactions, and the one answer that the schemas cannot read: a transaction that never
began has the time -1 in it.
"""

from typing import NamedTuple

from tidelog.cli.cluster_client import Address, ClusterClient
from tidelog.cli.failure import CommandFailed
from tidelog.errors import ErrorCode
from tidelog.protocol.wire import INT16, INT32, INT64, read_array_size, read_string, skip_tags

FIND_COORDINATOR, DESCRIBE_TRANSACTIONS = 10, 65
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
        body = {"key_type": _TRANSACTION_COORDINATOR, "coordinator_keys": [transactional_id]}
        (found,) = self.ask(None, FIND_COORDINATOR, body).coordinators
        if found.error_code:
            name = ErrorCode(found.error_code).name
            raise CommandFailed(f"'{transactional_id}' has no coordinator now ({name}); try again.", name)
        return found.node_id, Address(found.host, found.port)

    def leader_of(self, topic: str, partition: int) -> Address:
        found = self.metadata(topic)
        described = found.topics[0]
        if described.error_code:
            raise CommandFailed(
                f"Topic '{topic}' does not exist; `tidelog topic list` shows those there are."
            )
        leaders = {each.partition_index: each.leader_id for each in described.partitions}
        if partition not in leaders:
            raise CommandFailed(f"Topic '{topic}' has no partition {partition}.")
        addresses = {each.node_id: Address(each.host, each.port) for each in found.brokers}
        if leaders[partition] not in addresses:
            raise CommandFailed(f"Nobody leads {topic}-{partition} now; try again.")
        return addresses[leaders[partition]]

    def describe(self, address: Address, transactional_id: str) -> Described:
        body = {"transactional_ids": [transactional_id]}
        return _read_description(self._exchange(address, DESCRIBE_TRANSACTIONS, body))


def _read_description(frame: bytes) -> Described:
    """DescribeTransactions, version 0: header tags, throttle time, one state."""
    position = skip_tags(frame, 4) + INT32.size
    _, position = read_array_size(frame, position, True)
    (error,) = INT16.unpack_from(frame, position)
    name, position = read_string(frame, position + INT16.size, True)
    state, position = read_string(frame, position, True)
    (timeout_ms,) = INT32.unpack_from(frame, position)
    (started_ms,) = INT64.unpack_from(frame, position + 4)
    (producer_id,) = INT64.unpack_from(frame, position + 12)
    (epoch,) = INT16.unpack_from(frame, position + 20)
    topics, position = read_array_size(frame, position + 22, True)
    partitions = []
    for _ in range(topics):
        topic, position = read_string(frame, position, True)
        indexes, position = read_array_size(frame, position, True)
        for _ in range(indexes):
            partitions.append((topic or "", INT32.unpack_from(frame, position)[0]))
            position += INT32.size
        position = skip_tags(frame, position)
    return Described(
        ErrorCode(error), name or "", state or "", timeout_ms, started_ms, producer_id, epoch,
        tuple(sorted(partitions)),
    )  # fmt: skip
