"""Logs without records: all have expired or were deleted, and what lies before is still committed."""

from tidelog.errors import ErrorCode
from tidelog.sim.story import Story
from tidelog.sim.telling import expect

LATER_MS = 1 << 62  # when everything has expired


def voter_restarts() -> Story:
    """All records of two voters have expired, and the third was down and has the first of them. One of the
    two restarts: it still knows the epoch of its last record, and does not elect the third.
    """
    story = Story(replication_mode="quorum")
    expect(story.write(), ErrorCode.NONE)
    story.run(500)
    story.kill("C")
    for _ in range(3):
        expect(story.write(), ErrorCode.NONE)
    story.run(500)
    _expire(story, "AB")
    story.run(3500)
    story.tell_logs()
    story.kill("A")
    story.kill("B")
    story.start("BC")
    story.run(10000)
    story.tell_logs()
    story.start("A")
    story.until(story.all_in_sync, "the return of A")
    expect(story.write(), ErrorCode.NONE)
    return story.end()


def voter_begins_anew() -> Story:
    """Two voters have acknowledged a record, which the third lacks. The leader loses it by retention before
    the other voter knows that it is committed: that one begins anew after it. It still knows the epoch of
    its last record, and does not elect the third.
    """
    story = Story(replication_mode="quorum")
    expect(story.write(), ErrorCode.NONE)
    story.run(500)
    story.kill("C")
    expect(story.write(), ErrorCode.NONE)
    story.run(500)
    story.send()
    leader, voter = story.driver("A"), story.driver("B")
    end_offset = leader.log.end_offset + 1
    for _ in range(1000):
        if leader.replica.high_watermark >= end_offset:
            break
        story.run(0.05)
    expect((leader.replica.high_watermark, voter.replica.high_watermark), (end_offset, end_offset - 1))
    story.cut("A", "B")
    story.run(100)
    _expire(story, "A")
    story.heal()
    story.until(lambda: voter.log.start_offset == end_offset, "that B begins anew")
    story.kill("A")
    story.start("C")
    story.run(10000)
    story.tell_logs()
    story.start("A")
    story.until(story.all_in_sync, "the return of A")
    expect(story.write(), ErrorCode.NONE)
    return story.end()


def leader_without_records_follows() -> Story:
    """A leader has written nothing in its epoch, and all older records have expired there. The next leader
    still has them, and knows nothing of that epoch: the former one takes the epoch that the leader names, and
    is in sync again.
    """
    story = Story()
    for _ in range(3):
        expect(story.write(), ErrorCode.NONE)
    story.run(500)
    story.kill("A")
    story.until(lambda: story.leader() not in ("A", "nobody"), "another leader")
    story.start("A")
    story.until(story.all_in_sync, "the return of A")
    story.prefer("A")
    story.run(100)
    _expire(story, "A")
    story.kill("A")
    story.until(lambda: story.leader() not in ("A", "nobody"), "another leader")
    story.start("A")
    story.until(story.all_in_sync, "the return of A")
    expect(story.write(), ErrorCode.NONE)
    return story.end()


def follower_skips_an_epoch() -> Story:
    """C is down when B writes in the next epoch. All records of A expire, and A leads again without writing:
    C skips to the start of its log, and knows only the epoch of its own last record. B has all records and
    leads next. In its log that epoch ends before the log of C begins. C has no records to truncate, and
    follows.
    """
    story = Story()
    expect(story.write(), ErrorCode.NONE)
    story.run(500)
    story.kill("C")
    story.kill("A")
    story.until(lambda: story.leader() == "B", "another leader")
    story.start("A")
    story.until(lambda: story.in_sync() == "AB", "the return of A")
    for _ in range(2):
        expect(story.write(), ErrorCode.NONE)
    story.run(500)
    _expire(story, "A")
    story.cut("A", "B")
    story.prefer("A")
    story.start("C")
    story.until(lambda: story.has_opened("C") and story.driver("C").log.start_offset == 3, "that C skips")
    story.run(1000)
    story.tell_logs()
    story.kill("A")
    story.until(lambda: story.leader() == "B", "the leadership of B")
    story.heal()
    story.until(lambda: "C" in story.in_sync(), "the return of C")
    expect(story.write(), ErrorCode.NONE)
    story.start("A")
    story.until(story.all_in_sync, "the return of A")
    return story.end()


def leader_that_never_had_a_record() -> Story:
    """Unclean elections are allowed. B leads without any record, and writes none. A leads next: its log has
    records, and nothing of B's epoch. B follows from the start.
    """
    story = Story(min_insync_replicas="1", unclean_leader_election_enable="true")
    story.kill("BC")
    story.until(lambda: story.in_sync() == "A", "the departure of B and C")
    expect(story.write(), ErrorCode.NONE)
    story.kill("A")
    story.start("B")
    story.until(lambda: story.leader() == "B", "the leadership of B")
    story.run(500)
    story.cut("B", "ACXYZ")
    story.start("A")
    story.until(lambda: story.leader() == "A", "the leadership of A")
    story.heal()
    story.start("C")
    story.until(story.all_in_sync, "the return of B and C")
    expect(story.read(), ["r1"])
    return story.end()


def _expire(story: Story, letters: str) -> None:
    story.tell(f"all records of {' and '.join(letters)} expire, and that is synced")
    for letter in letters:
        driver = story.driver(letter)
        driver.log.enforce_retention(LATER_MS, driver.replica.high_watermark)
        driver.log.sync_now()


STORIES = (
    voter_restarts,
    voter_begins_anew,
    leader_without_records_follows,
    follower_skips_an_epoch,
    leader_that_never_had_a_record,
)
