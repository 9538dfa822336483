"""Mode ``isr``: a leader whose disk reported syncs that it had not done."""

from collections.abc import Mapping

from tidelog.errors import ErrorCode
from tidelog.sim.faults import is_segment
from tidelog.sim.operator import Operator
from tidelog.sim.story import Story
from tidelog.sim.telling import expect


class RareCheckpoints(Story):
    """No recovery point is written that would show a leader what its log lacks."""

    settings: Mapping[str, object] = {"log.flush.offset.checkpoint.interval.ms": 60_000}


def _leads_without_the_last_record() -> Story:
    """A commits a record with B while C is down, and B is disconnected then. A loses the record in a power
    failure, does not know it, and leads again.
    """
    story = RareCheckpoints(flush_messages="1")
    expect(story.write(), ErrorCode.NONE)
    story.kill("C")
    story.until(lambda: story.in_sync() == "AB", "the departure of C")
    story.tell("the disk of A reports syncs that it does not do")
    story.machine("A").lie(is_segment)
    expect(story.write(), ErrorCode.NONE)
    story.run(50)
    story.cut("B", "AXYZ")
    story.until(lambda: story.in_sync() == "A", "the departure of B")
    story.power_off("A")
    story.start("A")
    story.until(lambda: story.leader() == "A" and story.partition().leader_epoch > 0, "the return of A")
    story.run(100)
    return story


def complete_follower_returns() -> Story:
    """A leader lost a committed record to a disk that lies about syncs, and leads again. It takes a record
    with acks=1 before an eligible follower returns, which knows of the committed one. The leader steps back
    and drops its own record, the follower leads, and nothing committed is lost.
    """
    story = _leads_without_the_last_record()
    story.send(acks=1, at="A")
    story.run(50)
    story.tell_logs()
    story.heal()
    story.until(lambda: story.in_sync() == "AB", "the return of B")
    story.start("C")
    story.until(story.all_in_sync, "the return of C")
    expect(story.write(), ErrorCode.NONE)
    expect(story.read(), ["r1", "r2", "r4"])
    return story.end()


def late_follower_stops() -> Story:
    """The same, but another replica that lacks the record joins first: from then on, records are committed
    without the follower that has it. That one stops and drops nothing. An operator decides for the leader,
    and starts the follower without its log.
    """
    story = _leads_without_the_last_record()
    story.start("C")
    story.until(lambda: story.in_sync() == "AC", "the return of C")
    story.heal()
    story.run(1000)
    expect(story.write(), ErrorCode.NONE)
    story.run(100)
    story.tell_logs()
    expect(story.in_sync(), "AC")
    story.tell("an operator looks at it")
    Operator(story.cluster).start()
    story.until(story.all_in_sync, "the return of B")
    expect(story.read(), ["r1", "r3"])
    return story.end()


STORIES = (complete_follower_returns, late_follower_stops)
