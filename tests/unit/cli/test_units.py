"""Times and sizes as people write them."""

import pytest

from tidelog.cli.failure import CommandFailed
from tidelog.cli.units import Duration, Size, with_units


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("2m", 120), ("1.5h", 5400), ("250ms", 0.25), ("0", 0)]
)
def test_durations(text: str, seconds: float) -> None:
    assert Duration()(text) == seconds


@pytest.mark.parametrize(("text", "size"), [("7", 7), ("1KB", 1024), ("1mb", 1 << 20), ("1.5GB", 3 << 29)])
def test_sizes(text: str, size: int) -> None:
    assert Size()(text) == size


@pytest.mark.parametrize("text", ["1x", "h", "-1s", "1MB", ""])
def test_no_duration(text: str) -> None:
    with pytest.raises(CommandFailed, match="ms, s, m, h and d"):
        Duration()(text)


@pytest.mark.parametrize("text", ["1x", "MB", "1h", "-1"])
def test_no_size(text: str) -> None:
    with pytest.raises(CommandFailed, match="B, KB, MB, GB and TB"):
        Size()(text)


def test_settings_take_the_unit_of_their_name() -> None:
    given = {
        "retention.ms": "1h", "segment.bytes": "1MB", "retention.bytes": "-1", "cleanup.policy": "compact",
        "flush.messages": "1",
    }  # fmt: skip
    assert with_units(given) == given | {"retention.ms": "3600000", "segment.bytes": "1048576"}


def test_a_size_is_no_time() -> None:
    with pytest.raises(CommandFailed, match=r"'1MB' is not a value of retention\.ms"):
        with_units({"retention.ms": "1MB"})


@pytest.mark.parametrize("text", ["9" * 30, "9" * 400 + "MB", "8388608TB"])
def test_what_no_setting_can_hold(text: str) -> None:
    with pytest.raises(CommandFailed, match="is too large"):
        Size()(text)


def test_a_time_that_no_setting_can_hold() -> None:
    with pytest.raises(CommandFailed, match=r"is too large for a value of retention\.ms"):
        with_units({"retention.ms": "9" * 400 + "h"})
