"""Proposals of in-sync sets whose copies and answers are late, and heartbeats that are answered by a
controller which was replaced: mode ``isr``, three replicas, ``min.insync.replicas=2`` where nothing else is
said.
"""

from typing import Any

from tidelog.broker.node.node import Node
from tidelog.broker.node.ports import Answered, Asked
from tidelog.controller import snapshot
from tidelog.controller.messages import HeartbeatGot, InSyncAsk, InSyncGot
from tidelog.errors import ErrorCode
from tidelog.sim.story import Story
from tidelog.sim.telling import StoryFailed, expect


def late_copy_of_a_refused_proposal() -> Story:
    """A proposes that C joins. The first copy is delayed; the next is refused, because C is fenced by then,
    and A continues without C. When the first copy arrives, C is back and lacks committed records: the copy is
    refused.
    """
    story = _proposing_c(Story())
    story.cut("C", "ABXYZ")
    story.until(lambda: _is_fenced(story, "C"), "the end of C's session")
    story.tell("from now on the proposal arrives when it is repeated, and is refused")
    story.network.withheld = None
    expect(story.write(), ErrorCode.NONE)
    story.tell("C reaches the controllers again, but not A")
    for voter in "XYZ":
        _mend(story, "C", voter)
    story.until(lambda: not _is_fenced(story, "C"), "the return of C")
    story.tell("the first copy arrives")
    story.network.release()
    story.run(400)
    expect(story.in_sync(), "AB")
    story.kill("A")
    story.until(lambda: story.leader() == "B", "an election")
    expect(story.read(), ["r1", "r2"])
    story.heal()
    story.start("A")
    return story.end_whole("everybody")


def refusal_that_was_not_committed() -> Story:
    """X, disconnected from the other controllers, considers C dead and would refuse it. Its successor knows
    nothing of that, and accepts the proposal when A repeats it. A must not remove C for a refusal that was
    not committed.
    """
    story = _proposing_c(Story())
    story.cut("C", "AX")
    story.run(2600)
    story.cut("X", "YZ")
    story.run(500)
    story.tell("X takes C for dead; the proposal arrives when it is repeated, and answers are late")
    story.network.withheld = lambda sender, receiver, message: _is_answer(message)
    waiting = story.send()
    story.until(lambda: _node(story, "A").metadata.leader in story.nodes("YZ"), "the news of a successor")
    story.tell("A knows the successor, and hears nothing of its decisions")
    for successor in "YZ":
        story.network.cut(*story.nodes(successor + "A"))
    story.until(lambda: story.in_sync() == "ABC", "the proposal's acceptance")
    story.tell("the answer of X arrives")
    story.network.withheld = None
    story.network.release()
    story.run(200)
    expect(waiting.reply, None)
    story.heal()
    expect(story.await_answer(waiting), ErrorCode.NONE)
    return story.end_whole("everybody")


def snapshot_with_a_proposal_under_way() -> Story:
    """A proposes that C joins, and installs a metadata snapshot that has the partition as A knows it. The
    proposal is still pending, and is accepted: A has waited for C all the time.
    """
    story = _proposing_c(Story())
    story.cut("C", "A")
    story.tell("A takes over a snapshot of the metadata")
    metadata = _node(story, "A").metadata
    metadata.load(snapshot.image_of(snapshot.texts_of(metadata.image)), metadata.committed_offset)
    waiting = story.send()
    story.run(200)
    story.tell("the proposal arrives")
    story.network.withheld = None
    story.network.release()
    story.until(lambda: story.in_sync() == "ABC", "the proposal's acceptance")
    story.run(200)
    expect(waiting.reply, None)
    story.heal()
    expect(story.await_answer(waiting), ErrorCode.NONE)
    return story.end()


def leader_beside_the_old_controller() -> Story:
    """A, alone in its set, is disconnected together with X, the active controller, which does not know that
    it was replaced. On the other side A is removed, and an operator appoints B: A acknowledges nothing more.
    """
    story = _given_up_by_hand(Story(min_insync_replicas="1"))
    story.cut("AX", "BCYZ")
    return _name_another(story)


def leader_beside_a_controller_that_hears_old_news() -> Story:
    """A, alone in its set, is disconnected together with X, the active controller, which still gets old
    messages of the other controllers: they are no confirmation for A's later heartbeats.
    """
    story = _given_up_by_hand(Story(min_insync_replicas="1"))
    story.cut("A", "BCYZ")
    story.tell("what Y and Z say to X is late")
    story.network.withheld = lambda sender, receiver, message: (
        sender in story.nodes("YZ") and receiver in story.nodes("X")
    )
    story.until(lambda: any(_node(story, each).metadata.active for each in "YZ"), "a new controller")
    story.run(500)
    expect(_node(story, "X").metadata.active, True)
    story.tell("a part of it arrives")
    story.network.release(2)
    story.run(10)
    return _name_another(story)


def late_answers_to_heartbeats() -> Story:
    """A is disconnected, and responses to its earlier heartbeats arrive late, one at a time: each extends the
    session from when its own heartbeat was sent, not from a later one.
    """
    story = _given_up_by_hand(Story(min_insync_replicas="1"))
    story.network.withheld = lambda sender, receiver, message: (
        isinstance(message, Answered)
        and isinstance(message.got, HeartbeatGot)
        and receiver in story.nodes("A")
    )
    story.tell("what X answers to the heartbeats of A is late")
    story.run(1000)
    story.tell("cut A off; only late answers arrive")
    for other in "BCXYZ":
        story.network.cut(*story.nodes("A" + other))
    for other in "BCYZ":
        story.network.cut(*story.nodes(other + "A"))
    for _ in range(4):
        story.run(500)
        story.network.release(1)
    return _name_another(story)


def fenced_leader_that_cannot_hear_of_it() -> Story:
    """A is disconnected and replaced. When it is back, its disk is full and accepts no metadata: A does not
    learn that B leads. Heartbeat responses that say "fenced" do not let it continue.
    """
    story = Story()
    expect(story.write(), ErrorCode.NONE)
    story.cut("A", "BCXYZ")
    story.until(lambda: story.leader() == "B", "an election")
    story.run(50)
    expect(story.write(), ErrorCode.NONE)
    story.fill_disk("A")
    story.heal()
    for _ in range(4):
        story.run(500)
        expect(story.read(at="A"), [])
    story.repair_disk("A")
    story.kill("A")
    story.start("A")
    return story.end_whole("A")


def former_leader_elected_uncleanly() -> Story:
    """A led, and holds r2, which was not replicated. B and C commit other records instead, and die: unclean
    elections are allowed, so A leads again, and everything after the divergence is lost.
    """
    story = Story(min_insync_replicas="1", unclean_leader_election_enable="true")
    expect(story.write(), ErrorCode.NONE)
    story.cut("A", "BCXYZ")
    expect(story.write(acks=1), ErrorCode.NONE)
    story.until(lambda: story.leader() == "B", "an election")
    story.run(50)
    expect(story.write(), ErrorCode.NONE)
    expect(story.write(), ErrorCode.NONE)
    story.tell_logs()
    story.kill("BC")
    story.heal()
    story.until(lambda: story.leader() == "A", "an unclean election")
    story.run(50)
    expect(story.write(), ErrorCode.NONE)
    story.start("BC")
    return story.end_whole("B and C")


def _given_up_by_hand(story: Story) -> Story:
    """Alone in its set, A knows no possible successor; but an operator can appoint one."""
    expect(story.write(), ErrorCode.NONE)
    story.cut("A", "BC")
    waiting = story.send()
    story.until(lambda: story.in_sync() == "A", "the departure of both")
    expect(story.await_answer(waiting), ErrorCode.NONE)
    return story


def _name_another(story: Story) -> Story:
    story.until(lambda: story.leader() == "nobody", "the end of the leadership")
    story.elect_unclean()
    for _ in range(8):
        expect(story.write(at="A", acks=1), ErrorCode.NOT_LEADER_OR_FOLLOWER)
        story.run(100)
    expect(story.write(), ErrorCode.NONE)
    story.network.withheld = None
    story.heal()
    return story.end_whole("A")


def _proposing_c(story: Story) -> Story:
    """C was down and has caught up; A's proposal to add it is in flight."""
    expect(story.write(), ErrorCode.NONE)
    story.kill("C")
    story.until(lambda: story.in_sync() == "AB", "the departure of C")
    story.network.withheld = lambda sender, receiver, message: _is_proposal(message)
    story.start("C")
    story.until(lambda: story.driver("A").replica.proposals.pending is not None, "the proposal")
    story.tell("A proposes that C joins; the proposal does not arrive")
    return story


def _is_proposal(message: Any) -> bool:
    return isinstance(message, Asked) and isinstance(message.ask, InSyncAsk)


def _is_answer(message: Any) -> bool:
    return isinstance(message, Answered) and isinstance(message.got, InSyncGot)


def _node(story: Story, letter: str) -> Node:
    node = story.machine(letter).node
    if node is None:
        raise StoryFailed(f"{letter} does not run")
    return node


def _is_fenced(story: Story, letter: str) -> bool:
    return story.cluster.checker.metadata.newest.brokers[story.machine(letter).node_id].fenced


def _mend(story: Story, one: str, other: str) -> None:
    (first,), (second,) = story.nodes(one), story.nodes(other)
    story.network.mend(first, second)
    story.network.mend(second, first)


STORIES = (
    late_copy_of_a_refused_proposal,
    refusal_that_was_not_committed,
    snapshot_with_a_proposal_under_way,
    leader_beside_the_old_controller,
    leader_beside_a_controller_that_hears_old_news,
    late_answers_to_heartbeats,
    fenced_leader_that_cannot_hear_of_it,
    former_leader_elected_uncleanly,
)
