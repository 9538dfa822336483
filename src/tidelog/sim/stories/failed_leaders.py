"""Leaders whose disks fail writes: they still serve reads, and their high watermarks still advance."""

from errno import EIO
from typing import Any

from tidelog.broker.node.ports import Answered, Asked
from tidelog.controller.messages import InSyncAsk, OfflineAsk
from tidelog.errors import ErrorCode
from tidelog.sim.story import Story
from tidelog.sim.telling import expect


def proposal_under_way() -> Story:
    """A, alone in its set, proposes that C joins. The proposal is accepted, and A has not heard of it when
    its disk fails a write. B catches up, and A cannot propose it, because B is down as far as A knows. A does
    not commit what C lacks: C leads next.
    """
    story = Story(min_insync_replicas="1")
    expect(story.write(), ErrorCode.NONE)
    story.kill("BC")
    story.until(lambda: story.in_sync() == "A", "the departure of both")
    story.network.withheld = lambda sender, receiver, message: _asks(message, InSyncAsk)
    story.start("C")
    story.until(lambda: story.driver("A").replica.proposals.pending is not None, "the proposal")
    _deafen(story)
    story.until(lambda: story.in_sync() == "AC", "the proposal's acceptance")
    story.cut("C", "A")
    waiting = story.send()
    story.run(100)
    story.tell("the disk of A fails each write")
    story.machine("A").disk.failing["write"] = EIO
    expect(story.write(at="A"), ErrorCode.KAFKA_STORAGE_ERROR)
    expect(story.await_answer(waiting), ErrorCode.KAFKA_STORAGE_ERROR)
    story.start("B")
    story.until(lambda: story.has_opened("B") and story.driver("B").log.end_offset == 2, "that B has r2")
    story.run(1000)
    expect(story.read(at="A"), ["r1"])
    story.tell("A gets the metadata, and reports its log")
    story.network.withheld = None
    story.network.release()
    story.heal()
    story.until(lambda: story.leader() == "C", "an election")
    expect(story.read(), ["r1"])
    story.kill("A")
    story.repair_disk("A")
    story.start("A")
    return story.end_whole("A")


def _deafen(story: Story) -> None:
    story.tell("A proposes that C joins; it gets answers from the controllers, but no metadata")
    controllers, leader = story.nodes("XYZ"), story.nodes("A")

    def is_late(sender: int, receiver: int, message: Any) -> bool:
        is_news = sender in controllers and receiver in leader and not isinstance(message, Answered)
        return is_news or (sender in leader and _asks(message, OfflineAsk))

    story.network.withheld = is_late


def _asks(message: Any, kind: type) -> bool:
    return isinstance(message, Asked) and isinstance(message.ask, kind)


STORIES = (proposal_under_way,)
