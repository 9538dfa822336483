"""Settings of topics and brokers: described, replaced, and changed one by one."""

from typing import Any

import pytest
from fakes import ME, FakeBroker

from tidelog.errors import ErrorCode

TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = range(4)
TOPIC_LEVEL, DYNAMIC_BROKER, DYNAMIC_DEFAULT, STATIC, DEFAULT = 1, 2, 3, 4, 5


def resource(kind: int, name: str, *changes: tuple[Any, ...]) -> dict[str, Any]:
    """Changes are (name, value), or (name, operation, value) for the incremental kind."""
    configs = [{"name": each[0], "config_operation": each[1], "value": each[-1]} for each in changes]
    return {"resource_type": kind, "resource_name": name, "configs": configs}


def alter(
    broker: FakeBroker, *resources: dict[str, Any], api: str = "alter_configs", **more: Any
) -> list[int]:
    return [each.error_code for each in broker.call(api, resources=resources, **more).responses]


def increment(broker: FakeBroker, *resources: dict[str, Any], **more: Any) -> list[int]:
    return alter(broker, *resources, api="incremental_alter_configs", **more)


def describe(broker: FakeBroker, kind: int, name: str, version: int | None = None, **more: Any) -> Any:
    resources = [{"resource_type": kind, "resource_name": name, "configuration_keys": more.pop("keys", None)}]
    (result,) = broker.call("describe_configs", version, resources=resources, **more).results
    return result


def settings(result: Any) -> dict[str, tuple[str | None, int]]:
    assert result.error_code == 0, result
    return {config.name: (config.value, config.config_source) for config in result.configs}


@pytest.fixture
def topic(broker: FakeBroker) -> FakeBroker:
    broker.create("orders", retention_ms=5, segment_bytes=100)
    return broker


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
