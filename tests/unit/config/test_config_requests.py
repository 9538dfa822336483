"""What clients can ask about settings: checks of overrides, incremental changes, descriptions."""

import pytest

from tidelog.config import (
    BROKER_SETTINGS,
    TOPIC_SETTINGS,
    AlterOperation,
    BrokerConfig,
    ConfigSource,
    ConfigType,
    DescribedSetting,
    apply_incremental,
    check_topic_overrides,
    describe_broker,
    describe_topic,
)
from tidelog.config.checks import refuse_without_meaning
from tidelog.config.kinds import Raw
from tidelog.errors import InvalidConfig, InvalidRequest

SET, DELETE, APPEND, SUBTRACT = AlterOperation


def one(described: list[DescribedSetting], name: str) -> DescribedSetting:
    (found,) = [setting for setting in described if setting.name == name]
    return found


# Checks


def test_sensible_overrides_pass_in_silence() -> None:
    overrides = {"retention.ms": "1", "cleanup.policy": "compact,delete", "min.insync.replicas": "2"}
    assert check_topic_overrides(overrides, 3) == []


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            {"retention.ms": "soon"},
            "retention.ms=soon is refused: it must be a whole number of at least -1 (-1 for no limit).",
        ),
        (
            {"compression.type": "brotli"},
            "compression.type=brotli is refused: it must be "
            "one of producer, uncompressed, gzip, snappy, lz4, zstd.",
        ),
        (
            {"min.insync.replicas": "4"},
            "min.insync.replicas=4 is refused: it must be at most the number of the topic's replicas, 3.",
        ),
        (
            {"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "5"},
            "min.compaction.lag.ms=9 is refused: it must be at most max.compaction.lag.ms, 5.",
        ),
        (
            {"message.format.version": "2.0"},
            "message.format.version is not a topic setting: Kafka dropped it, and Tidelog stores records in "
            "the one current format.",
        ),
    ],
)
def test_refusals_name_key_value_and_what_is_allowed(overrides: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        check_topic_overrides(overrides, 3)
    assert caught.value.message == message


def test_replicas_are_not_compared_while_nobody_knows_them() -> None:
    assert check_topic_overrides({"min.insync.replicas": "4"}, None) == []


@pytest.mark.parametrize(
    ("overrides", "warning"),
    [
        ({"min.insync.replicas": "3"}, "writes with acks=all stop when one of them is down"),
        ({"unclean.leader.election.enable": "true"}, "may lack records that were acknowledged"),
        ({"cleanup.policy": "compact", "retention.ms": "1"}, "retention.ms has no effect"),
        ({"cleanup.policy": "delete", "delete.retention.ms": "1"}, "delete.retention.ms has no effect"),
    ],
)
def test_warnings(overrides: dict[str, str], warning: str) -> None:
    (said,) = check_topic_overrides(overrides, 3)
    assert warning in said


def test_a_setting_that_the_mode_ignores_is_refused() -> None:
    refuse_without_meaning({"min.insync.replicas": 2}, "isr")
    with pytest.raises(InvalidConfig, match=r"min\.insync\.replicas has no meaning in mode quorum: a write"):
        refuse_without_meaning({"min.insync.replicas": 2}, "quorum")


# Incremental changes


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
    changed = apply_incremental({}, [("log.cleanup.policy", APPEND, "delete")], broker=True, config=broker)
    assert changed == {"log.cleanup.policy": "compact,delete"}


def test_a_brokers_list_is_no_topics_list() -> None:
    with pytest.raises(InvalidConfig, match=r"for a topic it is called cleanup\.policy"):
        apply_incremental({}, [("log.cleanup.policy", APPEND, "delete")])
    with pytest.raises(InvalidConfig, match=r"it is called log\.cleanup\.policy"):
        apply_incremental({}, [("cleanup.policy", APPEND, "delete")], broker=True)


def test_an_emptied_list_is_refused_by_the_check() -> None:
    changed = apply_incremental({"cleanup.policy": "delete"}, [("cleanup.policy", SUBTRACT, "delete")])
    with pytest.raises(InvalidConfig, match=r"cleanup\.policy=''"):
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


# Descriptions


def test_every_setting_of_a_topic_is_described() -> None:
    described = describe_topic({}, BrokerConfig.parse({}))
    assert [setting.name for setting in described] == list(TOPIC_SETTINGS)
    assert all(setting.is_default and not setting.read_only for setting in described)


def test_an_untouched_topic_setting() -> None:
    described = one(describe_topic({}, BrokerConfig.parse({})), "retention.ms")
    assert described.value == "604800000"
    assert described.source == 5
    assert described.type is ConfigType.LONG
    assert described.synonyms == (("log.retention.hours", "168", ConfigSource.DEFAULT_CONFIG),)
    assert described.documentation.startswith("How long records are kept")


def test_every_level_that_could_give_a_value_is_listed_strongest_first() -> None:
    broker = BrokerConfig.parse({"log.retention.minutes": 3, "log.retention.ms": 4})
    broker = broker.with_dynamic({"log.retention.ms": "5"}, {"log.retention.ms": "6"})
    described = one(describe_topic({"retention.ms": "007"}, broker), "retention.ms")
    assert (described.value, described.source) == ("7", ConfigSource.TOPIC_CONFIG)
    assert [tuple(synonym) for synonym in described.synonyms] == [
        ("retention.ms", "7", 1),
        ("log.retention.ms", "5", 2),
        ("log.retention.ms", "6", 3),
        ("log.retention.ms", "4", 4),
        ("log.retention.minutes", "3", 4),
        ("log.retention.hours", "168", 5),
    ]


@pytest.mark.parametrize(
    ("static", "dynamic", "value", "source"),
    [
        ({"log.retention.hours": 1}, {}, "3600000", ConfigSource.STATIC_BROKER_CONFIG),
        ({"log.retention.hours": 1}, {"log.retention.ms": "9"}, "9", ConfigSource.DYNAMIC_BROKER_CONFIG),
        (
            {"log.retention.hours": 1, "log.retention.minutes": 1},
            {},
            "60000",
            ConfigSource.STATIC_BROKER_CONFIG,
        ),
    ],
)
def test_an_inherited_value_and_its_source(
    static: dict[str, Raw], dynamic: dict[str, str], value: str, source: ConfigSource
) -> None:
    described = one(describe_topic({}, BrokerConfig.parse(static).with_dynamic(dynamic)), "retention.ms")
    assert (described.value, described.source) == (value, source)
    assert not described.is_default


def test_every_setting_of_a_broker_is_described() -> None:
    described = describe_broker({}, {})
    assert [setting.name for setting in described] == list(BROKER_SETTINGS)
    assert all(setting.is_default for setting in described)
    assert one(described, "log.retention.ms").value is None
    assert one(described, "advertised.listeners").value is None
    assert one(described, "listeners").value == "PLAINTEXT://127.0.0.1:9092"
    assert one(described, "listeners").read_only
    assert not one(described, "log.retention.ms").read_only


def test_a_broker_setting_on_all_levels() -> None:
    described = one(
        describe_broker({"max.connections": "1"}, {"max.connections": "2"}, {"max.connections": "3"}),
        "max.connections",
    )
    assert (described.value, described.source, described.is_default) == ("2", 2, False)
    assert [(synonym.value, int(synonym.source)) for synonym in described.synonyms] == [
        ("2", 2),
        ("3", 3),
        ("1", 4),
        ("2147483647", 5),
    ]


def test_what_a_broker_remembers_describes_it() -> None:
    broker = BrokerConfig.parse({"broker.id": 8}).with_dynamic({"num.partitions": "3"})
    described = describe_broker(broker.static_values, broker.dynamic_values, broker.dynamic_defaults)
    assert one(described, "node.id").value == "8"
    assert one(described, "num.partitions").value == "3"
