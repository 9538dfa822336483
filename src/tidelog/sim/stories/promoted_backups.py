"""Deleted records and backups that are promoted: mode ``primary-backup``."""

from tidelog.errors import ErrorCode
from tidelog.sim.stories.durability import DurabilityStory
from tidelog.sim.stories.operations import delete_records
from tidelog.sim.stories.primary_backup_group import is_missed, is_whole, promote, serves
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


def more_copies_after_a_deletion() -> DurabilityStory:
    """Two copies, and A deletes records while it hears nothing of B and C, which could not lead without it.
    Then three copies are required. B and C hold all records, and more: B leads without A only when both have
    deleted, too.
    """
    story = DurabilityStory(replication_mode="primary-backup", min_insync_replicas="2")
    _fill(story)
    story.cut("A", "BC")
    story.run(1200)
    expect(delete_records(story, 2), ErrorCode.NONE)
    story.set_for_topic("min.insync.replicas", "3")
    story.run(1000)
    story.kill("A")
    story.heal()
    return _b_leads_when_a_is_back(story)


def move_after_a_deletion() -> DurabilityStory:
    """Three copies. The partition is moved from B and C to D and E. D has all records when A hears nothing of
    it any more, and has not heard that A, B and C have deleted some. B and C do not go before it has.
    """
    story = DurabilityStory(5, replication_mode="primary-backup", min_insync_replicas="3")
    story.move("ABC")
    story.until(lambda: story.has_moved_to("ABC"), "the move")
    _fill(story)
    story.cut("E", "A")
    story.move("ADE")
    story.until(lambda: "D" in story.in_sync(), "the copy of D")
    story.cut("D", "A")
    story.run(1200)
    expect(delete_records(story, 2), ErrorCode.NONE)
    story.network.mend(*story.nodes("AE"))
    story.network.mend(*story.nodes("EA"))
    story.until(lambda: "E" in story.in_sync(), "the copy of E")
    story.run(1000)
    expect(story.has_moved_to("ADE"), False)
    story.heal()
    story.until(lambda: story.has_moved_to("ADE"), "the end of the move")
    expect([story.driver(letter).log.start_offset for letter in "ADE"], [2, 2, 2])
    return story.end()


def _b_leads_when_a_is_back(story: DurabilityStory) -> DurabilityStory:
    story.until(lambda: is_missed(story), "the end of the leadership")
    promote(story, "B")
    story.run(3000)
    expect(serves(story), False)
    story.start("A")
    story.until(lambda: story.leader() == "B" and is_whole(story), "the leadership of B")
    story.tell_logs()
    expect([story.driver(letter).log.start_offset for letter in "ABC"], [2, 2, 2])
    expect(story.write(), ErrorCode.NONE)
    return story.end()


def _fill(story: Story) -> None:
    for _ in range(3):
        expect(story.write(), ErrorCode.NONE)
    story.run(500)


STORIES = (
    backup_is_promoted_while_it_is_down,
    deletion_without_enough_copies,
    more_copies_after_a_deletion,
    move_after_a_deletion,
)
