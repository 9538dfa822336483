"""Losses that a random case of the simulator showed (tests/sim/planner_worlds.py)."""

import pytest

from tidelog.config.modes import ISR
from tidelog.planner.faults import Faults, Placement
from tidelog.planner.losses import UNCLEAN, loss
from tidelog.planner.promises import Terms


@pytest.mark.parametrize(("unclean", "said"), [(True, UNCLEAN), (False, "")])
def test_sessions_end_with_the_controllers(unclean: bool, said: str) -> None:
    """Seed 1013304: broker 2 was left out, then 1 was cut off. Broker 3 lived and led alone."""
    terms = Terms(ISR, 2, min_in_sync=1, unclean=unclean)
    where = Placement((3, 2), (1, 2, 3))
    assert loss(terms, where, Faults(cut_off=frozenset({1, 2}))) == said
    assert loss(terms, where, Faults(cut_off=frozenset({1}))) == ""
