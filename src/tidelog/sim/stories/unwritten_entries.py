"""Entries of ``.txnindex`` that a failing disk does not take, though their markers are in the log."""

from errno import EIO

from tidelog.sim.stories.late_markers import OldProducer, read_committed
from tidelog.sim.story import Story
from tidelog.sim.telling import expect


def aborted_records_stay_hidden() -> Story:
    """A appends the marker of an aborted transaction, and cannot create the file that lists it. A accepts no
    more writes. Its readers skip the aborted record all the same.
    """
    story = Story()
    producer = OldProducer(story)
    producer.write()
    story.cut("A", "XYZ")
    story.tell("the disk of A creates no more files")
    story.machine("A").disk.failing["create"] = EIO
    producer.end(commits=False)
    story.until(lambda: story.driver("A").log.failure is not None, "the marker")
    expect(read_committed(story), [])
    story.machine("A").disk.failing.clear()
    story.heal()
    story.kill("A")
    story.start("A")
    story.until(story.all_in_sync, "the return of A")
    return story.end()


STORIES = (aborted_records_stay_hidden,)
