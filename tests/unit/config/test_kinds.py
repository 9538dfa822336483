"""Spellings and ranges of values."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.config import (
    TOPIC_SETTINGS,
    BrokerConfig,
    Setting,
)
from tidelog.config.kinds import LONG_MAX, Raw
from tidelog.errors import InvalidConfig
from unit.config.readings import ALL_SETTINGS, refusal, topic
from unit.versions import FEW


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


@settings(max_examples=5 if FEW else 25)
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
    assert topic({"cleanup.policy": ""}).cleanup_policy == frozenset()


def test_a_mode_that_does_not_exist_is_refused() -> None:
    assert "isr, primary-backup, quorum" in refusal({"default.replication.mode": "raft"})
