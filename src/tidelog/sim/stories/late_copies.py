"""Copies of a proposal that arrive after the topic has another replication mode."""

from typing import Any

from tidelog.broker.node.ports import Answered, Asked
from tidelog.controller.messages import InSyncAsk
from tidelog.errors import ErrorCode
from tidelog.sim.stories.changes import ChangeStory
from tidelog.sim.telling import expect

REPEATED_MS = 1200  # within which a proposal is repeated, and answered


def copy_after_a_change_of_the_mode() -> ChangeStory:
    """A's proposal that C joins is accepted, and then the replicas vote. A has heard of neither, and repeats
    the proposal. The answer does not end it: A acknowledges nothing that C lacks, since C may lead.
    """
    story = ChangeStory(min_insync_replicas="2")
    expect(story.write(), ErrorCode.NONE)
    story.kill("C")
    story.until(lambda: story.in_sync() == "AB", "the departure of C")
    story.network.withheld = lambda sender, receiver, message: _is_proposal(message)
    story.start("C")
    story.until(lambda: story.driver("A").replica.proposals.pending is not None, "the proposal")
    story.tell("A proposes that C joins; A gets answers from the controllers, but no metadata")
    controllers, leader = story.nodes("XYZ"), story.nodes("A")
    story.network.withheld = lambda sender, receiver, message: (
        sender in controllers and receiver in leader and not isinstance(message, Answered)
    )
    story.until(lambda: story.in_sync() == "ABC", "the proposal's acceptance")
    story.cut("C", "A")
    waiting = story.send()
    story.change("quorum")
    story.run(REPEATED_MS)
    expect(story.partition().mode, "quorum")
    expect(waiting.reply, None)
    story.tell("A gets the metadata")
    story.network.withheld = None
    story.network.release()
    story.heal()
    story.await_change("quorum")
    return story.end()


def _is_proposal(message: Any) -> bool:
    return isinstance(message, Asked) and isinstance(message.ask, InSyncAsk)


STORIES = (copy_after_a_change_of_the_mode,)
