"""Settings from the command line and from files."""

from pathlib import Path

import pytest

from tidelog.cli.failure import CommandFailed
from tidelog.cli.settings import (
    merge_broker_settings,
    parse_assignments,
    read_broker_settings,
    render_settings,
)
from tidelog.errors import InvalidConfig


def test_the_value_of_an_assignment_may_contain_equals_signs() -> None:
    assert parse_assignments(["a=1", "b = x=y ", "a=2"]) == {"a": "2", "b": "x=y"}


@pytest.mark.parametrize("text", ["retention.ms", "=5", " =5", ""])
def test_an_assignment_without_name_or_equals_is_refused(text: str) -> None:
    with pytest.raises(CommandFailed, match="takes KEY=VALUE"):
        parse_assignments([text])


def test_rendered_settings_read_back_the_same(tmp_path: Path) -> None:
    values = {
        "node.id": 1,
        "max.connections": 5,
        "max.connections.per.ip": 2,  # continues the name above: bare names could not hold both
        "listeners": 'PLAINTEXT://"quoted"\\\n\x7f→',
        "auto.create.topics.enable": False,
        "log.cleaner.min.cleanable.ratio": 0.9,
        "log.cleanup.policy": ["compact", "delete"],
    }
    path = tmp_path / "broker.toml"
    path.write_text(render_settings(values, ["A heading."]), encoding="utf-8")
    assert read_broker_settings(path) == values


def test_a_later_source_wins_also_under_another_name_of_the_setting() -> None:
    assert merge_broker_settings({"log.dir": "a", "node.id": 1}, {"log.dirs": "b"}) == {
        "log.dir": "b",
        "node.id": 1,
    }


def test_an_unknown_broker_setting_is_refused_by_name() -> None:
    with pytest.raises(InvalidConfig, match=r"num\.partitoins"):
        merge_broker_settings({"num.partitoins": 3})


@pytest.mark.parametrize(
    ("text", "reason"),
    [("node.id 1", "not valid TOML"), ('"num.partitoins" = 3', "Did you mean num.partitions")],
)
def test_a_file_with_a_mistake_is_named(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "broker.toml"
    path.write_text(text)
    with pytest.raises(CommandFailed, match=reason) as failure:
        read_broker_settings(path)
    assert str(failure.value).startswith(f"{path}: ")


def test_an_unreadable_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match=r"nowhere\.toml cannot be read"):
        read_broker_settings(tmp_path / "nowhere.toml")
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(CommandFailed, match="not UTF-8"):
        read_broker_settings(binary)


def test_settings_of_single_listeners_keep_their_listener() -> None:
    first = {"ssl.client.auth": "none", "listener.name.inside.ssl.client.auth": "required"}
    merged = merge_broker_settings(first, {"listener.name.inside.ssl.client.auth": "requested"})
    assert merged == {"ssl.client.auth": "none", "listener.name.inside.ssl.client.auth": "requested"}
