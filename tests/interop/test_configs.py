"""Settings of topics and brokers: describe, replace, change one by one, refuse what makes no sense."""

from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from kio.schema.errors import ErrorCode

from tidelog.testing import Broker

from . import calls
from .conftest import CreateTopic
from .records import batch
from .wire import Wire

pytestmark = pytest.mark.interop

TOPIC, BROKER = 2, 4  # resource types
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3  # operations of IncrementalAlterConfigs
DYNAMIC_TOPIC, DYNAMIC_BROKER, STATIC_BROKER, DEFAULT = 1, 2, 4, 5  # where a value comes from


def describe(wire: Wire, kind: int, name: str, keys: list[str] | None = None, **more: Any) -> Any:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
    return wire.call("describe_configs", 4, resources=[resource], **more).results[0]


def described(wire: Wire, topic: str) -> dict[str, Any]:
    result = describe(wire, TOPIC, topic)
    assert result.error_code is ErrorCode.none, result
    return {config.name: config for config in result.configs}


def value(wire: Wire, topic: str, key: str) -> str:
    return described(wire, topic)[key].value  # type: ignore[no-any-return]


def await_value(wire: Wire, topic: str, key: str, wanted: str) -> None:
    calls.eventually(lambda: value(wire, topic, key) == wanted, f"{key} of {topic} is {wanted}")


def change(
    wire: Wire,
    topic: str,
    *changes: tuple[str, int, str | None],
    kind: int = TOPIC,
    validate_only: bool = False,
) -> Any:
    configs = [{"name": key, "config_operation": operation, "value": to} for key, operation, to in changes]
    resource = {"resource_type": kind, "resource_name": topic, "configs": configs}
    request = {"resources": [resource], "validate_only": validate_only}
    return wire.call("incremental_alter_configs", 1, **request).responses[0]


def replace(wire: Wire, topic: str, **configs: str) -> Any:
    pairs = [{"name": key.replace("_", "."), "value": to} for key, to in configs.items()]
    resource = {"resource_type": TOPIC, "resource_name": topic, "configs": pairs}
    return wire.call("alter_configs", 2, resources=[resource]).responses[0]


class TestDescribe:
    def test_a_topics_own_value_and_a_default(self, wire: Wire, create_topic: CreateTopic) -> None:
        topic = create_topic(retention_ms=777_000)
        configs = described(wire, topic)
        own, default = configs["retention.ms"], configs["segment.bytes"]
        assert (own.value, own.config_source) == ("777000", DYNAMIC_TOPIC)
        assert (default.value, default.config_source) == (str(1 << 30), DEFAULT)

    def test_kafkas_defaults(self, wire: Wire, topic: str) -> None:
        expected = {
            "cleanup.policy": "delete",
            "compression.type": "producer",
            "retention.ms": "604800000",
            "retention.bytes": "-1",
            "segment.ms": "604800000",
            "segment.index.bytes": "10485760",
            "index.interval.bytes": "4096",
            "max.message.bytes": "1048588",
            "min.insync.replicas": "1",
            "message.timestamp.type": "CreateTime",
            "delete.retention.ms": "86400000",
            "min.cleanable.dirty.ratio": "0.5",
            "unclean.leader.election.enable": "false",
            "flush.messages": str(2**63 - 1),
            "file.delete.delay.ms": "60000",
        }
        configs = described(wire, topic)
        assert {key: configs[key].value for key in expected} == expected

    def test_only_the_keys_asked_for(self, wire: Wire, topic: str) -> None:
        result = describe(wire, TOPIC, topic, ["retention.ms", "no.such.setting"])
        assert [config.name for config in result.configs] == ["retention.ms"]

    def test_synonyms_say_where_else_a_value_could_come_from(
        self, wire: Wire, create_topic: CreateTopic
    ) -> None:
        topic = create_topic(retention_bytes=5_000_000)
        result = describe(wire, TOPIC, topic, ["retention.bytes"], include_synonyms=True)
        synonyms = [(each.name, each.value, each.source) for each in result.configs[0].synonyms]
        assert synonyms[0] == ("retention.bytes", "5000000", DYNAMIC_TOPIC)
        assert ("log.retention.bytes", "-1", DEFAULT) in synonyms

    def test_documentation_comes_when_asked_for(self, wire: Wire, topic: str) -> None:
        (with_text,) = describe(wire, TOPIC, topic, ["retention.ms"], include_documentation=True).configs
        (without,) = describe(wire, TOPIC, topic, ["retention.ms"]).configs
        assert with_text.documentation
        assert not without.documentation

    def test_a_broker(self, wire: Wire) -> None:
        node = wire.call("metadata", 12, topics=[]).brokers[0].node_id
        result = describe(wire, BROKER, str(node))
        assert result.error_code is ErrorCode.none
        configs = {config.name: config for config in result.configs}
        assert configs["num.partitions"].value == "1"
        assert configs["node.id"].value == str(node)
        assert configs["node.id"].read_only
        assert not configs["log.retention.ms"].read_only

    def test_unknown_topic(self, wire: Wire) -> None:
        result = describe(wire, TOPIC, "no-such-topic")
        assert result.error_code is ErrorCode.unknown_topic_or_partition

    def test_a_name_that_cannot_be_a_topic(self, wire: Wire) -> None:
        assert describe(wire, TOPIC, "no topic").error_code is ErrorCode.invalid_topic_exception

    @pytest.mark.parametrize("name", ["999999", "not-a-number"])
    def test_unknown_broker(self, wire: Wire, name: str) -> None:
        assert describe(wire, BROKER, name).error_code is ErrorCode.invalid_request


class TestIncremental:
    def test_set_and_delete(self, wire: Wire, create_topic: CreateTopic) -> None:
        topic = create_topic(segment_ms=60_000)
        assert change(wire, topic, ("retention.ms", SET, "1234000")).error_code is ErrorCode.none
        await_value(wire, topic, "retention.ms", "1234000")
        assert value(wire, topic, "segment.ms") == "60000"  # what is not named stays
        assert change(wire, topic, ("retention.ms", DELETE, None)).error_code is ErrorCode.none
        await_value(wire, topic, "retention.ms", "604800000")
        assert described(wire, topic)["retention.ms"].config_source == DEFAULT

    def test_append_and_subtract(self, wire: Wire, topic: str) -> None:
        assert change(wire, topic, ("cleanup.policy", APPEND, "compact")).error_code is ErrorCode.none
        calls.eventually(
            lambda: set(value(wire, topic, "cleanup.policy").split(",")) == {"compact", "delete"},
            "both policies",
        )
        assert change(wire, topic, ("cleanup.policy", SUBTRACT, "delete")).error_code is ErrorCode.none
        await_value(wire, topic, "cleanup.policy", "compact")

    def test_a_change_takes_effect(self, wire: Wire, topic: str) -> None:
        large = bytes(batch(b"x" * 2000))
        assert calls.produce(wire, topic, large).error_code is ErrorCode.none
        change(wire, topic, ("max.message.bytes", SET, "1000"))
        calls.eventually(
            lambda: calls.produce(wire, topic, large).error_code is ErrorCode.message_too_large,
            "the new limit holds for producers",
        )

    def test_validate_only(self, wire: Wire, topic: str) -> None:
        ok = change(wire, topic, ("retention.ms", SET, "1"), validate_only=True)
        assert ok.error_code is ErrorCode.none
        bad = change(wire, topic, ("retention.ms", SET, "soon"), validate_only=True)
        assert bad.error_code is ErrorCode.invalid_config
        assert value(wire, topic, "retention.ms") == "604800000"

    @pytest.mark.parametrize(
        ("key", "to"),
        [
            ("retention.ms", "soon"),
            ("cleanup.policy", "shred"),
            ("no.such.setting", "1"),
            ("segment.bytes", "0"),
        ],
    )
    def test_nonsense_changes_nothing(self, wire: Wire, topic: str, key: str, to: str) -> None:
        refused = change(wire, topic, ("segment.ms", SET, "5000"), (key, SET, to))
        assert refused.error_code is ErrorCode.invalid_config
        assert key in refused.error_message
        assert value(wire, topic, "segment.ms") == "604800000"

    def test_append_to_what_is_no_list(self, wire: Wire, topic: str) -> None:
        refused = change(wire, topic, ("retention.ms", APPEND, "1"))
        assert refused.error_code is ErrorCode.invalid_config

    def test_the_same_key_twice(self, wire: Wire, topic: str) -> None:
        refused = change(wire, topic, ("retention.ms", SET, "1"), ("retention.ms", SET, "2"))
        assert refused.error_code is ErrorCode.invalid_request

    def test_unknown_topic(self, wire: Wire) -> None:
        refused = change(wire, "no-such-topic", ("retention.ms", SET, "1"))
        assert refused.error_code is ErrorCode.unknown_topic_or_partition


class TestReplace:
    def test_what_is_not_named_goes_back_to_its_default(self, wire: Wire, create_topic: CreateTopic) -> None:
        topic = create_topic(segment_ms=60_000, retention_ms=1_000_000)
        assert replace(wire, topic, retention_ms="2000000").error_code is ErrorCode.none
        await_value(wire, topic, "retention.ms", "2000000")
        assert value(wire, topic, "segment.ms") == "604800000"

    def test_nonsense(self, wire: Wire, create_topic: CreateTopic) -> None:
        topic = create_topic(retention_ms=1_000_000)
        assert replace(wire, topic, retention_ms="soon").error_code is ErrorCode.invalid_config
        assert value(wire, topic, "retention.ms") == "1000000"


class TestBrokerSettings:
    def test_a_dynamic_default_reaches_topics_without_a_value_of_their_own(self, broker: Broker) -> None:
        with Wire(broker.bootstrap) as wire:
            calls.create_topic(wire, "plain")
            calls.create_topic(wire, "own", configs={"retention_ms": 5_000_000})
            # The empty name is the default of all brokers.
            changed = change(wire, "", ("log.retention.ms", SET, "3000000"), kind=BROKER)
            assert changed.error_code is ErrorCode.none
            await_value(wire, "plain", "retention.ms", "3000000")
            assert value(wire, "own", "retention.ms") == "5000000"
            broker.restart()
        with Wire(broker.bootstrap) as wire:
            await_value(wire, "plain", "retention.ms", "3000000")

    @pytest.mark.tidelog_settings({"log.segment.bytes": 5_000_000, "num.partitions": 2})
    def test_the_config_file_is_the_source_of_its_settings(self, broker: Broker) -> None:
        with Wire(broker.bootstrap) as wire:
            calls.create_topic(wire, "t")
            segment_bytes = described(wire, "t")["segment.bytes"]
            assert (segment_bytes.value, segment_bytes.config_source) == ("5000000", STATIC_BROKER)
            (partitions,) = describe(wire, BROKER, "1", ["num.partitions"]).configs
            assert (partitions.value, partitions.config_source) == ("2", STATIC_BROKER)

    def test_a_setting_fixed_at_start_cannot_be_changed(self, wire: Wire) -> None:
        node = wire.call("metadata", 12, topics=[]).brokers[0].node_id
        for key, to in (("node.id", "5"), ("log.dirs", "/elsewhere")):
            refused = change(wire, str(node), (key, SET, to), kind=BROKER)
            assert refused.error_code in (ErrorCode.invalid_request, ErrorCode.invalid_config), key


def test_confluent_admin(bootstrap: str, wire: Wire, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    entry = ConfigEntry("retention.ms", "4242000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(30)
    await_value(wire, topic, "retention.ms", "4242000")
    (future,) = admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, topic)]).values()
    assert future.result(30)["retention.ms"].value == "4242000"


def test_an_empty_cleanup_policy_keeps_everything(wire: Wire, create_topic: CreateTopic) -> None:
    topic = create_topic(cleanup_policy="compact")
    resource = {
        "resource_type": TOPIC,
        "resource_name": topic,
        "configs": [{"name": "cleanup.policy", "config_operation": SET, "value": ""}],
    }
    (changed,) = wire.call("incremental_alter_configs", 1, resources=[resource]).responses
    assert changed.error_code is ErrorCode.none, changed
    await_value(wire, topic, "cleanup.policy", "")
    assert calls.produce(wire, topic, bytes(batch(b"without a key"))).error_code is ErrorCode.none
    deleted = [{"name": topic, "partitions": [{"partition_index": 0, "offset": 1}]}]
    (found,) = wire.call("delete_records", 2, topics=deleted, timeout=30_000).topics[0].partitions
    assert (found.error_code, found.low_watermark) == (ErrorCode.none, 1)
    other = create_topic(cleanup_policy="")
    assert value(wire, other, "cleanup.policy") == ""


@pytest.mark.tidelog_settings({"log.segment.bytes": 20_000_000, "num.partitions": 3})
def test_what_the_file_says_is_a_static_broker_config(broker: Broker) -> None:
    with Wire(broker.bootstrap) as wire:
        calls.create_topic(wire, "t")
        told = {each.name: (each.value, each.config_source) for each in describe(wire, BROKER, "1").configs}
        assert told["num.partitions"] == ("3", STATIC_BROKER)
        assert told["message.max.bytes"][1] == DEFAULT
        of_topic = described(wire, "t")["segment.bytes"]
        assert (of_topic.value, of_topic.config_source) == ("20000000", STATIC_BROKER)
