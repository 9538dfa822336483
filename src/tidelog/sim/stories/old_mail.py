"""Old messages in the sockets of a leader that was frozen: mode ``isr``, three replicas,
``min.insync.replicas=2``.
"""

from tidelog.errors import ErrorCode
from tidelog.sim.story import Story
from tidelog.sim.telling import expect


def frozen_leader_is_not_followed_still() -> Story:
    """A is frozen and replaced. When it resumes, it finds old fetches of B and C in its sockets, and after
    them a write with acks=1: it refuses the write, which would be lost.
    """
    story = Story()
    expect(story.write(), ErrorCode.NONE)
    story.run(500)
    story.freeze("A")
    story.until(lambda: story.leader() == "B", "an election")
    story.run(50)
    expect(story.write(), ErrorCode.NONE)
    waiting = story.send(acks=1, at="A")
    story.run(50)
    story.thaw("A")
    expect(story.await_answer(waiting), ErrorCode.NOT_LEADER_OR_FOLLOWER)
    return story.end_whole("A")


STORIES = (frozen_leader_is_not_followed_still,)
