"""What a replication mode means for a topic's settings: refusals, warnings, defaults of its own."""

import pytest

from tidelog.config import (
    MODES,
    BrokerConfig,
    ConfigSource,
    TopicConfig,
    check_topic_overrides,
    describe_topic,
    modes,
)
from tidelog.config.topic import TOPIC_SETTINGS, mode_of
from tidelog.errors import InvalidConfig


@pytest.mark.parametrize(
    ("mode", "more", "replicas", "reason"),
    [
        ("quorum", {}, 1, "refused for 1 replica: writes need a majority, which is all of them"),
        ("quorum", {}, 2, "refused for 2 replicas: writes need a majority, which is all of them"),
        (
            "quorum",
            {"min.insync.replicas": "2"},
            3,
            "no meaning in mode quorum: a write is acknowledged",
        ),
        ("quorum", {"unclean.leader.election.enable": "true"}, 3, "only a replica with every acknowledged"),
        ("primary-backup", {"unclean.leader.election.enable": "false"}, 2, "there is no leader election"),
        ("primary-backup", {"min.insync.replicas": "3"}, 2, "at most the number of the topic's replicas, 2"),
        ("isr", {"min.insync.replicas": "4"}, 3, "at most the number of the topic's replicas, 3"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_reason(
    mode: str, more: dict[str, str], replicas: int, reason: str
) -> None:
    with pytest.raises(InvalidConfig) as refusal:
        check_topic_overrides({"replication.mode": mode, **more}, replicas)
    assert reason in refusal.value.message


@pytest.mark.parametrize(
    ("more", "replicas", "warning"),
    [
        (
            {},
            4,
            "tolerates no more failures than with 3: a write waits for 3 copies instead of 2",
        ),
        ({}, 6, "2 may be down either way"),
        (
            {"flush.messages": "1000"},
            3,
            "flush.messages=1000 in mode quorum: an acknowledged record is not always on disk",
        ),
    ],
)
def test_what_fits_but_costs_is_told(more: dict[str, str], replicas: int, warning: str) -> None:
    (said,) = check_topic_overrides({"replication.mode": "quorum", **more}, replicas)
    assert warning in said


@pytest.mark.parametrize("replicas", [3, 5, 7, None])
def test_odd_quorums_pass_in_silence(replicas: int | None) -> None:
    assert check_topic_overrides({"replication.mode": "quorum", "flush.messages": "1"}, replicas) == []


def test_a_mode_s_own_default_is_stronger_than_a_broker_wide_setting_and_weaker_than_the_topic_s() -> None:
    broker = BrokerConfig.parse({"log.flush.interval.messages": 500})
    quorum = {"replication.mode": "quorum"}
    assert TopicConfig.resolve({}, broker).flush_messages == 500
    assert TopicConfig.resolve(quorum, broker).flush_messages == 1
    assert TopicConfig.resolve(quorum | {"flush.messages": "9"}, broker).flush_messages == 9


def test_what_the_mode_decides_is_described_as_it_is() -> None:
    broker = BrokerConfig.parse({"log.flush.interval.messages": 500})

    def flush(**mode: str) -> tuple[str | None, ConfigSource, list[str]]:
        overrides = {"replication.mode": mode["mode"]}
        (found,) = [each for each in describe_topic(overrides, broker) if each.name == "flush.messages"]
        return found.value, found.source, [each.name for each in found.synonyms]

    assert flush(mode="quorum") == ("1", ConfigSource.DEFAULT_CONFIG, [])
    value, source, synonyms = flush(mode="isr")
    assert (value, source) == ("500", ConfigSource.STATIC_BROKER_CONFIG)
    assert set(synonyms) == {"log.flush.interval.messages"}


def test_no_broker_setting_changes_the_mode_of_a_topic() -> None:
    broker = BrokerConfig.parse({"default.replication.mode": "quorum"})
    assert TopicConfig.resolve({}, broker).replication_mode == "isr"
    assert mode_of({}) == "isr"


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_speaks_of_settings_that_exist(mode: str) -> None:
    for table in (modes.DEFAULTS, modes.WITHOUT_MEANING):
        assert set(table[mode]) <= set(TOPIC_SETTINGS)


@pytest.mark.parametrize(
    ("mode", "minimum", "replicas", "copies"),
    [
        ("isr", 2, 3, 2),
        ("isr", 2, 1, 1),
        ("primary-backup", 1, 2, 1),
        ("quorum", 2, 3, 2),
        ("quorum", 2, 5, 3),
    ],
)
def test_copies_of_an_acknowledged_write(mode: str, minimum: int, replicas: int, copies: int) -> None:
    assert modes.COPIES[mode](minimum, replicas) == copies
