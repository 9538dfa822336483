"""Damaged records that only their leader has."""

from tidelog.errors import ErrorCode
from tidelog.sim.stories.primary_backup_group import force, is_whole, promote, serves
from tidelog.sim.story import Story
from tidelog.sim.telling import expect

CHECKPOINTED_MS = 3500


def operator_gives_them_up() -> Story:
    """A leads alone and finds that an old record is damaged. It keeps the log: a replica that has the record
    may return. The others cannot fetch further. An operator stops A and makes another replica the leader;
    what follows the damage is given up, and A returns without it.
    """
    story = leader_is_damaged(Story(min_insync_replicas="1", segment_bytes="200"))
    story.kill("A")
    story.until(lambda: story.leader() == "nobody", "the end of the leadership")
    story.elect_unclean()
    story.start("A")
    return story.end_whole("A")


def operator_promotes_a_backup() -> Story:
    """The same in mode ``primary-backup``. While A is down no other replica can be forced to lead, because A
    is the first replica: the operator promotes B. A returns as a backup, without what was given up.
    """
    story = leader_is_damaged(
        Story(replication_mode="primary-backup", min_insync_replicas="1", segment_bytes="200")
    )
    story.kill("A")
    story.until(lambda: story.leader() == "nobody", "the end of the leadership")
    promote(story, "B")
    force(story)
    story.until(lambda: serves(story), "the leadership of B")
    story.start("A")
    story.until(lambda: is_whole(story), "the return of A")
    story.tell_logs()
    expect(story.write(), ErrorCode.NONE)
    return story.end()


def leader_is_damaged(story: Story) -> Story:
    """A writes alone, one of its old records is damaged, and the others cannot fetch it."""
    expect(story.write(), ErrorCode.NONE)
    story.kill("BC")
    story.until(lambda: story.in_sync() == "A", "the departure of B and C")
    for _ in range(4):
        expect(story.write(), ErrorCode.NONE)
    story.run(CHECKPOINTED_MS)
    story.kill("A")
    story.flip_bit("A", segment=1)
    story.start("A")
    story.until(lambda: story.leader() == "A", "the return of A")
    story.start("BC")
    story.run(5000)
    story.tell_logs()
    expect(story.in_sync(), "A")
    expect(story.driver("A").damage.offset is not None, True)
    return story


STORIES = (operator_gives_them_up, operator_promotes_a_backup)
