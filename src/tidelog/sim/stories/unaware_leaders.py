"""Decisions that leader and followers have not heard of, because they are disconnected: mode ``isr``,
``min.insync.replicas=2``, unclean elections allowed, where nothing else is said.
"""

from itertools import product

from tidelog.controller import leadership
from tidelog.controller.rules import Rulebook
from tidelog.errors import ErrorCode
from tidelog.sim.checkers.batches import entries_between
from tidelog.sim.stories.durability import DurabilityStory
from tidelog.sim.story import TOPIC, Sent, Story
from tidelog.sim.telling import expect

BETWEEN_WRITES_MS = 100
DELAY_MS = 150  # C is always a record or two behind, so it does not join the in-sync set.


def follower_lacks_what_members_hold() -> Story:
    """All brokers are disconnected from the controllers, C last. The controllers make C the leader, which
    does not hear of it and still follows A, with fewer records than the members. A acknowledges only what C
    holds, too, and nothing is lost when C leads.
    """
    story = _with_c_behind()
    before = story.partition().leader_epoch
    story.tell("records are written to A all the time")
    story.cut("AB", "XYZ")
    sent = _write_for(story, 1500)
    story.cut("C", "XYZ")
    while not story.is_led_anew(before):
        sent += _write_for(story, BETWEEN_WRITES_MS)
    expect(story.leader(), "C")
    sent += _write_for(story, 500)
    _tell_ends(story)
    last = story.send(at="A")
    expect(story.await_answer(last), ErrorCode.NONE)
    story.cut("A", "C")
    waiting = story.send(at="A")
    story.run(100)
    expect(waiting.reply, None)
    story.tell("C reaches the controllers again")
    for one, other in (*product("C", "XYZ"), *product("XYZ", "C")):
        story.network.mend(*story.nodes(one + other))
    story.until(lambda: story.driver("C").replica.leader == story.nodes("C")[0], "the leadership of C")
    expect(waiting.reply, None)
    story.heal()
    story.until(story.all_in_sync, "the return of A and B")
    story.run(500)
    _tell_ends(story)
    expect(waiting.reply and waiting.reply.error, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    log = story.driver("C").log
    kept = {entry.value.decode() for entry in entries_between(log, log.start_offset, log.end_offset)}
    acknowledged = {each.name for each in (*sent, last) if each.reply and not each.reply.error}
    expect(acknowledged - kept, set())
    expect(waiting.name in kept, False)
    return story


def replica_that_is_being_added() -> DurabilityStory:
    """A and B are disconnected from the controllers, which begin to move the partition to C. A does not hear
    of C, so B following it is proof enough for A that it still leads. C is not appointed.
    """
    story = DurabilityStory(3, unclean_leader_election_enable="true")
    story.move("AB")
    story.until(lambda: story.has_moved_to("AB"), "the smaller set")
    expect(story.write(), ErrorCode.NONE)
    story.cut("AB", "XYZC")
    story.move("BC")
    story.run(4000)
    expect(story.leader(), "nobody")
    expect(story.write(at="A"), ErrorCode.NONE)
    story.heal()
    story.until(lambda: story.has_moved_to("BC") and story.all_in_sync(), "the end of the move")
    expect(story.read(), ["r1", "r2"])
    return story


def connections_close_before_an_unclean_election() -> Story:
    """A is alone in its set, and all of its connections close. It is fenced at once, but it lives, and
    acknowledges records until its session is over. B is elected only then.
    """
    story = _alone_in_its_set(Story(min_insync_replicas="1", unclean_leader_election_enable="true"))
    story.cut_noticed("A", "BCXYZ")
    story.until(lambda: story.leader() == "nobody", "the end of the leadership")
    expect(story.write(at="A"), ErrorCode.NONE)
    story.until(lambda: story.leader() not in ("A", "nobody"), "an election")
    return _replaced(story)


def connections_close_before_a_forced_election() -> Story:
    """A is alone in its set, and all of its connections close. It is fenced at once, but it lives. An
    operator who forces an election is refused until A's session is over.
    """
    story = _alone_in_its_set(Story(min_insync_replicas="1"))
    story.cut_noticed("A", "BCXYZ")
    story.until(lambda: story.leader() == "nobody", "the end of the leadership")
    story.tell("an operator tries to have another one lead")
    rules = Rulebook(story.cluster.config)
    story.cluster.decide(lambda image: leadership.elect(image, TOPIC, 0, rules.at(image), unclean=True))
    story.run(200)
    expect(story.leader(), "nobody")
    expect(story.write(at="A"), ErrorCode.NONE)
    story.elect_unclean()
    return _replaced(story)


class OneProcessStory(DurabilityStory):
    controllers = 0


def active_controller_that_is_replaced() -> DurabilityStory:
    """The brokers are the controllers. A is the active one and alone in its set; C has ended, so B decides
    nothing without A, and A goes on without a session. When C is back, B becomes the active controller. It
    has not heard A for long, but A saw a moment ago that C had ended: A gets a whole session.
    """
    story = OneProcessStory(3, min_insync_replicas="1")
    story.cluster.confirm_deaths()
    story.move("AC")
    story.until(lambda: story.has_moved_to("AC"), "the smaller set")
    story.kill("C")
    story.until(lambda: story.in_sync() == "A", "the departure of C")
    story.start("C")
    story.until(story.all_in_sync, "the return of C")
    active = story.cluster.active()
    expect(active is not None and active.node_id, story.nodes("A")[0])
    expect(story.write(), ErrorCode.NONE)
    story.run(1000)
    story.kill("C")
    story.until(lambda: story.in_sync() == "A", "the departure of C")
    story.run(500)
    story.cut("A", "B")
    story.run(4000)
    expect(story.write(at="A"), ErrorCode.NONE)
    story.cut("A", "C")
    story.start("C")
    story.until(lambda: story.leader() == "nobody", "the end of the leadership")
    story.elect_unclean()
    for _ in range(4):
        expect(story.write(at="A", acks=1), ErrorCode.NOT_LEADER_OR_FOLLOWER)
        expect(story.write(at="A"), ErrorCode.NOT_LEADER_OR_FOLLOWER)
        story.run(200)
    expect(story.write(), ErrorCode.NONE)
    story.heal()
    return story.end_whole("A")


def earlier_process_had_ended() -> Story:
    """Y and Z see that A has ended. It is started again, but only X can reach it. A is alone in its set when
    X is killed. That an earlier process of A had ended says nothing about its session: another replica is
    elected when that is over.
    """
    story = Story(min_insync_replicas="1", unclean_leader_election_enable="true")
    story.cluster.confirm_deaths()
    expect(story.write(), ErrorCode.NONE)
    story.kill("A")
    story.until(lambda: story.leader() not in ("A", "nobody"), "an election")
    story.run(500)
    story.cut("A", "YZ")
    story.start("A")
    story.until(story.all_in_sync, "the return of A")
    story.prefer("A")
    story = _alone_in_its_set(story)
    story.kill("X")
    story.run(500)
    expect(story.leader(), "A")
    expect(story.write(at="A"), ErrorCode.NONE)
    story.until(lambda: story.leader() not in ("A", "nobody"), "an election")
    story.start("X")
    return _replaced(story)


def _alone_in_its_set(story: Story) -> Story:
    expect(story.write(), ErrorCode.NONE)
    story.cut("A", "BC")
    waiting = story.send()
    story.until(lambda: story.in_sync() == "A", "the departure of both")
    expect(story.await_answer(waiting), ErrorCode.NONE)
    return story


def _replaced(story: Story) -> Story:
    story.run(50)
    expect(story.write(), ErrorCode.NONE)
    for _ in range(4):
        expect(story.write(at="A", acks=1), ErrorCode.NOT_LEADER_OR_FOLLOWER)
        expect(story.write(at="A"), ErrorCode.NOT_LEADER_OR_FOLLOWER)
        story.run(200)
    story.heal()
    return story.end_whole("A")


def _with_c_behind() -> Story:
    story = Story(unclean_leader_election_enable="true")
    expect(story.write(), ErrorCode.NONE)
    story.kill("C")
    story.until(lambda: story.in_sync() == "AB", "the departure of C")
    story.slow_down("A", "C", DELAY_MS)
    _write_for(story, BETWEEN_WRITES_MS)
    story.start("C")
    _write_for(story, 1000)
    expect(story.in_sync(), "AB")
    return story


def _write_for(story: Story, milliseconds: int) -> list[Sent]:
    sent = []
    for _ in range(milliseconds // BETWEEN_WRITES_MS):
        sent.append(story.send(at="A"))
        story.run(BETWEEN_WRITES_MS)
    return sent


def _tell_ends(story: Story) -> None:
    """Where each log ends: it has too many records to tell them all."""
    for letter in "ABC":
        driver = story.driver(letter)
        ends = f"ends at {driver.log.end_offset}, committed before {driver.replica.high_watermark}"
        story.tell(f"  the log of {letter} {ends}")


STORIES = (
    follower_lacks_what_members_hold,
    replica_that_is_being_added,
    connections_close_before_an_unclean_election,
    connections_close_before_a_forced_election,
    active_controller_that_is_replaced,
    earlier_process_had_ended,
)
