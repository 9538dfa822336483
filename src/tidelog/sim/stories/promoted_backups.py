"""Deleted records and backups that are promoted: mode ``primary-backup``."""

from tidelog.errors import ErrorCode
from tidelog.sim.stories.operations import delete_records
from tidelog.sim.stories.primary_backup_group import is_whole, promote
from tidelog.sim.story import Story
from tidelog.sim.telling import expect


def backup_is_promoted_while_it_is_down() -> Story:
    """C was down when records were deleted, and is promoted before it has followed A again. It asks where the
    logs of the others begin, and deletes the records before it leads.
    """
    story = Story(replication_mode="primary-backup", min_insync_replicas="2")
    _fill(story)
    story.kill("C")
    story.until(lambda: story.in_sync() == "AB", "the departure of C")
    expect(delete_records(story, 2), ErrorCode.NONE)
    promote(story, "C")
    story.start("C")
    story.until(lambda: story.leader() == "C" and is_whole(story), "the leadership of C")
    story.tell_logs()
    expect([story.driver(letter).log.start_offset for letter in "ABC"], [2, 2, 2])
    expect(story.write(), ErrorCode.NONE)
    return story.end()


def deletion_without_enough_copies() -> Story:
    """Three copies: C may lead without hearing A, because B has everything that was acknowledged. So a
    deletion of which C has not heard is not acknowledged.
    """
    story = Story(replication_mode="primary-backup", min_insync_replicas="3")
    _fill(story)
    story.kill("C")
    story.until(lambda: story.in_sync() == "AB", "the departure of C")
    expect(delete_records(story, 2), ErrorCode.REQUEST_TIMED_OUT)
    story.kill("A")
    story.until(lambda: story.leader() == "nobody", "the end of the leadership")
    promote(story, "C")
    story.start("C")
    story.until(lambda: story.leader() == "C" and story.in_sync() == "BC", "the leadership of C")
    story.tell_logs()
    story.start("A")
    story.until(lambda: is_whole(story), "the return of A")
    expect(delete_records(story, 2), ErrorCode.NONE)
    expect([story.driver(letter).log.start_offset for letter in "ABC"], [2, 2, 2])
    return story.end()


def _fill(story: Story) -> None:
    for _ in range(3):
        expect(story.write(), ErrorCode.NONE)
    story.run(500)


STORIES = (backup_is_promoted_while_it_is_down, deletion_without_enough_copies)
