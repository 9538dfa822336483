"""Settings of brokers: names, levels, files, dynamic values, and the refusals that users see."""

import pytest

from tidelog.config import (
    BrokerConfig,
    TopicConfig,
    check_dynamic_broker,
)
from tidelog.config.kinds import LONG_MAX, Raw
from tidelog.errors import InvalidConfig
from unit.config.readings import refusal, topic


def test_kafka_defaults() -> None:
    broker = BrokerConfig.parse({})
    assert broker.num_partitions == 1
    assert broker.auto_create_topics_enable is True
    assert broker.socket_request_max_bytes == 104857600
    assert broker.message_max_bytes == 1048588
    assert broker.log_retention_hours == 168
    assert broker.log_retention_ms is None

    config = TopicConfig.resolve({}, broker)
    assert config == TopicConfig()
    assert config.segment_bytes == 1073741824
    assert config.retention_ms == 604800000
    assert config.flush_messages == LONG_MAX
    assert config.cleanup_policy == {"delete"}
    assert config.min_cleanable_dirty_ratio == 0.5


@pytest.mark.parametrize(
    ("values", "retention_ms"),
    [
        ({"log.retention.hours": 2}, 7_200_000),
        ({"log.retention.hours": 2, "log.retention.minutes": 3}, 180_000),
        ({"log.retention.hours": 2, "log.retention.minutes": 3, "log.retention.ms": 4}, 4),
        ({"log.retention.hours": "-1"}, -1),
        ({"log.retention.minutes": -1, "log.retention.hours": 1}, -1),
    ],
)
def test_the_finest_unit_given_wins(values: dict[str, Raw], retention_ms: int) -> None:
    broker = BrokerConfig.parse(values)
    assert TopicConfig.resolve({}, broker).retention_ms == retention_ms
    assert TopicConfig.resolve({"retention.ms": "77"}, broker).retention_ms == 77


def test_topic_override_wins_over_the_broker() -> None:
    assert topic({}, log_segment_bytes=4096).segment_bytes == 4096
    assert topic({"segment.bytes": "8192"}, log_segment_bytes=4096).segment_bytes == 8192


def test_equal_overrides_share_one_instance() -> None:
    broker = BrokerConfig.parse({})
    first = TopicConfig.resolve({"retention.ms": "5", "segment.bytes": "4096"}, broker)
    assert TopicConfig.resolve({"segment.bytes": "4096", "retention.ms": "5"}, broker) is first
    assert TopicConfig.resolve({"retention.ms": "6"}, broker) is not first


def test_overrides_that_nobody_uses_any_more_are_forgotten() -> None:
    broker = BrokerConfig.parse({})
    kept = TopicConfig.resolve({"retention.ms": "1"}, broker)
    for ms in range(2, 100):
        TopicConfig.resolve({"retention.ms": str(ms)}, broker)
    assert list(broker.topic_configs.values()) == [kept]


def test_a_mistyped_name_gets_a_suggestion() -> None:
    assert refusal({"log.segment.byte": 1}) == (
        "Unknown broker setting log.segment.byte. Did you mean log.segment.bytes?"
    )
    assert refusal({"frobnicate": 1}) == "Unknown broker setting frobnicate."
    with pytest.raises(InvalidConfig, match=r"Did you mean retention\.ms\?"):
        topic({"retention.m": "1"})


def test_a_name_from_the_other_side_is_pointed_to_its_place() -> None:
    assert "it is called log.segment.bytes" in refusal({"segment.bytes": 1})
    with pytest.raises(InvalidConfig, match=r"for a topic it is called retention\.ms"):
        topic({"log.retention.ms": "1"})
    assert "event loop" in refusal({"num.io.threads": 8})


def test_aliases_mean_the_same_setting() -> None:
    assert BrokerConfig.parse({"broker.id": "4"}).node_id == 4
    assert BrokerConfig.parse({"broker.id": 4, "node.id": 4}).node_id == 4
    assert BrokerConfig.parse({"log.dirs": "/var/lib/tidelog"}).log_dir == "/var/lib/tidelog"
    assert (
        refusal({"node.id": 3, "broker.id": 4})
        == "broker.id=4 is refused: node.id is the same setting, with value 3."
    )


@pytest.mark.parametrize("directories", ["/a,/b", ["/a", "/b"]])
def test_a_second_directory_is_refused(directories: Raw) -> None:
    assert "one broker per disk" in refusal({"log.dirs": directories})


def test_a_request_that_fits_must_fit_into_the_queue() -> None:
    message = refusal({"queued.max.request.bytes": 1000})
    assert "at least socket.request.max.bytes, which is 104857600, or -1" in message
    assert BrokerConfig.parse({"queued.max.request.bytes": -1}).queued_max_request_bytes == -1


def test_dynamic_values_win_and_can_be_taken_back() -> None:
    broker = BrokerConfig.parse({"log.segment.bytes": 4096, "log.retention.hours": 1})
    changed = broker.with_dynamic(
        {"log.segment.bytes": "8192"}, {"log.retention.ms": "5", "log.segment.bytes": "99"}
    )
    assert TopicConfig.resolve({}, changed).segment_bytes == 8192
    assert TopicConfig.resolve({}, changed).retention_ms == 5
    assert TopicConfig.resolve({}, broker).segment_bytes == 4096
    assert TopicConfig.resolve({}, changed.with_dynamic({})).segment_bytes == 4096


def test_only_live_settings_change_on_a_running_broker() -> None:
    check_dynamic_broker({"log.retention.ms": "5", "max.connections": "10"})
    with pytest.raises(InvalidConfig, match=r"listeners cannot be changed while the broker runs"):
        check_dynamic_broker({"listeners": "PLAINTEXT://127.0.0.1:1"})
    with pytest.raises(InvalidConfig, match=r"max\.connections=many"):
        BrokerConfig.parse({}).with_dynamic({"max.connections": "many"})
    with pytest.raises(InvalidConfig, match="Unknown broker setting"):
        check_dynamic_broker({"no.such.thing": "1"})


def test_values_cannot_be_changed_in_place() -> None:
    with pytest.raises(AttributeError):
        TopicConfig().segment_bytes = 5  # type: ignore[misc]
    with pytest.raises((AttributeError, TypeError)):
        BrokerConfig.parse({}).made_up = 5  # type: ignore[attr-defined]
