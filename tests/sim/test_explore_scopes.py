"""All interleavings of small worlds keep every promise, as deep as a test run can afford."""

import pytest

from tidelog.sim.explore import SCOPES

# Small enough for every state within their budgets.
WHOLE = frozenset({"modes"})


@pytest.mark.parametrize("name", SCOPES)
def test_no_state_breaks_a_promise(name: str) -> None:
    found = SCOPES[name].search()
    assert not found.problem, found.story()
    assert found.complete or name not in WHOLE
