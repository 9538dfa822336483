"""Brokers that cannot write their metadata log any more, and so hear of no decision until they are restarted.
They count as brokers without a session.
"""

from tidelog.controller.topics import NewTopic
from tidelog.errors import ErrorCode
from tidelog.replication.attachments.successors import HEARD_WITHIN_MS
from tidelog.sim.stories.asking import ask, wait_for
from tidelog.sim.stories.quorum_topics import Vote
from tidelog.sim.story import TOPIC, Story
from tidelog.sim.telling import expect

METADATA = 3
PATIENCE_MS = 2000.0


def client_of_the_old_leader() -> Story:
    """The disk of A is full, and B leads. A cannot write down who leads, but it sees that the others do not
    follow it any more. A client that asks A for the leader is sent to the other brokers.
    """
    story = Story()
    expect(story.write(), ErrorCode.NONE)
    story.fill_disk("A")
    expect(story.write(at="A"), ErrorCode.KAFKA_STORAGE_ERROR)
    story.until(lambda: story.leader() != "A", "another leader")
    story.run(HEARD_WITHIN_MS)
    expect(story.write(at="A"), ErrorCode.NOT_LEADER_OR_FOLLOWER)
    _tell_metadata_of(story, "A")
    story.until(lambda: _is_fenced(story, "A"), "the end of A's session")
    expect(story.write(), ErrorCode.NONE)
    _repair(story)
    return story.end_whole("A")


def idle_replica_is_not_appointed() -> Story:
    """A follows and is in sync. It cannot write down a decision about another topic, so it would not hear
    that it is to lead. When the leader is killed, C is appointed, which comes after A.
    """
    story = Story()
    expect(story.write(), ErrorCode.NONE)
    story.kill("A")
    story.until(lambda: story.leader() == "B", "an election")
    story.start("A")
    story.until(story.all_in_sync, "the return of A")
    _deafen(story)
    story.until(lambda: _is_fenced(story, "A"), "the end of A's session")
    story.kill("B")
    story.until(lambda: story.leader() == "C", "an election")
    story.start("B")
    story.until(lambda: story.in_sync() == "BC", "the return of B")
    expect(story.write(), ErrorCode.NONE)
    _repair(story)
    return story.end_whole("A")


def idle_leader_of_voters() -> Vote:
    """A was elected. It cannot write down a decision about another topic. Clients do not find a leader whose
    broker is fenced, so A resigns before anything is written to it, and another replica is elected.
    """
    story = Vote()
    expect(story.write(), ErrorCode.NONE)
    _deafen(story)
    letter = story.await_leader()
    expect(letter != "A", True)
    expect(story.write(at=letter), ErrorCode.NONE)
    story.kill(letter)
    story.run(3000)
    expect(story.elected(), "nobody")  # A neither stands for election nor votes.
    story.start(letter)
    expect(story.write(at=story.await_leader()), ErrorCode.NONE)
    _repair(story)
    story.await_return("A")
    return story


def _deafen(story: Story) -> None:
    story.fill_disk("A")
    story.tell("another topic is created")
    others = story.nodes("BC")
    story.cluster.create_topic(NewTopic("other", -1, -1, {0: list(others)}, {}))


def _is_fenced(story: Story, letter: str) -> bool:
    return story.cluster.checker.metadata.newest.brokers[story.machine(letter).node_id].fenced


def _tell_metadata_of(story: Story, letter: str) -> None:
    """The response leaves out the broker that responds, so clients turn to the others."""
    body = {"topics": [{"topic_id": None, "name": TOPIC}], "allow_auto_topic_creation": False}
    reply = wait_for(story, ask(story, story.machine(letter).node_id, METADATA, body, PATIENCE_MS))
    letters = {story.machine(each).node_id: each for each in "ABC"}
    brokers = sorted(letters[each.node_id] for each in reply.body.brokers)
    (partition,) = reply.body.topics[0].partitions
    story.tell(f"Metadata of {letter}: brokers {' '.join(brokers)}, {ErrorCode(partition.error_code).name}")
    expect(brokers, ["B", "C"])


def _repair(story: Story) -> None:
    story.repair_disk("A")
    story.kill("A")
    story.start("A")


STORIES = (client_of_the_old_leader, idle_replica_is_not_appointed, idle_leader_of_voters)
