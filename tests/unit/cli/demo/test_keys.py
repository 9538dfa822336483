"""Keys make actions."""

import pytest

from tidelog.cli.demo.keys import Keys


def test_an_action_needs_a_broker() -> None:
    keys = Keys(3)
    assert keys.press("k") is None and keys.pending == "kill"
    assert keys.press("7") is None and keys.pending == "kill"
    assert keys.press("2") == ("kill", "2") and keys.pending == ""
    assert keys.press("2") is None


def test_the_last_action_counts_and_l_is_the_leader() -> None:
    keys = Keys(3)
    keys.press("k")
    keys.press("c")
    assert keys.press("l") == ("cut", "leader")
    assert keys.press("h") == ("heal", "")


@pytest.mark.parametrize("key", ["q", "\x03"])
def test_quitting(key: str) -> None:
    keys = Keys(3)
    keys.press(key)
    assert keys.is_quit
