"""Mode ``primary-backup``: records that a primary copies back from its backups, and has not synced yet."""

from tidelog.errors import ErrorCode
from tidelog.sim.stories.seams import SeamStory
from tidelog.sim.telling import expect


def power_fails_after_copying() -> SeamStory:
    """Every write is synced. The primary returns with an empty disk, which is slow, and copies its records
    back. It does not count as complete before they are synced: it loses power, and copies them again.
    """
    story = SeamStory(replication_mode="primary-backup", min_insync_replicas="2", flush_messages="1")
    expect(story.write(), ErrorCode.NONE)
    expect(story.write(), ErrorCode.NONE)
    story.run(500)
    story.lose_disk("A")
    story.until(lambda: "A" not in story.in_sync(), "the departure of A")
    story.slow_disk("A")
    story.start("A")
    story.until(lambda: story.has_opened("A") and story.driver("A").log.end_offset == 2, "the copies", 40_000)
    story.run(500)
    story.power_off("A")
    story.repair_disk("A")
    story.start("A")
    story.until(story.all_in_sync, "the return of A", 8000)
    expect(story.read(), ["r1", "r2"])
    return story


STORIES = (power_fails_after_copying,)
