"""ConsumerGroupHeartbeat: what it matches is matched in slices."""

from collections.abc import Iterable
from typing import Any

import pytest

from tidelog import regex
from tidelog.broker.handlers import consumer_group_heartbeat
from tidelog.errors import ErrorCode
from unit.broker.fakes import FakeBroker, value_of
from unit.broker.handlers.group_broker import group_broker


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> FakeBroker:
    monkeypatch.setattr(consumer_group_heartbeat, "MATCHED_PER_SLICE", 2)
    broker = group_broker()
    for name in ("orders-1", "orders-2", "other"):
        broker.create(name)
    return broker


def join(pattern: str) -> dict[str, Any]:
    return {
        "group_id": "g", "member_id": "m", "member_epoch": 0, "rebalance_timeout": 1000,
        "subscribed_topic_names": None, "subscribed_topic_regex": pattern, "topic_partitions": [],
    }  # fmt: skip


def stay(epoch: int) -> dict[str, Any]:
    return {"group_id": "g", "member_id": "m", "member_epoch": epoch, "rebalance_timeout": -1}


def topics_of(broker: FakeBroker, answer: Any) -> set[str]:
    assert answer.error_code == 0
    names = {broker.topic_id(name): name for name in broker.broker.image.topics}
    return {names[topic.topic_id] for topic in answer.assignment.topic_partitions}


def test_topics_are_matched_in_slices(broker: FakeBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long name takes some milliseconds with the worst expressions, and there may be thousands."""
    at_once: list[str] = []
    matching = regex.matching

    def watched(pattern: str, names: Iterable[str]) -> list[str]:
        at_once.extend(names)
        return matching(pattern, names)

    monkeypatch.setattr(regex, "matching", watched)
    pending = broker.begin("consumer_group_heartbeat", 1, **join("orders-.*"))
    assert not pending.is_complete
    broker.services.settle()
    joined = value_of(pending)
    assert topics_of(broker, joined) == {"orders-1", "orders-2"}
    for name in ("orders-3", "orders-4", "new"):
        broker.create(name)
    pending = broker.begin("consumer_group_heartbeat", 1, **stay(joined.member_epoch))
    assert not pending.is_complete
    broker.services.settle()
    assert topics_of(broker, value_of(pending)) == {f"orders-{number}" for number in range(1, 5)}
    assert not at_once


def test_topics_that_are_created_meanwhile_are_matched(broker: FakeBroker) -> None:
    pending = broker.begin("consumer_group_heartbeat", 1, **join("orders-.*"))
    broker.create("orders-3")
    broker.services.settle()
    assert topics_of(broker, value_of(pending)) == {"orders-1", "orders-2", "orders-3"}


def test_an_invalid_expression_is_refused(broker: FakeBroker) -> None:
    answer = broker.call("consumer_group_heartbeat", 1, **join("("))
    assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
