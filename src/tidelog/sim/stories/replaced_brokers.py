"""A second process registers with the id of a broker that lives and is cut off: mode ``isr``,
``min.insync.replicas=1``.
"""

from uuid import UUID

from tidelog.broker.node.ports import Asked
from tidelog.controller.messages import HeartbeatAsk, RegisterAsk
from tidelog.errors import ErrorCode
from tidelog.sim.stories.registrations import LateStory
from tidelog.sim.telling import expect

EVERYTHING = 1 << 60  # an offset of the metadata log
NEW_PROCESS, NEW_DISK = UUID(int=1), UUID(int=2)


class ReplacedStory(LateStory):
    def register_replacement(self, letter: str) -> None:
        """Another machine with the same id and an empty disk asks the active controller."""
        active = self.cluster.active()
        if active is None or active.node is None or active.services is None:
            return
        node, (number,), epoch = active.node, self.nodes(letter), self.broker(letter).broker_epoch
        ask = RegisterAsk(
            number, NEW_PROCESS, f"other{number}", 9092, None, False, NEW_DISK, known_epoch=epoch
        )
        active.services.run(lambda: node.receive(Asked(number, ask)))
        self.run(200)

    def is_replaced(self, letter: str) -> bool:
        return self.broker(letter).incarnation == NEW_PROCESS

    def beat_as_replacement(self, letter: str) -> None:
        """A heartbeat of that machine, which knows all metadata."""
        active, (number,) = self.cluster.active(), self.nodes(letter)
        if active is None or active.node is None or active.services is None:
            return
        node, ask = active.node, HeartbeatAsk(number, self.broker(letter).broker_epoch, EVERYTHING, number=1)
        active.services.run(lambda: node.receive(Asked(number, ask)))
        self.run(200)


def registers_while_the_first_one_leads() -> ReplacedStory:
    """A is alone in its set, and all of its connections close. It is fenced at once, but it lives, and
    acknowledges records. A replacement with the same id and an empty disk starts elsewhere. It is refused
    until the session of A is over, and so is an unclean election.
    """
    story = ReplacedStory(min_insync_replicas="1", unclean_leader_election_enable="true")
    expect(story.write(), ErrorCode.NONE)
    story.cut("A", "BC")
    waiting = story.send()
    story.until(lambda: story.in_sync() == "A", "the departure of both")
    expect(story.await_answer(waiting), ErrorCode.NONE)
    story.cut_noticed("A", "BCXYZ")
    story.until(lambda: story.leader() == "nobody", "the end of the leadership")
    story.tell("a replacement of A registers, with an empty disk")
    story.register_replacement("A")
    expect(story.leader(), "nobody")
    expect(story.is_replaced("A"), False)
    expect(story.write(at="A"), ErrorCode.NONE)
    story.until(lambda: story.leader() != "nobody", "an election")
    story.run(50)
    expect(story.write(), ErrorCode.NONE)
    for _ in range(4):
        expect(story.write(at="A", acks=1), ErrorCode.NOT_LEADER_OR_FOLLOWER)
        expect(story.write(at="A"), ErrorCode.NOT_LEADER_OR_FOLLOWER)
        story.run(200)
    story.heal()
    return story.end_whole("A")


def is_elected_while_the_first_one_is_followed() -> ReplacedStory:
    """All brokers are cut off from the controllers, and go on: B and C follow A. A replacement of A with an
    empty disk starts elsewhere, when A's session is over, and is elected uncleanly. A does not count its own
    id as a possible successor.
    """
    story = ReplacedStory(min_insync_replicas="1", unclean_leader_election_enable="true")
    expect(story.write(), ErrorCode.NONE)
    story.run(300)
    story.cut("ABC", "XYZ")
    story.run(4000)
    expect(story.write(at="A"), ErrorCode.NONE)
    story.tell("a replacement of A registers, with an empty disk")
    story.register_replacement("A")
    expect(story.is_replaced("A"), True)
    story.beat_as_replacement("A")
    led = story.leader() != "nobody"
    expect(led and story.write(at="A") is ErrorCode.NONE, False)
    return story


STORIES = (registers_while_the_first_one_leads,)
