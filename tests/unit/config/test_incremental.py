"""Incremental changes of settings."""

import pytest

from tidelog.config import (
    AlterOperation,
    BrokerConfig,
    apply_incremental,
    broker_setting,
    check_topic_overrides,
)
from tidelog.errors import InvalidConfig, InvalidRequest

SET, DELETE, APPEND, SUBTRACT = AlterOperation


def test_set_and_delete() -> None:
    current = {"retention.ms": "1", "segment.bytes": "4096"}
    changed = apply_incremental(current, [("retention.ms", SET, "2"), ("segment.bytes", DELETE, None)])
    assert changed == {"retention.ms": "2"}
    assert current == {"retention.ms": "1", "segment.bytes": "4096"}


def test_deleting_what_is_not_there_changes_nothing() -> None:
    assert apply_incremental({"a": "1"}, [("long.gone", DELETE, None)]) == {"a": "1"}


@pytest.mark.parametrize(
    ("current", "operation", "value", "expected"),
    [
        ({"cleanup.policy": "delete"}, APPEND, "compact", "delete,compact"),
        ({"cleanup.policy": "delete"}, APPEND, "delete", "delete"),
        ({}, APPEND, "compact,compact", "delete,compact"),
        ({"cleanup.policy": "delete,compact"}, SUBTRACT, "delete", "compact"),
        ({"cleanup.policy": "delete"}, SUBTRACT, "compact", "delete"),
        ({"cleanup.policy": "delete"}, SUBTRACT, "delete", ""),
    ],
)
def test_lists_grow_and_shrink(current: dict[str, str], operation: int, value: str, expected: str) -> None:
    changed = apply_incremental(current, [("cleanup.policy", operation, value)])
    assert changed == {"cleanup.policy": expected}


def test_a_list_without_override_starts_from_the_brokers() -> None:
    broker = BrokerConfig.parse({"log.cleanup.policy": "compact"})
    changed = apply_incremental({}, [("cleanup.policy", APPEND, "delete")], config=broker)
    assert changed == {"cleanup.policy": "compact,delete"}
    changed = apply_incremental(
        {}, [("log.cleanup.policy", APPEND, "delete")], setting_of=broker_setting, config=broker
    )
    assert changed == {"log.cleanup.policy": "compact,delete"}


def test_a_brokers_list_is_no_topics_list() -> None:
    with pytest.raises(InvalidConfig, match=r"for a topic it is called cleanup\.policy"):
        apply_incremental({}, [("log.cleanup.policy", APPEND, "delete")])
    with pytest.raises(InvalidConfig, match=r"it is called log\.cleanup\.policy"):
        apply_incremental({}, [("cleanup.policy", APPEND, "delete")], setting_of=broker_setting)


def test_a_list_may_be_emptied() -> None:
    changed = apply_incremental({"cleanup.policy": "delete"}, [("cleanup.policy", SUBTRACT, "delete")])
    assert changed == {"cleanup.policy": ""}
    check_topic_overrides(changed, None)


@pytest.mark.parametrize(
    ("ops", "error", "words"),
    [
        (
            [("retention.ms", APPEND, "1")],
            InvalidConfig,
            "APPEND is refused for retention.ms: it is not a list",
        ),
        ([("clean.policy", SUBTRACT, "1")], InvalidConfig, "Did you mean cleanup.policy?"),
        ([("retention.ms", SET, None)], InvalidRequest, "has no value"),
        ([("retention.ms", 7, "1")], InvalidRequest, "unknown operation 7"),
        ([("retention.ms", SET, "1"), ("retention.ms", DELETE, None)], InvalidRequest, "twice"),
    ],
)
def test_changes_that_cannot_be(
    ops: list[tuple[str, int, str | None]], error: type[Exception], words: str
) -> None:
    with pytest.raises(error) as caught:
        apply_incremental({}, ops)
    assert words in str(caught.value)
