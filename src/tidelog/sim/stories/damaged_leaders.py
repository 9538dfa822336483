"""Leaders with damaged records, and the replicas that can take over from them."""

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


STORIES = (eligible_follower_takes_over,)
