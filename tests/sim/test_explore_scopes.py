"""All interleavings of small worlds keep every promise, as deep as a test run can afford."""

import pytest

from tidelog.sim.explore import SCOPES

# Half a minute of processor time each at most. Where the processor is shared, that can take minutes.
pytestmark = pytest.mark.timeout(600)

# Small enough for every state within their budgets.
WHOLE = frozenset({"modes"})
# Less than `tidelog sim --explore` does. With the rule that it is about taken out, "forget" needs 4 steps.
DEPTHS = {"forget": 5}


@pytest.mark.parametrize("name", SCOPES)
def test_no_state_breaks_a_promise(name: str) -> None:
    found = SCOPES[name].search(depth_max=DEPTHS.get(name))
    assert not found.problem, found.story()
    assert found.complete or name not in WHOLE
