"""An operator's decision that a replica hears of later than of the leader that was elected upon it."""

from tidelog.errors import ErrorCode
from tidelog.sim.stories.late_reports import ReportStory
from tidelog.sim.telling import expect


def complete_voter_hears_the_leader_first() -> ReportStory:
    """Two of three voters lost records, and an operator decides that one of them continues with what it has.
    The third one has everything, and hears of that leader before the metadata reaches it: it drops nothing
    until it learns that the records were given up. Then it follows.
    """
    story = ReportStory()
    story.lose_two(cut_off=True)
    story.heal()
    story.run(3000)
    story.tell("metadata arrives late at C")
    story.hold_metadata("C", after=0)
    story.take_a_decision()
    story.await_leader(not_by="")
    story.run(300)
    story.tell_logs()
    expect(story.driver("C").replica.epoch, story.partition().leader_epoch)
    expect(story.driver("C").log.end_offset, story.driver("C").replica.high_watermark)
    story.tell("the metadata arrives at C")
    story.network.withheld = None
    story.network.release()
    story.until(story.all_in_sync, "the return of B and C", 8000)
    expect(story.write(at=story.elected()), ErrorCode.NONE)
    expect(story.read(at=story.elected()), ["r1", "r3"])
    return story.end()


STORIES = (complete_voter_hears_the_leader_first,)
