"""A follower whose leader has deleted everything that it holds, and that begins anew after it."""

from tidelog.errors import ErrorCode
from tidelog.sim.stories.durability import DurabilityStory
from tidelog.sim.stories.operations import delete_records
from tidelog.sim.story import Story
from tidelog.sim.telling import expect


def power_lost_in_between() -> Story:
    """A follower is away while its leader deletes all that the follower holds. It comes back, drops its log
    newest segment first, and loses power before the new beginning is synced: a part of the old log is left.
    All of that was deleted, so nothing is missing, and it begins anew once more.
    """
    story = DurabilityStory(segment_bytes="160", flush_messages="1")
    for _ in range(6):
        expect(story.write(), ErrorCode.NONE)
    story.run(3500)
    story.kill("C")
    story.until(lambda: story.in_sync() == "AB", "the departure of C")
    expect(story.write(), ErrorCode.NONE)
    expect(delete_records(story, 7), ErrorCode.NONE)
    story.slow_disk("C")
    story.start("C")
    story.until(lambda: story.has_opened("C"), "the log of C")
    story.until(lambda: story.driver("C").log.start_offset == 7, "that C begins anew")
    story.tell("C loses power, and keeps half of what it has changed")
    story.machine("C").lose_power(lambda _, unsynced: unsynced // 2)
    story.repair_disk("C")
    story.start("C")
    story.until(story.all_in_sync, "the return of C")
    expect(story.write(), ErrorCode.NONE)
    return story.end()


def readers_of_a_new_beginning() -> Story:
    """A backup has a new disk and begins where its primary's log begins. It has not heard yet that the
    primary agrees with its log, and the primary is killed: its readers learn of a high watermark that is not
    before the beginning.
    """
    story = DurabilityStory(2, replication_mode="primary-backup", min_insync_replicas="1")
    for _ in range(3):
        expect(story.write(), ErrorCode.NONE)
    story.run(500)
    expect(delete_records(story, 3), ErrorCode.NONE)
    story.kill("B")
    story.lose_disk("B")
    story.start("B")
    story.until(lambda: story.has_opened("B"), "the log of B")
    story.slow_disk("B")
    story.until(lambda: story.driver("B").log.start_offset == 3, "that B begins anew")
    story.kill("A")
    story.until(lambda: story.driver("B").stand_in.serves, "that B serves readers")
    answer = story.read_at("B", 3)
    expect((answer.start_offset, answer.stable, answer.watermark), (3, 3, 3))
    story.repair_disk("B")
    story.start("A")
    return story.end_whole("A")


STORIES = (power_lost_in_between, readers_of_a_new_beginning)
