"""Old segments are scrubbed while their log changes."""

from tidelog.errors import ErrorCode
from tidelog.sim.story import Story
from tidelog.sim.telling import expect

# The records of a segment take 0.8 seconds, and its indexes as long.
SLOWLY = {"log.scrub.bytes.per.second": 80 << 10}
TWO_RECORDS = "160"  # bytes; so many are in a segment
SECOND_SEGMENT_MS = 4600  # from the start of a broker: the first round comes to it
HEALED_BEFORE_MS = 500


class SlowStory(Story):
    settings = SLOWLY


def _read_back(story: Story, letter: str) -> float:
    """The leader is restarted, and scrubs its old segments from then on; returns when that was."""
    story.machine(letter).decayed = True
    story.kill(letter)
    story.until(lambda: story.leader() not in (letter, "nobody"), "the election")
    started_ms = story.world.now_ms
    story.start(letter)
    story.until(story.all_in_sync, f"the return of {letter}")
    story.prefer(letter)
    story.run(100)
    return started_ms


def _expect_no_change(story: Story) -> None:
    """To the end of the round, and somewhat longer."""
    before = story.partition().partition_epoch
    story.run(8000)
    expect(story.partition().partition_epoch, before)


def isr_truncated_tail() -> Story:
    """A leader that scrubs its segments is disconnected, and truncates a tail of several segments when it is
    back, in the middle of a round. Its last segment ends earlier now, and continues with records of another
    leader: that is not damage, and it stays in sync.
    """
    story = SlowStory(segment_bytes=TWO_RECORDS)
    for _ in range(3):
        expect(story.write(), ErrorCode.NONE)
    started_ms = _read_back(story, "A")
    story.cut("A", "BCXYZ")
    for _ in range(4):
        expect(story.write(acks=1, at="A"), ErrorCode.NONE)
    story.until(lambda: story.leader() not in ("A", "nobody"), "the election")
    expect(story.write(), ErrorCode.NONE)
    story.tell_logs()
    story.run(started_ms + SECOND_SEGMENT_MS - HEALED_BEFORE_MS - story.world.now_ms)
    story.heal()
    story.until(story.all_in_sync, "the return of A")
    _expect_no_change(story)
    return story.end()


STORIES = (isr_truncated_tail,)
