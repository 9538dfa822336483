"""Deleted records and disks that refuse to record the new log start: the file that names it cannot be
created.
"""

from errno import EIO

from tidelog.errors import ErrorCode
from tidelog.sim.stories.operations import delete_records
from tidelog.sim.stories.primary_backup_group import is_whole, promote
from tidelog.sim.story import Story
from tidelog.sim.telling import expect

CREATE = "create"


def leader_cannot_record_it() -> Story:
    """The disk of the primary creates no files. It deletes, but if it was killed the records would be there
    again. So the deletion is acknowledged only when the disk works again, and survives then.
    """
    story = Story(replication_mode="primary-backup", min_insync_replicas="2")
    _fill(story)
    _refuse_names(story, "A")
    expect(delete_records(story, 2), ErrorCode.REQUEST_TIMED_OUT)
    _accept_names(story, "A")
    expect(delete_records(story, 2), ErrorCode.NONE)
    _restart(story, "A")
    expect(story.driver("A").log.start_offset, 2)
    return story.end()


def leader_is_killed_before_it_is_recorded() -> Story:
    """The same, and the primary is killed before: what was not acknowledged as deleted is there again."""
    story = Story(replication_mode="primary-backup", min_insync_replicas="2")
    _fill(story)
    _refuse_names(story, "A")
    expect(delete_records(story, 2), ErrorCode.REQUEST_TIMED_OUT)
    _accept_names(story, "A")
    _restart(story, "A")
    expect(story.driver("A").log.start_offset, 0)
    expect(delete_records(story, 2), ErrorCode.NONE)
    return story.end()


def follower_cannot_record_it() -> Story:
    """The disk of a follower in the in-sync set creates no files. The deletion waits for it, because it may
    lead after a restart. It records the new log start when its disk works again.
    """
    story = Story()
    _fill(story)
    _refuse_names(story, "B")
    expect(delete_records(story, 2), ErrorCode.REQUEST_TIMED_OUT)
    expect(story.in_sync(), "ABC")
    _accept_names(story, "B")
    expect(delete_records(story, 2), ErrorCode.NONE)
    story.kill("BC")
    story.until(lambda: story.in_sync() == "A", "the departure of B and C")
    story.start("B")
    story.until(lambda: story.in_sync() == "AB", "the return of B")
    story.kill("A")
    story.until(lambda: story.leader() == "B", "another leader")
    expect(story.driver("B").log.start_offset, 2)
    story.start("AC")
    return story.end_whole("A and C")


def promoted_backup_cannot_record_it() -> Story:
    """C was down when records were deleted, and is promoted. Its disk creates no files. It does not lead
    before it has recorded the deletion that it hears of.
    """
    story = Story(replication_mode="primary-backup", min_insync_replicas="2")
    _fill(story)
    story.kill("C")
    story.until(lambda: story.in_sync() == "AB", "the departure of C")
    expect(delete_records(story, 2), ErrorCode.NONE)
    promote(story, "C")
    story.start("C")
    story.until(lambda: story.has_opened("C"), "the return of C")
    _refuse_names(story, "C")
    story.until(lambda: story.driver("C").log.start_offset == 2, "the deletion at C")
    story.run(1000)
    expect(story.in_sync().count("C"), 0)
    _accept_names(story, "C")
    story.until(lambda: story.leader() == "C" and is_whole(story), "the leadership of C")
    _restart(story, "C")
    expect(story.driver("C").log.start_offset, 2)
    return story.end()


def _fill(story: Story) -> None:
    for _ in range(3):
        expect(story.write(), ErrorCode.NONE)
    story.run(500)


def _refuse_names(story: Story, letter: str) -> None:
    story.tell(f"the disk of {letter} creates no files")
    story.machine(letter).disk.failing[CREATE] = EIO


def _accept_names(story: Story, letter: str) -> None:
    story.tell(f"the disk of {letter} works again")
    del story.machine(letter).disk.failing[CREATE]


def _restart(story: Story, letter: str) -> None:
    epoch = story.partition().leader_epoch
    story.kill(letter)
    story.start(letter)
    story.until(lambda: story.is_led_anew(epoch) and is_whole(story), f"the return of {letter}")


STORIES = (
    leader_cannot_record_it,
    leader_is_killed_before_it_is_recorded,
    follower_cannot_record_it,
    promoted_backup_cannot_record_it,
)
