"""Mode ``primary-backup``: a primary whose disk reported syncs that it had not done."""

from tidelog.errors import ErrorCode
from tidelog.sim.faults import is_segment
from tidelog.sim.stories.primary_backup_group import group
from tidelog.sim.story import Story
from tidelog.sim.telling import expect


def _without_the_last_record() -> Story:
    """The primary has lost a confirmed record in a power failure, does not know it, and leads again while its
    backup is cut off.
    """
    story = group(2, flush_messages="1")
    expect(story.write(), ErrorCode.NONE)
    story.run(3500)
    story.tell("the disk of A reports syncs that it does not do")
    story.machine("A").lie(is_segment)
    expect(story.write(), ErrorCode.NONE)
    story.run(50)
    story.power_off("A")
    story.cut("A", "B")
    story.start("A")
    story.until(lambda: story.leader() == "A" and story.partition().leader_epoch > 0, "the return of A")
    story.run(100)
    return story


def unconfirmed_tail() -> Story:
    """A primary lost a confirmed record to a disk that lies about syncs, and leads again. Before it hears of
    its backup, it takes a record with acks=0. The backup knows of the confirmed record: the primary steps
    back, drops what nobody has confirmed, and copies the record back. Nothing acknowledged is lost.
    """
    story = _without_the_last_record()
    story.send(acks=0, at="A")
    story.run(50)
    story.tell_logs()
    story.heal()
    story.until(story.all_in_sync, "the return of B")
    expect(story.write(), ErrorCode.NONE)
    expect(story.read(), ["r1", "r2", "r4"])
    return story.end()


STORIES = (unconfirmed_tail,)
