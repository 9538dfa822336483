"""Mode ``primary-backup``: a backup whose log differs from that of the last primary is promoted."""

from tidelog.errors import ErrorCode
from tidelog.sim.stories.primary_backup_group import is_whole, promote
from tidelog.sim.stories.seams import SeamStory
from tidelog.sim.telling import expect


def unacknowledged_record() -> SeamStory:
    """Every write is synced. B has a record that A had not synced when it lost power: it was never
    acknowledged. A leads again without it, and writes another one with C. Then B is promoted. A was the last
    leader and has kept everything that was acknowledged, so B takes the log of A.
    """
    story = _with_an_unacknowledged_record()
    story.tell_logs()
    promote(story, "B")
    story.heal()
    story.until(lambda: story.leader() == "B" and is_whole(story), "the leadership of B")
    expect(story.write(), ErrorCode.NONE)
    expect(story.read(), ["r1", "r3", "r4"])
    return story


def superseded_record() -> SeamStory:
    """As before, B has a record that was never acknowledged, and A wrote another one with C. Then writes are
    no longer synced and all lose power, so no replica is sure of what it had. A still has the first record of
    its epoch, and held everything that was acknowledged when it wrote that: it leads without an operator's
    decision, and B takes its log.
    """
    story = _with_an_unacknowledged_record()
    story.set_for_topic("flush.messages", "10000")
    story.tell_logs()
    story.power_off("ABC")
    story.heal()
    story.start("ABC")
    story.until(lambda: story.leader() == "A" and is_whole(story), "the return of all")
    expect(story.write(), ErrorCode.NONE)
    expect(story.read(), ["r1", "r3", "r4"])
    return story


def _with_an_unacknowledged_record() -> SeamStory:
    story = SeamStory(replication_mode="primary-backup", min_insync_replicas="2", flush_messages="1")
    expect(story.write(), ErrorCode.NONE)
    story.run(500)
    story.cut("C", "AB")
    story.slow_disk("A")
    story.send()
    story.until(lambda: story.driver("B").log.end_offset == 2, "the copy of B")
    story.power_off("A")
    story.repair_disk("A")
    story.heal()
    story.cut("B", "ACXYZ")
    story.start("A")
    story.until(lambda: story.is_led_anew(0) and story.in_sync() == "AC", "the return of A")
    expect(story.write(), ErrorCode.NONE)
    return story


STORIES = (unacknowledged_record, superseded_record)
