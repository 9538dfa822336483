"""AlterConfigs: all overrides of a topic or broker are replaced."""

import pytest

from tidelog.errors import ErrorCode
from unit.broker.fakes import ME, FakeBroker
from unit.broker.handlers.config_requests import (
    BROKER,
    DEFAULT,
    DYNAMIC_DEFAULT,
    TOPIC,
    TOPIC_LEVEL,
    alter,
    describe,
    resource,
    settings,
)


class TestReplace:
    @pytest.mark.parametrize("version", range(3))
    def test_all_overrides_at_once(self, topic: FakeBroker, version: int) -> None:
        wanted = resource(TOPIC, "orders", ("retention.ms", "9"), ("flush.messages", "1"))
        assert alter(topic, wanted, version=version) == [0]
        assert topic.store.image.topics["orders"].configs == {"retention.ms": "9", "flush.messages": "1"}
        assert topic.partition("orders").replica.limits.durable

    def test_the_mode_stays_unless_it_is_named(self, broker: FakeBroker) -> None:
        """A tool from elsewhere replaces all that it knows of, and begins no change of mode by that."""
        broker.create("copied", replication_mode="primary-backup", retention_ms=5)
        assert alter(broker, resource(TOPIC, "copied", ("segment.bytes", "100"))) == [0]
        found = settings(describe(broker, TOPIC, "copied"))
        assert found["replication.mode"] == ("primary-backup", TOPIC_LEVEL)
        assert found["retention.ms"][1] == DEFAULT

    def test_each_resource_has_its_own_outcome(self, topic: FakeBroker) -> None:
        found = alter(
            topic,
            resource(TOPIC, "unknown", ("retention.ms", "9")),
            resource(TOPIC, "orders", ("retention.ms", "soon")),
            resource(BROKER, str(ME), ("log.retention.ms", "8")),
            resource(BROKER, str(ME), ("node.id", "8")),
            resource(BROKER, "7", ("log.retention.ms", "8")),
            resource(8, "x"),
        )
        assert found == [
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.INVALID_CONFIG,
            0,
            ErrorCode.INVALID_CONFIG,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.INVALID_REQUEST,
        ]
        assert topic.broker.config.log_retention_ms == 8
        assert topic.store.image.topics["orders"].configs["retention.ms"] == "5"

    def test_a_setting_without_a_value(self, topic: FakeBroker) -> None:
        wanted = resource(TOPIC, "orders", ("retention.ms", None))
        assert alter(topic, wanted) == [ErrorCode.INVALID_REQUEST]

    def test_only_to_see_whether_it_would_work(self, topic: FakeBroker) -> None:
        good, bad = (resource(TOPIC, "orders", ("retention.ms", value)) for value in ("9", "x"))
        assert alter(topic, good, bad, validate_only=True) == [0, ErrorCode.INVALID_CONFIG]
        assert topic.store.image.topics["orders"].configs["retention.ms"] == "5"

    def test_a_brokers_settings_and_those_of_all(self, broker: FakeBroker) -> None:
        alter(broker, resource(BROKER, "", ("log.retention.ms", "1")))
        alter(broker, resource(BROKER, str(ME), ("log.retention.ms", "2")))
        alter(broker, resource(BROKER, str(ME)))
        assert [config.log_retention_ms for config in broker.configs] == [1, 2, 1]
        found = settings(describe(broker, BROKER, str(ME)))
        assert found["log.retention.ms"] == ("1", DYNAMIC_DEFAULT)
