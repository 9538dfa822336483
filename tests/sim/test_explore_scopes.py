"""All interleavings of small worlds keep every promise, as deep as a test run can afford."""

import pytest

from tidelog.sim.explore import SCOPES

# Some seconds of processor time each. Where the processor is shared, that can take minutes.
pytestmark = pytest.mark.timeout(600)

# Small enough for every state within their budgets.
WHOLE = frozenset({"modes"})
# Less than `tidelog sim --explore` does, to the depth that takes seconds. With the rules that they are about
# taken out, "forget" and "repair-again" need 4 steps, "repair" 5 and "proposals" 9; test_explore_mutations.py
# goes that far.
DEPTHS = {"proposals": 6, "forget": 4, "removed-logs": 4, "repair": 4, "repair-again": 3}


@pytest.mark.parametrize("name", SCOPES)
def test_no_state_breaks_a_promise(name: str) -> None:
    found = SCOPES[name].search(depth_max=DEPTHS.get(name))
    assert not found.problem, found.story()
    assert found.complete or name not in WHOLE
