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


def _expire(story: Story, letters: str) -> None:
    story.tell(f"all records of {' and '.join(letters)} expire, and that is synced")
    for letter in letters:
        driver = story.driver(letter)
        driver.log.enforce_retention(LATER_MS, driver.replica.high_watermark)
        driver.log.sync_now()


STORIES = (voter_restarts,)
