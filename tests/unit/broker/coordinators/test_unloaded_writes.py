"""A shard that is unloaded while it writes: every write is refused once, and nothing waits any more."""

from tidelog.broker.coordinators.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from tidelog.broker.coordinators.shard import LoadState
from tidelog.errors import ErrorCode, TidelogError
from tidelog.groups.offset_requests import CommitRequest, OffsetToCommit
from tidelog.transactions.rules import ProducerIdAndEpoch
from unit.broker.fakes import FakeBroker, value_of


def fake() -> FakeBroker:
    broker = FakeBroker()
    for name in (CONSUMER_OFFSETS, TRANSACTION_STATE):
        broker.create(name)
    broker.services.settle()
    return broker


def test_offsets() -> None:
    broker = fake()
    machine = broker.broker.coordinators.groups.machine_of("g")
    request = CommitRequest("g", "", None, -1, [OffsetToCommit("t", 0, 5, -1, None)], 9)
    response = machine.ask(lambda waiter, now: machine.groups.commit(request, waiter, now))
    assert not response.is_complete and len(machine.groups.writes) == 1
    machine._shard.unload()
    assert value_of(response) == [ErrorCode.NOT_COORDINATOR]
    broker.services.settle()
    assert len(machine.groups.writes) == 0
    assert machine._shard.state is LoadState.GONE


def test_a_transaction() -> None:
    broker = fake()
    machine = broker.broker.coordinators.transactions.machine_of("orders")
    shard = machine.transactions
    response = machine.ask(lambda waiter, now: shard.init_producer("orders", 60_000, None, waiter, now))
    machine._shard.unload()
    broker.services.settle()  # The producer id comes, and its record cannot be written any more.
    refusal = value_of(response)
    assert isinstance(refusal, TidelogError) and refusal.code == ErrorCode.NOT_COORDINATOR
    assert shard.get("orders") is None and not shard._entries


def test_a_producer_id_before_the_end() -> None:
    broker = fake()
    machine = broker.broker.coordinators.transactions.machine_of("orders")
    shard = machine.transactions
    response = machine.ask(lambda waiter, now: shard.init_producer("orders", 60_000, None, waiter, now))
    broker.services.settle()
    assert isinstance(value_of(response), ProducerIdAndEpoch)
    assert all(entry.change is None for entry in shard._entries.values())
