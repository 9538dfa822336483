"""Readers of an ``isr`` topic while a majority of the controllers has ended: no leader is appointed, and
members of the in-sync set serve what they know to be committed.
"""

from tidelog.errors import ErrorCode
from tidelog.sim.clients.client import LookupCall, Reply
from tidelog.sim.story import TOPIC, Story
from tidelog.sim.telling import STEP_MS, expect


class UndecidedStory(Story):
    def __init__(self, brokers: int = 3, **configs: str) -> None:
        super().__init__(brokers, 1, **configs)
        self.cluster.confirm_deaths()

    def named_to_readers(self, at: str) -> str:
        """The broker that the metadata of ``at`` names to consumers as the leader."""
        return self._named(at, reads=True)

    def named_to_producers(self, at: str) -> str:
        return self._named(at, reads=False)

    def _named(self, at: str, *, reads: bool) -> str:
        heard: list[Reply] = []
        call = LookupCall(self.client.client_id, self.client.next_number(), TOPIC, reads)
        self.client.ask(self.machine(at).node_id, call, heard.append)
        while not heard:
            self.run(STEP_MS)
        [(leader, _)] = heard[0].leaders
        name = self._names.get(leader, "nobody")
        self.tell(f"{at} names {name} to {'consumers' if reads else 'producers'}")
        return name


def leader_ended() -> UndecidedStory:
    """The leader and two of three controllers are killed. Consumers are sent to a member of the in-sync set
    and read everything committed. When a controller is back, a new leader is appointed.
    """
    story = UndecidedStory()
    expect(story.write(), ErrorCode.NONE)
    expect(story.write(), ErrorCode.NONE)
    story.run(500)
    epoch = story.partition().leader_epoch
    story.kill("XYA")
    story.run(500)
    expect(story.named_to_readers("B"), "B")
    expect(story.named_to_producers("B"), "nobody")
    expect(story.read(at="B"), ["r1", "r2"])
    expect(story.write(at="B"), ErrorCode.NOT_LEADER_OR_FOLLOWER)
    story.start("X")
    story.until(lambda: story.is_led_anew(epoch), "the election")
    expect(story.write(), ErrorCode.NONE)
    story.start("YA")
    story.until(story.all_in_sync, "the return of A")
    expect(story.read(), ["r1", "r2", "r4"])
    return story.end()


def leader_left_alone() -> UndecidedStory:
    """The followers and two of three controllers are killed. The leader has no session and acknowledges
    nothing, but serves what is committed. It does not serve the record that only it has.
    """
    story = UndecidedStory()
    expect(story.write(), ErrorCode.NONE)
    story.run(500)
    story.cut("A", "BC")
    unconfirmed = story.send(acks=1)
    story.run(50)
    story.kill("XYBC")
    story.heal()
    story.run(4000)
    expect(unconfirmed.reply is not None, True)
    expect(story.named_to_readers("A"), "A")
    expect(story.named_to_producers("A"), "nobody")
    expect(story.read(at="A"), ["r1"])
    expect(story.write(at="A"), ErrorCode.NOT_LEADER_OR_FOLLOWER)
    story.start("XYBC")
    story.until(story.all_in_sync, "the return of all")
    return story.end()


def leader_cut_off() -> UndecidedStory:
    """The leader is disconnected from all others, which live. It cannot know that there is no successor, so
    it serves no consumers.
    """
    story = UndecidedStory()
    expect(story.write(), ErrorCode.NONE)
    story.run(500)
    epoch = story.partition().leader_epoch
    story.cut("A", "BCXYZ")
    story.until(lambda: story.is_led_anew(epoch), "the election")
    story.run(4000)
    expect(story.named_to_readers("A"), "nobody")
    expect(story.read(at="A"), [])
    expect(story.write(), ErrorCode.NONE)
    story.heal()
    story.until(story.all_in_sync, "the return of A")
    return story.end()


def records_given_up() -> UndecidedStory:
    """An operator gives up a member that was alone in the in-sync set. It hears of that, but not from the new
    leader, which dies with two controllers: consumers do not get the records that were given up.
    """
    story = UndecidedStory(min_insync_replicas="1")
    expect(story.write(), ErrorCode.NONE)
    story.run(500)
    story.kill("BC")
    story.until(lambda: story.in_sync() == "A", "the smaller set")
    expect(story.write(), ErrorCode.NONE)
    story.run(3500)
    story.kill("A")
    story.start("BC")
    story.until(lambda: story.leader() == "nobody", "the end of the leadership")
    story.run(2000)
    story.elect_unclean()
    new, other = story.leader(), "BC".replace(story.leader(), "")
    story.cut("A", "BC")
    story.start("A")
    story.run(500)
    expect(story.driver("A").unclean_epoch, story.partition().unclean_epoch)
    story.heal()
    story.kill("XY" + new)
    story.run(500)
    expect(story.read(at="A"), [])
    expect(story.read(at=other), ["r1"])
    story.start("XY" + new)
    story.until(story.all_in_sync, "the return of all")
    expect(story.read(), ["r1"])
    return story.end()


def decided_before_they_ended() -> UndecidedStory:
    """A, alone in its set, is disconnected, and an operator appoints B. Then two controllers are killed, and
    A learns only that they have ended: B was appointed before, so A acknowledges nothing more.
    """
    story = _alone_in_the_set(UndecidedStory(min_insync_replicas="1"))
    story.cut("A", "BCXYZ")
    story.until(lambda: story.leader() == "nobody", "the end of the leadership")
    story.elect_unclean()
    story.run(500)
    story.heal()
    story.kill("XY")
    for _ in range(3):
        story.run(500)
        expect(story.write(at="A", acks=1), ErrorCode.NOT_LEADER_OR_FOLLOWER)
        expect(story.write(at="A"), ErrorCode.NOT_LEADER_OR_FOLLOWER)
        expect(story.write(at="B"), ErrorCode.NONE)
    story.start("XY")
    return story.end_whole("A")


def ended_before_they_could_decide() -> UndecidedStory:
    """A is alone in its set, and two controllers are killed while it has a session: nobody can be appointed,
    and A goes on.
    """
    story = _alone_in_the_set(UndecidedStory(min_insync_replicas="1"))
    story.kill("XY")
    for _ in range(3):
        story.run(1000)
        expect(story.write(at="A"), ErrorCode.NONE)
    story.start("XY")
    story.heal()
    return story.end_whole("B and C")


def _alone_in_the_set(story: UndecidedStory) -> UndecidedStory:
    expect(story.write(), ErrorCode.NONE)
    story.cut("A", "BC")
    waiting = story.send()
    story.until(lambda: story.in_sync() == "A", "the departure of both")
    expect(story.await_answer(waiting), ErrorCode.NONE)
    return story


STORIES = (
    leader_ended,
    leader_left_alone,
    leader_cut_off,
    records_given_up,
    decided_before_they_ended,
    ended_before_they_could_decide,
)
