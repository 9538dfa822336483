"""What a browser asks for becomes a change, or a sentence."""

from typing import Any

import pytest

from tidelog.page.changes.wishes import (
    DEFAULT,
    AlterTopic,
    CreateTopic,
    DeleteTopic,
    Drain,
    Move,
    Produce,
    Promote,
    ResetOffsets,
    Unclear,
    change_of,
)


@pytest.mark.parametrize(
    ("said", "wish"),
    [
        (
            {"kind": "create-topic", "name": "t", "partitions": None, "replicas": 3, "settings": {"a": "b"}},
            CreateTopic("t", DEFAULT, 3, {"a": "b"}),
        ),
        (
            {"kind": "alter-topic", "name": "t", "settings": {"a": None}},
            AlterTopic("t", {"a": None}, DEFAULT),
        ),
        ({"kind": "delete-topic", "name": "t", "typed": "t"}, DeleteTopic("t")),
        ({"kind": "move", "name": "t", "partition": 0, "replicas": [2, 1]}, Move("t", 0, (2, 1))),
        ({"kind": "promote", "name": "t", "partition": 4, "to": 2}, Promote("t", 4, 2)),
        ({"kind": "drain", "broker": 2, "undo": True}, Drain(2, True)),
        ({"kind": "reset-offsets", "group": "g", "to": "@170"}, ResetOffsets("g", "", "@170")),
        (
            {"kind": "produce", "name": "t", "key": None, "value": "", "headers": [["a", "b"]]},
            Produce("t", DEFAULT, None, "", (("a", "b"),)),
        ),
    ],
)
def test_what_can_be_asked_for(said: dict[str, Any], wish: object) -> None:
    assert change_of(said) == wish


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"kind": "format-disks"},
        {"kind": ["move"]},
        {"kind": "create-topic", "name": ""},
        {"kind": "create-topic", "name": "x" * 250},
        {"kind": "create-topic", "name": 7},
        {"kind": "create-topic", "name": "\ud800"},
        {"kind": "create-topic", "name": "t", "partitions": 0},
        {"kind": "create-topic", "name": "t", "partitions": "3"},
        {"kind": "create-topic", "name": "t", "partitions": True},
        {"kind": "create-topic", "name": "t", "settings": [1]},
        {"kind": "create-topic", "name": "t", "settings": {"a": 1}},
        {"kind": "create-topic", "name": "t", "settings": {"": "1"}},
        {"kind": "alter-topic", "name": "t"},
        {"kind": "delete-topic", "name": "t", "typed": "T"},
        {"kind": "delete-topic", "name": "t"},
        {"kind": "move", "name": "t", "partition": 0, "replicas": []},
        {"kind": "move", "name": "t", "partition": 0, "replicas": [1, 1]},
        {"kind": "move", "name": "t", "partition": 0, "replicas": [None]},
        {"kind": "move", "name": "t", "partition": -1, "replicas": [1]},
        {"kind": "move", "name": "t", "partition": 1 << 31, "replicas": [1]},
        {"kind": "drain", "broker": None},
        {"kind": "reset-offsets", "group": "g", "to": "yesterday"},
        {"kind": "reset-offsets", "group": "g", "to": "-5"},
        {"kind": "reset-offsets", "group": "g", "to": "9" * 30},
        {"kind": "produce", "name": "t", "headers": [["a"]]},
        {"kind": "produce", "name": "t", "value": 5},
    ],
)
def test_what_cannot(said: dict[str, Any]) -> None:
    with pytest.raises(Unclear) as refused:
        change_of(said)
    assert str(refused.value).endswith(".")
