"""An operator takes the leadership from a broker that has just been cut off. Its session lasts, and no
connection of it has closed: mode ``isr``, where nothing else is said. A consumer that has read a record at
the new leader asks it.
"""

from tidelog.errors import ErrorCode
from tidelog.replication.messages import FetchGot
from tidelog.sim.stories.primary_backup_group import promote, serves
from tidelog.sim.stories.readers import ReaderStory
from tidelog.sim.telling import expect


def partition_is_moved() -> ReaderStory:
    """The partition is moved to B and C, in the moment in which A is cut off. Told that its position is out
    of range, or that a record was truncated, the consumer would go back. A asks its followers first, and
    sends the consumer away. When A is the only one that leads, a position beyond the end is wrong.
    """
    story = _read_by_a_consumer()
    expect(story.read_behind_the_end("A"), ErrorCode.NONE)
    expect(story.read_at("A", 5).error, ErrorCode.OFFSET_OUT_OF_RANGE)
    story.cut("A", "BCXYZ")
    story.move("BC")
    story.until(lambda: story.has_moved_to("BC"), "the move")
    _ask_the_old_leader(story)
    return story.end()


def mode_is_changed() -> ReaderStory:
    """The same with a change to mode quorum: B and C elect a leader."""
    story = _read_by_a_consumer()
    story.cut("A", "BCXYZ")
    story.change("quorum")
    story.await_change("quorum")
    _ask_the_old_leader(story)
    return story.end_whole("A")


def backup_is_promoted() -> ReaderStory:
    """Mode primary-backup, three copies: B is promoted in the moment in which A is cut off, and need not hear
    it. A sends away a consumer that has read a record at B. Once its session is over it does not tell either
    where the log ends.
    """
    story = _read_by_a_consumer(replication_mode="primary-backup", min_insync_replicas="3")
    story.cut("A", "BCXYZ")
    promote(story, "B")
    story.set_for_topic("min.insync.replicas", "2")
    story.until(lambda: serves(story) and story.in_sync() == "BC", "the new primary")
    story.run(100)
    _ask_the_old_leader(story, heals=False)
    expect(story.end_offset("A"), ErrorCode.NOT_LEADER_OR_FOLLOWER)
    story.heal()
    return story.end_whole("A")


def leader_gets_no_metadata() -> ReaderStory:
    """A is cut off from B and C only. The controllers hear its heartbeats, but their metadata does not reach
    it, so its session lasts while B leads. It tells for no longer than a session where the log ends.
    """
    story = _read_by_a_consumer()
    (a,), controllers = story.nodes("A"), story.nodes("XYZ")
    story.tell("A gets no metadata any more")
    story.network.withheld = lambda sender, receiver, message: (
        receiver == a and sender in controllers and isinstance(message, FetchGot)
    )
    story.cut("A", "BC")
    story.move("BC")
    story.until(lambda: story.has_moved_to("BC"), "the move")
    _ask_the_old_leader(story, heals=False)
    node = story.machine("A").node
    expect(node is not None and node.membership.alone(), False)
    expect(story.end_offset("A"), ErrorCode.NOT_LEADER_OR_FOLLOWER)
    story.network.withheld = None
    story.heal()
    return story.end()


def end_of_a_moved_log() -> ReaderStory:
    """The first one with a consumer that wants to begin at the end: it begins earlier than another one was
    told before.
    """
    story = _read_by_a_consumer()
    story.cut("A", "BCXYZ")
    story.move("BC")
    story.until(lambda: story.has_moved_to("BC"), "the move")
    expect(story.write(), ErrorCode.NONE)
    expect(story.end_offset("B"), ErrorCode.NONE)
    expect(story.end_offset("A"), ErrorCode.NOT_LEADER_OR_FOLLOWER)
    return story


def _read_by_a_consumer(**configs: str) -> ReaderStory:
    story = ReaderStory(3, 1, **configs)
    expect(story.write(), ErrorCode.NONE)
    story.run(300)
    return story


def _ask_the_old_leader(story: ReaderStory, *, heals: bool = True) -> None:
    expect(story.write(), ErrorCode.NONE)
    expect(story.read(), ["r1", "r2"])
    epoch = story.partition().leader_epoch
    expect(story.read_behind_the_end("A"), ErrorCode.NOT_LEADER_OR_FOLLOWER)
    expect(story.hear_of_truncation("A", epoch), [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2)
    if heals:
        story.heal()


STORIES = (partition_is_moved, mode_is_changed, backup_is_promoted, leader_gets_no_metadata)
