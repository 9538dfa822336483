"""What the transaction commands ask of a cluster, as plain dicts and lists ready for a table or for JSON."""

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from tidelog.cli.cluster.admin import unless_fenced
from tidelog.cli.failure import CommandFailed, InvalidCommandLine
from tidelog.cli.reach import Address
from tidelog.cli.txn.client import TxnClient
from tidelog.errors import ErrorCode

INIT_PRODUCER_ID, WRITE_TXN_MARKERS, DESCRIBE_PRODUCERS, LIST_TRANSACTIONS = 22, 27, 61, 66
STATES = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort")
OPEN_STATES = ("Ongoing", "PrepareAbort")
ABORT_WITHIN_S = 30.0
RETRY_S = 0.05
FENCE_TIMEOUT_MS = 1000  # of a transaction that will never begin

_PASSING = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
# The metadata may name a replica that serves readers, but does not lead.
_WITHOUT_LEADER = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.LEADER_NOT_AVAILABLE})


class Transactions(NamedTuple):
    rows: list[dict[str, Any]]  # one per transactional id, by name
    unheard: list[int]  # brokers that did not answer: what they coordinated is missing


def list_transactions(client: TxnClient, states: Sequence[str], longer_than_s: float | None) -> Transactions:
    """Every broker knows the transactional ids that it coordinates."""
    labels = [_label(state) for state in states]
    body = {
        "state_filters": labels,
        "duration_filter": -1 if longer_than_s is None else int(longer_than_s * 1000),
    }
    rows, unheard = [], []
    brokers = client.brokers()
    client.silent(brokers.values())  # all at the same time
    for broker_id, address in brokers.items():
        try:
            response = client.ask(address, LIST_TRANSACTIONS, body)
            _check(response.error_code, f"broker {broker_id} cannot list its transactions")
        except CommandFailed:
            unheard.append(broker_id)
            continue
        rows += [
            {
                "transactional_id": each.transactional_id,
                "state": each.transaction_state,
                "producer_id": each.producer_id,
                "coordinator": broker_id,
            }
            for each in response.transaction_states
        ]
    rows.sort(key=lambda row: str(row["transactional_id"]))
    return Transactions(rows, sorted(unless_fenced(client, unheard)))


def _label(state: str) -> str:
    for label in STATES:
        if label.lower() == state.lower():
            return label
    raise InvalidCommandLine(f"--state takes {', '.join(STATES[:-1])} and {STATES[-1]}, not '{state}'.")


def describe(client: TxnClient, transactional_id: str) -> dict[str, Any]:
    """A transactional id with its partitions, and where the transaction begins in each."""
    coordinator, address = client.coordinator_of(transactional_id)
    found = client.describe(address, transactional_id)
    if found.error is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        raise CommandFailed(
            f"There is no transactional id '{transactional_id}'; `tidelog txn list` shows the existing ones."
        )
    _check(found.error, f"'{transactional_id}' cannot be described")
    running = found.started_ms >= 0 and bool(found.partitions)
    return {
        "transactional_id": transactional_id,
        "state": found.state,
        "producer_id": found.producer_id,
        "epoch": found.epoch,
        "timeout_ms": found.timeout_ms,
        "running_ms": max(0, int(time.time() * 1000) - found.started_ms) if running else None,
        "coordinator": coordinator,
        "partitions": [
            {
                "topic": topic,
                "partition": partition,
                "start_offset": _start_offset(client, topic, partition, found.producer_id),
            }
            for topic, partition in found.partitions
        ],
    }


def _start_offset(client: TxnClient, topic: str, partition: int, producer_id: int) -> int | None:
    """Where the producer's open transaction begins; None when it has written nothing there, or is done."""
    try:
        producers = _producers(client, client.leader_of(topic, partition), topic, partition)
    except CommandFailed:
        return None
    offsets = [each.current_txn_start_offset for each in producers if each.producer_id == producer_id]
    return offsets[0] if offsets and offsets[0] >= 0 else None


def _producers(client: TxnClient, leader: Address, topic: str, partition: int) -> Sequence[Any]:
    body = {"topics": [{"name": topic, "partition_indexes": [partition]}]}
    (described,) = client.ask(leader, DESCRIBE_PRODUCERS, body).topics[0].partitions
    if described.error_code in _WITHOUT_LEADER:
        raise CommandFailed(
            f"{topic}-{partition} has no leader now; `tidelog cluster status` says what to start.",
            ErrorCode(described.error_code).name,
        )
    _check(described.error_code, f"the leader of {topic}-{partition} does not tell its producers")
    producers: Sequence[Any] = described.active_producers
    return producers


def abort_by_id(client: TxnClient, transactional_id: str) -> None:
    """Have the coordinator abort it, and fence its producer."""
    # An id that is not there must not come into being by this, and what has ended cannot be aborted.
    state = describe(client, transactional_id)["state"]
    if state not in OPEN_STATES:
        raise CommandFailed(
            f"'{transactional_id}' has no open transaction (its state is {state}); nothing was aborted."
        )
    body = {"transactional_id": transactional_id, "transaction_timeout": FENCE_TIMEOUT_MS}
    deadline = time.monotonic() + ABORT_WITHIN_S
    while True:
        _, address = client.coordinator_of(transactional_id)
        code = ErrorCode(client.ask(address, INIT_PRODUCER_ID, body).error_code)
        if code not in _PASSING or time.monotonic() > deadline:
            _check(code, f"'{transactional_id}' could not be aborted")
            return
        time.sleep(RETRY_S)


def abort_by_place(client: TxnClient, topic: str, partition: int, start_offset: int) -> int:
    """End a transaction that its coordinator knows nothing of, in one partition; its producer id."""
    leader = client.leader_of(topic, partition)
    producers = _producers(client, leader, topic, partition)
    found = next((each for each in producers if each.current_txn_start_offset == start_offset), None)
    if found is None:
        raise CommandFailed(f"No open transaction begins at offset {start_offset} of {topic}-{partition}.")
    marker = {
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "transaction_result": False,
        "topics": [{"name": topic, "partition_indexes": [partition]}],
        "coordinator_epoch": max(0, found.coordinator_epoch),
    }
    response = client.ask(leader, WRITE_TXN_MARKERS, {"markers": [marker]})
    _check(
        response.markers[0].topics[0].partitions[0].error_code,
        f"the end could not be written to {topic}-{partition}",
    )
    return int(found.producer_id)


def _check(code: int, what: str) -> None:
    if code:
        name = ErrorCode(code).name
        raise CommandFailed(f"{what[:1].upper()}{what[1:]} ({name}).", name)
