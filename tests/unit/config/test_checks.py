"""Checks of overrides: refusals and warnings."""

import pytest

from tidelog.config import (
    check_topic_overrides,
)
from tidelog.config.checks import refuse_without_meaning
from tidelog.errors import InvalidConfig


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
