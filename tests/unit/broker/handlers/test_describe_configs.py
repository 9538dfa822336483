"""DescribeConfigs of topics and brokers: values and where they come from."""

import pytest

from tidelog.errors import ErrorCode
from unit.broker.fakes import ME, FakeBroker
from unit.broker.handlers.config_requests import (
    BROKER,
    DEFAULT,
    DYNAMIC_DEFAULT,
    STATIC,
    TOPIC,
    TOPIC_LEVEL,
    alter,
    describe,
    resource,
    settings,
)
from unit.broker.handlers.three_brokers import three_brokers


class TestDescribe:
    @pytest.mark.parametrize("version", range(1, 5))
    def test_a_topic(self, topic: FakeBroker, version: int) -> None:
        found = settings(describe(topic, TOPIC, "orders", version))
        assert found["retention.ms"] == ("5", TOPIC_LEVEL)
        assert found["cleanup.policy"] == ("delete", DEFAULT)

    def test_only_what_is_asked_for(self, topic: FakeBroker) -> None:
        result = describe(topic, TOPIC, "orders", keys=["retention.ms", "no.such.setting"])
        assert settings(result) == {"retention.ms": ("5", TOPIC_LEVEL)}

    def test_an_empty_list_asks_for_everything(self, topic: FakeBroker) -> None:
        assert settings(describe(topic, TOPIC, "orders", keys=[])) == settings(
            describe(topic, TOPIC, "orders", keys=None)
        )

    def test_where_values_come_from(self, topic: FakeBroker) -> None:
        alter(topic, resource(BROKER, "", ("log.retention.ms", "7")))
        result = describe(topic, TOPIC, "orders", keys=["retention.ms"], include_synonyms=True)
        (config,) = result.configs
        assert [(each.name, each.value, each.source) for each in config.synonyms] == [
            ("retention.ms", "5", TOPIC_LEVEL),
            ("log.retention.ms", "7", DYNAMIC_DEFAULT),
            ("log.retention.hours", "168", DEFAULT),
        ]
        assert config.documentation is None
        quiet = describe(topic, TOPIC, "orders", include_synonyms=False, include_documentation=True)
        assert all(each.synonyms == () and each.documentation for each in quiet.configs)

    @pytest.mark.parametrize("name", ["", str(ME)])
    def test_a_broker(self, name: str) -> None:
        broker = FakeBroker(log_retention_hours=3)
        found = settings(describe(broker, BROKER, name))
        assert found["log.retention.hours"] == ("3", STATIC)
        assert found["node.id"] == (str(ME), STATIC)
        assert found["num.partitions"] == ("1", STATIC)

    @pytest.mark.parametrize(
        ("kind", "name", "code"),
        [
            (TOPIC, "unknown", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            (TOPIC, "a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
            (BROKER, "7", ErrorCode.INVALID_REQUEST),
            (BROKER, "x", ErrorCode.INVALID_REQUEST),
            (8, "loggers", ErrorCode.INVALID_REQUEST),
            (0, "", ErrorCode.INVALID_REQUEST),
        ],
    )
    def test_refusals(self, topic: FakeBroker, kind: int, name: str, code: ErrorCode) -> None:
        result = describe(topic, kind, name)
        assert (result.error_code, result.resource_type, result.resource_name) == (code, kind, name)
        assert result.error_message
        assert result.configs == ()


def test_the_minimum_in_force_is_told() -> None:
    broker = three_brokers()
    wish = {"name": "lone", "num_partitions": 1, "replication_factor": 1}
    (made,) = broker.call("create_topics", 7, topics=[wish]).topics
    assert {config.name: config.value for config in made.configs}["min.insync.replicas"] == "1"
    resource = {"resource_type": 2, "resource_name": "lone", "configuration_keys": ["min.insync.replicas"]}
    (described,) = broker.call("describe_configs", 4, resources=[resource]).results
    assert described.configs[0].value == "1"
