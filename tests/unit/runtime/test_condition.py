"""What probes say of a broker."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tidelog.broker.broker import Broker
from tidelog.broker.node.node import Node
from tidelog.runtime.condition import Condition, Counts
from unit.broker.fakes import ME, FakeBroker


def condition(
    *, ready: bool = True, controller: int = 1, failed: bool = False, opened: bool = True
) -> Condition:
    node = SimpleNamespace(ready=ready, metadata=SimpleNamespace(leader=controller))
    partitions = SimpleNamespace(has_failed_logs=failed, all_open=opened)
    return Condition(cast(Node, node), cast(Broker, SimpleNamespace(partitions=partitions)))


@pytest.mark.parametrize(
    ("changed", "problems", "unready"),
    [
        ({}, 0, 0),
        ({"ready": False}, 1, 1),
        ({"controller": -1}, 1, 0),
        ({"failed": True}, 1, 0),
        ({"opened": False}, 0, 1),
    ],
)
def test_reasons(changed: dict[str, Any], problems: int, unready: int) -> None:
    found = condition(**changed)
    assert len(list(found.problems())) == problems
    assert len(list(found.unready())) == unready


def led() -> FakeBroker:
    broker = FakeBroker()
    broker.create("orders")
    return broker


def counted(broker: FakeBroker, *, lost: frozenset[int] = frozenset()) -> Counts:
    seen = SimpleNamespace(
        image=broker.broker.image, newest_partition=broker.partitions.newest_partition, lost_brokers=lost
    )
    counts = Counts()
    for partition in broker.partitions:
        counts.add(cast(Broker, seen), partition)
    return counts


def test_a_led_partition() -> None:
    counts = counted(led())
    assert (counts.led, counts.leaderless, counts.under_replicated, counts.below_minimum) == (1, 0, 0, 0)


def test_its_leader_is_lost() -> None:
    assert counted(led(), lost=frozenset({ME})).leaderless == 1
