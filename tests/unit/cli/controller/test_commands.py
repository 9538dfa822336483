"""What is left of the controllers when one is removed."""

import pytest

from tidelog.cli.controller.admin import ACTIVE, ALIVE_MS, OBSERVER, VOTER, Node, Quorum
from tidelog.cli.controller.commands import _health, _require_majority
from tidelog.cli.failure import CommandFailed


def quorum(*voters: tuple[int, bool]) -> Quorum:
    nodes = [
        Node(number, ACTIVE if number == 1 else VOTER, None, None, 10, 0, 0 if alive else ALIVE_MS + 1)
        for number, alive in voters
    ]
    return Quorum(7, 10, [*nodes, Node(9, OBSERVER, None, None, 10, 0, 0)])


def test_a_removal_that_leaves_no_majority_is_refused() -> None:
    rest = quorum((1, True), (2, False))
    assert _health(rest) == "2 voters, epoch 7: no majority answers, so nothing can be changed."
    with pytest.raises(CommandFailed, match=r"2 does not answer .* no majority\. .*remove it instead"):
        _require_majority(rest)


def test_a_removal_that_leaves_a_majority_is_not() -> None:
    for rest in (quorum((1, True), (3, True)), quorum((1, True)), quorum((1, True), (2, True), (3, False))):
        _require_majority(rest)
        assert "tolerates no failure" in _health(rest)
