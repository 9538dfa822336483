"""What a coordinator says of a transactional id, and which broker leads a partition."""

import struct
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tidelog.cli.failure import CommandFailed, InvalidCommandLine
from tidelog.cli.reach import Address
from tidelog.cli.txn.admin import _label
from tidelog.cli.txn.client import Described, TxnClient, _read_description
from tidelog.errors import ErrorCode


def text(value: str) -> bytes:
    return bytes([len(value) + 1]) + value.encode()


def description(started_ms: int, *topics: tuple[str, list[int]]) -> memoryview:
    """DescribeTransactions as in Kafka's schema: compact fields, each struct ends with its tags."""
    places = b"".join(
        text(topic) + bytes([len(partitions) + 1]) + struct.pack(f">{len(partitions)}i", *partitions) + b"\0"
        for topic, partitions in topics
    )
    state = (
        struct.pack(">h", 0) + text("tx") + text("Ongoing") + struct.pack(">iqqh", 60_000, started_ms, 7, 2)
        + bytes([len(topics) + 1]) + places + b"\0"
    )  # fmt: skip
    return memoryview(struct.pack(">i", 0) + bytes([2]) + state + b"\0")


def test_a_transaction_with_its_partitions() -> None:
    found = _read_description(description(1_700_000_000_000, ("b", [1, 0]), ("a", [3])))
    assert found == Described(
        ErrorCode.NONE, "tx", "Ongoing", 60_000, 1_700_000_000_000, 7, 2, (("a", 3), ("b", 0), ("b", 1))
    )


def test_a_transaction_that_never_began() -> None:
    found = _read_description(description(-1))
    assert (found.started_ms, found.partitions) == (-1, ())


def leader_of(partition: int, leader: int, error: int = 0) -> Address:
    """As the client finds it in metadata with two partitions and broker 1."""
    described = SimpleNamespace(
        error_code=error,
        partitions=[SimpleNamespace(partition_index=index, leader_id=leader) for index in (0, 1)],
    )
    brokers = [SimpleNamespace(node_id=1, host="h", port=9092)]
    client: Any = SimpleNamespace(metadata=lambda topic: SimpleNamespace(topics=[described], brokers=brokers))
    return TxnClient.leader_of(cast(TxnClient, client), "t", partition)


def test_the_leader_of_a_partition() -> None:
    assert leader_of(1, leader=1) == Address("h", 9092)


@pytest.mark.parametrize(
    ("partition", "leader", "error", "said"),
    [
        (0, 1, 3, "Topic 't' does not exist"),
        (2, 1, 0, "has no partition 2"),
        (0, -1, 0, "t-0 has no leader now"),
        (0, 2, 0, "t-0 has no leader now"),
    ],
)
def test_why_there_is_none(partition: int, leader: int, error: int, said: str) -> None:
    with pytest.raises(CommandFailed, match=said):
        leader_of(partition, leader, error)


def test_states_are_typed_in_any_case() -> None:
    assert _label("ongoing") == "Ongoing"
    assert _label("PREPAREABORT") == "PrepareAbort"
    with pytest.raises(InvalidCommandLine, match="CompleteCommit and CompleteAbort, not 'open'"):
        _label("open")
