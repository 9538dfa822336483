"""Reading settings: names, spellings, ranges, levels, and the refusals people get to see."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.config import (
    BROKER_SETTINGS,
    TOPIC_SETTINGS,
    BrokerConfig,
    Setting,
    TopicConfig,
    check_dynamic_broker,
    read_toml,
)
from tidelog.config.kinds import LONG_MAX, Raw
from tidelog.errors import ErrorCode, InvalidConfig

ALL_SETTINGS = [*TOPIC_SETTINGS.values(), *BROKER_SETTINGS.values()]


def refusal(values: dict[str, Raw]) -> str:
    with pytest.raises(InvalidConfig) as caught:
        BrokerConfig.parse(values)
    assert caught.value.code is ErrorCode.INVALID_CONFIG
    return caught.value.message


def topic(overrides: dict[str, str], **broker: Raw) -> TopicConfig:
    return TopicConfig.resolve(
        overrides, BrokerConfig.parse({k.replace("_", "."): v for k, v in broker.items()})
    )


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


@pytest.mark.parametrize("setting", ALL_SETTINGS, ids=lambda setting: setting.name)
def test_every_default_is_a_value_one_could_give(setting: Setting) -> None:
    text = setting.default_text
    if text is None:
        assert setting.unset, "people must learn what happens while nothing is set"
    else:
        assert setting.parse(text) == setting.default


@pytest.mark.parametrize("setting", ALL_SETTINGS, ids=lambda setting: setting.name)
def test_every_setting_is_one_sentence(setting: Setting) -> None:
    assert setting.doc[0].isupper()
    assert setting.doc.endswith(".")


@pytest.mark.parametrize("setting", TOPIC_SETTINGS.values(), ids=lambda setting: setting.name)
def test_broker_wide_defaults_agree_with_the_topics_own(setting: Setting) -> None:
    # Which replicas are slowed down is a matter of a topic's own partitions; the mode is fixed at its
    # creation; fewer copies than promised are for a topic that says so itself.
    own = (".throttled.replicas", "replication.mode", "replication.degrade.after.ms")
    assert setting.synonyms or setting.name.endswith(own)
    for position, synonym in enumerate(setting.synonyms):
        assert synonym.name in BROKER_SETTINGS
        # describe.py relies on it: only the first of a chain can change on a running broker.
        assert BROKER_SETTINGS[synonym.name].dynamic == (position == 0)
    if setting.synonyms:
        assert BrokerConfig.parse({}).topic_defaults[setting.attribute] == setting.default


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


@pytest.mark.parametrize("spelling", ["true", "TRUE", " True ", True])
def test_spellings_of_true(spelling: Raw) -> None:
    assert BrokerConfig.parse({"log.preallocate": spelling}).log_preallocate is True


@pytest.mark.parametrize("value", ["yes", "1", "", 1, "tru"])
def test_no_other_word_is_a_boolean(value: Raw) -> None:
    assert "true or false" in refusal({"log.preallocate": value})


@pytest.mark.parametrize(
    "value", ["1_000", "0x10", "1e3", "10 MB", "", "-2", "٣", True, 4.0, ["4"], "9" * 400, str(2**63)]
)
def test_what_is_no_whole_number_in_range_is_refused(value: Raw) -> None:
    message = refusal({"log.retention.bytes": value})
    assert message.startswith("log.retention.bytes=")
    assert message.endswith("it must be a whole number of at least -1 (-1 for no limit).")
    assert len(message) < 200


@given(st.integers(min_value=-1, max_value=LONG_MAX))
def test_whole_numbers_survive_the_round_trip(value: int) -> None:
    setting = TOPIC_SETTINGS["retention.ms"]
    assert setting.parse(str(value)) == setting.parse(value) == value
    assert setting.format(value) == str(value)


@settings(max_examples=25)
@given(st.one_of(st.text(), st.integers(), st.floats(), st.booleans(), st.lists(st.text())))
@pytest.mark.parametrize("setting", ALL_SETTINGS, ids=lambda setting: setting.name)
def test_any_value_is_either_refused_with_a_reason_or_kept_exactly(setting: Setting, value: Raw) -> None:
    try:
        parsed = setting.parse(value)
    except InvalidConfig as refused:
        assert refused.message.startswith(setting.name)
        assert refused.message.isprintable()
    else:
        text = setting.format(parsed)
        assert text is not None
        assert setting.parse(text) == parsed


@pytest.mark.parametrize("value", ["nan", "inf", "1.01", "-0.1", "half", "", True, float("nan")])
def test_ratios_stay_between_zero_and_one(value: Raw) -> None:
    assert "a number from 0 to 1" in refusal({"log.cleaner.min.cleanable.ratio": value})


def test_cleanup_policy_takes_both_in_any_order() -> None:
    assert topic({"cleanup.policy": "delete, compact"}).cleanup_policy == {"delete", "compact"}
    assert topic({"cleanup.policy": "compact"}).compacts
    assert not topic({"cleanup.policy": "compact"}).deletes
    assert "one or more of compact, delete" in refusal({"log.cleanup.policy": "delete,shrink"})
    assert "one or more of compact, delete" in refusal({"log.cleanup.policy": ""})


def test_a_mode_that_does_not_exist_is_refused() -> None:
    assert "isr, primary-backup, quorum" in refusal({"default.replication.mode": "raft"})


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


TOML = """
node.id = 3
"log.segment.bytes" = 4096
listeners = ["PLAINTEXT://127.0.0.1:0"]

[log]
retention.hours = "2"
cleanup.policy = ["compact", "delete"]

[log.cleaner]
min.cleanable.ratio = 0.25
enable = false
"""


def test_toml_tables_dotted_and_quoted_names_mean_the_same() -> None:
    broker = BrokerConfig.load(TOML)
    assert broker.node_id == 3
    assert broker.log_segment_bytes == 4096
    assert broker.log_retention_hours == 2
    assert broker.log_cleanup_policy == {"compact", "delete"}
    assert broker.log_cleaner_min_cleanable_ratio == 0.25
    assert broker.log_cleaner_enable is False
    assert broker.static_values["log.cleanup.policy"] == "compact,delete"


def test_the_command_line_wins_over_the_file_also_by_an_alias() -> None:
    broker = BrokerConfig.load(TOML, {"broker.id": "9", "log.segment.bytes": "1024"})
    assert (broker.node_id, broker.log_segment_bytes) == (9, 1024)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("node.id = ", "not valid TOML"),
        ("max.connections = 1\nmax.connections.per.ip = 2", "put both in quotes"),
        ("log.dir = 'a'\n[log]\npreallocate = true", "names with the same beginning"),
        ('node.id = 1\n"node.id" = 2', "node.id is set twice"),
        ("node.id = 2020-01-01", "node.id is refused"),
        ("listeners = [1, 2]", "listeners is refused"),
        ("[log.segment]\nbits = 3", "Unknown broker setting log.segment.bits"),
    ],
)
def test_bad_files_are_refused_in_words(text: str, words: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        BrokerConfig.load(text)
    assert words in caught.value.message


def test_quoted_names_keep_apart_what_bare_ones_cannot() -> None:
    values = read_toml('"max.connections" = 1\n"max.connections.per.ip" = 2')
    assert values == {"max.connections": 1, "max.connections.per.ip": 2}


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
