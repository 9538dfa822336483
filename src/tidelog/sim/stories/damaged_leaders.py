"""Leaders with damaged records, and the replicas that can take over from them."""

from typing import Any

from tidelog.controller.messages import OfflineAsk
from tidelog.errors import ErrorCode
from tidelog.sim.story import Story
from tidelog.sim.telling import expect

CHECKPOINTED_MS = 3500


def eligible_follower_takes_over() -> Story:
    """A leads alone, with fewer members than the minimum, and one of its records is damaged. The record was
    not committed. C is eligible: it holds everything that was. It cannot become a member, because it cannot
    fetch the damaged record. A steps aside for C without an operator.
    """
    story = Story(min_insync_replicas="2", segment_bytes="200")
    expect(story.write(), ErrorCode.NONE)
    story.kill("BC")
    story.until(lambda: story.in_sync() == "A", "the departure of B and C")
    for _ in range(4):
        expect(story.write(acks=1), ErrorCode.NONE)
    story.run(CHECKPOINTED_MS)
    story.kill("A")
    story.flip_bit("A", segment=1)
    story.start("A")
    story.until(lambda: story.leader() == "A", "the return of A")
    story.start("BC")
    story.until(story.all_in_sync, "the return of all")
    expect(story.leader(), "C")
    expect(story.write(), ErrorCode.NONE)
    return story.end()


def last_members_do_not_both_step_aside() -> Story:
    """B and C find damaged records. Before the controllers hear of it, the leader A is gone, and B and C are
    the last members. They do not both go offline: one of them leads with what is intact while the other one
    fetches what it lacks.
    """
    story = Story(min_insync_replicas="2", segment_bytes="200")
    for _ in range(6):
        expect(story.write(), ErrorCode.NONE)
    story.run(CHECKPOINTED_MS)
    story.kill("BC")
    story.until(lambda: story.in_sync() == "A", "the departure of B and C")
    story.flip_bit("B", segment=1)
    story.flip_bit("C")
    story.network.withheld = _is_report
    story.start("BC")
    story.until(story.all_in_sync, "the return of B and C")
    damage = [story.driver(letter).damage for letter in "BC"]
    story.until(lambda: all(each.offset is not None for each in damage), "the discovery of both", 20_000)
    story.tell("B and C know of their damage, the controllers do not")
    story.kill("A")
    story.until(lambda: story.in_sync() == "BC", "the departure of A")
    story.cut("BC", "XYZ")
    story.until(lambda: story.leader() == "nobody", "the end of both sessions")
    story.network.withheld = None
    story.heal()
    story.until(lambda: story.leader() in {"B", "C"}, "a leader without A", 8000)
    story.run(1000)
    story.start("A")
    story.until(story.all_in_sync, "the return of all", 8000)
    expect(story.write(at=story.leader()), ErrorCode.NONE)
    return story.end()


def _is_report(sender: int, receiver: int, message: Any) -> bool:
    return isinstance(getattr(message, "ask", None), OfflineAsk)


STORIES = (eligible_follower_takes_over, last_members_do_not_both_step_aside)
