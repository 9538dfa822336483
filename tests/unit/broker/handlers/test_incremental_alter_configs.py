"""IncrementalAlterConfigs: settings of topics and brokers are changed one by one."""

from typing import Any

import pytest

from tidelog.errors import ErrorCode
from unit.broker.fakes import FakeBroker
from unit.broker.handlers.config_requests import BROKER, TOPIC, alter, resource

SET, DELETE, APPEND, SUBTRACT = range(4)


def increment(broker: FakeBroker, *resources: dict[str, Any], **more: Any) -> list[int]:
    return alter(broker, *resources, api="incremental_alter_configs", **more)


class TestIncrement:
    @pytest.mark.parametrize("version", range(2))
    def test_set_and_delete(self, topic: FakeBroker, version: int) -> None:
        wanted = resource(
            TOPIC,
            "orders",
            ("retention.ms", SET, "9"),
            ("segment.bytes", DELETE, None),
            ("flush.ms", DELETE, ""),
        )
        assert increment(topic, wanted, version=version) == [0]
        assert topic.store.image.topics["orders"].configs == {"retention.ms": "9"}

    def test_lists_grow_and_shrink(self, topic: FakeBroker) -> None:
        def policy() -> str | None:
            return topic.store.image.topics["orders"].configs.get("cleanup.policy")

        assert increment(topic, resource(TOPIC, "orders", ("cleanup.policy", APPEND, "compact"))) == [0]
        assert policy() == "delete,compact"
        assert increment(topic, resource(TOPIC, "orders", ("cleanup.policy", SUBTRACT, "delete"))) == [0]
        assert policy() == "compact"

    def test_of_a_broker(self, broker: FakeBroker) -> None:
        wanted = resource(BROKER, "", ("log.retention.ms", SET, "9"))
        assert increment(broker, wanted) == [0]
        assert broker.broker.config.log_retention_ms == 9
        assert increment(broker, resource(BROKER, "", ("log.retention.ms", DELETE, None))) == [0]
        assert broker.broker.config.log_retention_ms is None

    @pytest.mark.parametrize(
        ("changes", "code"),
        [
            ([("retention.ms", APPEND, "1")], ErrorCode.INVALID_CONFIG),
            ([("retention.ms", SET, None)], ErrorCode.INVALID_REQUEST),
            ([("retention.ms", 9, "1")], ErrorCode.INVALID_REQUEST),
            ([("retention.ms", SET, "1"), ("retention.ms", SET, "2")], ErrorCode.INVALID_REQUEST),
            ([("no.such.setting", SET, "1")], ErrorCode.INVALID_CONFIG),
            ([("min.insync.replicas", SET, "2")], ErrorCode.INVALID_CONFIG),
        ],
    )
    def test_refusals(self, topic: FakeBroker, changes: list[tuple[Any, ...]], code: ErrorCode) -> None:
        assert increment(topic, resource(TOPIC, "orders", *changes)) == [code]

    def test_changes_made_at_the_same_time_add_up(self, topic: FakeBroker) -> None:
        """Each is decided on top of what was decided before, committed or not."""
        topic.store.held = True
        for name in ("retention.bytes", "flush.ms"):
            wanted = resource(TOPIC, "orders", (name, SET, "77"))
            topic.begin("incremental_alter_configs", resources=[wanted])
        topic.store.commit()
        found = topic.store.image.topics["orders"].configs
        assert (found["retention.bytes"], found["flush.ms"]) == ("77", "77")
