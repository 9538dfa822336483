"""The last member of an in-sync set lost power: which of the logs that are left is kept. Mode ``isr``,
``min.insync.replicas=1``.
"""

from tidelog.errors import ErrorCode
from tidelog.sim.stories.seams_two import DiskStory
from tidelog.sim.telling import expect


def committed_record_of_an_earlier_epoch() -> DiskStory:
    """B leads without r2, which C has, and writes r3, which C does not get. B dies and C leads: r2 is
    committed now, in C's epoch, though C writes no record of its own. C loses power. All are back, B with r3,
    whose epoch is higher than that of r2: C keeps r2.
    """
    story = DiskStory(min_insync_replicas="1")
    expect(story.write(), ErrorCode.NONE)
    story.cut("A", "B")
    expect(story.write(acks=1, at="A"), ErrorCode.NONE)
    story.stop("C")
    story.start("C")
    story.until(story.all_in_sync, "the return of C, which has synced r2")
    story.cut("B", "C")
    story.kill("A")
    story.until(lambda: story.leader() == "B", "the leadership of B")
    expect(story.in_sync(), "BC")
    expect(story.write(acks=1, at="B"), ErrorCode.NONE)
    story.kill("B")
    story.until(lambda: story.leader() == "C" and story.in_sync() == "C", "the leadership of C")
    story.run(500)
    expect(story.read("C"), ["r1", "r2"])
    story.power_off("C")
    story.heal()
    story.start("ABC")
    story.until(story.all_in_sync, "that C leads and the others follow")
    expect(story.read(), ["r1", "r2"])
    return story


STORIES = (committed_record_of_an_earlier_epoch,)
