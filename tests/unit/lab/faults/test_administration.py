"""Moves and settings, before the cluster is asked."""

import pytest

from tidelog.lab.faults.administration import moved, parse_settings
from tidelog.lab.faults.errors import FaultError


def test_replicas_move_to_brokers_without_one() -> None:
    assert moved((1, 2), [1], (1, 2, 3)) == [3, 2]
    assert moved((1, 2), [3], (1, 2, 3)) == [1, 2]
    assert moved((1, 2, 3), [2], (1, 2, 3)) is None
    assert moved((1, 2), [1, 2], (1, 2, 3, 4)) == [3, 4]


def test_settings_are_read_from_one_line() -> None:
    assert parse_settings("a.b=1, c=x=y") == {"a.b": "1", "c": "x=y"}
    with pytest.raises(FaultError, match="'c' is no setting; write name=value"):
        parse_settings("a=1,c")
    with pytest.raises(FaultError, match="'' is no setting"):
        parse_settings("")
