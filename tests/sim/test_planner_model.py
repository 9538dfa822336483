"""The planner's model says what the simulator does: at least 2,000 random cases, both ways.

``TIDELOG_TEST_PLANNER_CASES=100000`` runs more of them.
"""

import os

import pytest
from planner_worlds import TOPICS, PlannerWorld, draw, draw_others

CASES = int(os.environ.get("TIDELOG_TEST_PLANNER_CASES", "2000"))
PARTS = 8
USUAL_PARTS = 4  # The rest are unusual clusters.
WORLDS = -(-CASES // (TOPICS * PARTS))  # of each part

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("part", range(PARTS))
def test_what_is_promised_holds_and_what_may_be_lost_can_be(part: int) -> None:
    wrong: list[str] = []
    shown = goes_on = stops = 0
    drawn = draw if part < USUAL_PARTS else draw_others
    for number in range(WORLDS):
        plan = drawn(number * PARTS + part)
        for found in PlannerWorld(plan).run():
            wrong += found.wrong(plan)
            shown += found.must_lose and bool(found.lost)
            goes_on += found.writes
            stops += not found.said.writes and not found.writes
    assert not wrong, "\n".join(wrong)
    # A test without losses and interruptions would show nothing.
    assert shown >= 1
    assert min(goes_on, stops) >= 10


@pytest.mark.parametrize("seed", [1000353, 1000700, 1001968, 1009710, 2004656])
def test_seeds_in_which_they_disagreed(seed: int) -> None:
    """1000353 and 1000700: readers were sent to a member without power or cut off, while others served.
    1001968: brokers that lost their disks were killed first, so others knew that they had ended.
    1009710: the leader of a quorum was replaced before the new one lost its power.
    2004656: readers were sent to a follower that was cut off, and it served them, which is not promised.
    """
    plan = draw(seed)
    wrong = [words for found in PlannerWorld(plan).run() for words in found.wrong(plan)]
    assert not wrong, "\n".join(wrong)
