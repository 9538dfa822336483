"""A leader hears of another in-sync set and of another ``min.insync.replicas`` at the same time: mode
``isr``, three replicas. With one of them and not the other, it would commit what a replica that may lead
lacks.
"""

from tidelog.errors import ErrorCode
from tidelog.sim.stories.seams import SeamStory
from tidelog.sim.telling import expect

DETECTED_MS = 600  # the end of a process, by its closed connections


class MinimumStory(SeamStory):
    def eligible(self) -> str:
        return self._list(self.partition().eligible)


def lower_minimum_and_smaller_set() -> MinimumStory:
    """All three copies are required. C is down, so A commits nothing more, and C may still lead. B ends, too,
    and then two copies are enough. A hears of both at once: the record that A and B have is not committed,
    because C may lead without it.
    """
    story = _with_a_record_that_c_lacks("3")
    story.tell("metadata arrives late at A")
    story.hold_metadata("A", after=0)
    story.kill("B")
    story.run(DETECTED_MS)
    expect((story.in_sync(), story.eligible()), ("A", "B C"))
    story.set_for_topic("min.insync.replicas", "2")
    return _c_leads(story)


def smaller_set_and_higher_minimum() -> MinimumStory:
    """One copy is enough, and B is a member. The minimum becomes 2, and then B ends. A hears of both at once:
    alone, with the old minimum, it would commit what B lacks.
    """
    story = MinimumStory(min_insync_replicas="1")
    expect(story.write(), ErrorCode.NONE)
    story.cut("A", "BC")
    expect(story.write(acks=1), ErrorCode.NONE)
    story.tell("metadata arrives late at A")
    story.hold_metadata("A", after=0)
    story.set_for_topic("min.insync.replicas", "2")
    story.kill("BC")
    story.run(DETECTED_MS)
    expect((story.in_sync(), story.eligible()), ("A", "B C"))
    story.start("C")
    story.run(DETECTED_MS)
    return _c_leads(story)


def _with_a_record_that_c_lacks(minimum: str) -> MinimumStory:
    story = MinimumStory(min_insync_replicas=minimum)
    expect(story.write(), ErrorCode.NONE)
    story.run(500)
    story.kill("C")
    story.until(lambda: story.in_sync() == "AB", "the departure of C")
    story.cut("A", "C")
    story.start("C")
    expect(story.write(acks=1), ErrorCode.NONE)
    story.run(1000)
    story.tell_logs()
    return story


def _c_leads(story: MinimumStory) -> MinimumStory:
    story.tell("the metadata arrives at A")
    story.network.withheld = None
    story.network.release()
    story.run(200)
    expect(story.driver("A").replica.high_watermark, 1)
    story.kill("A")
    story.until(lambda: story.leader() == "C", "another leader")
    story.heal()
    story.start("AB")
    story.until(story.all_in_sync, "the return of A and B")
    expect(story.read(), ["r1"])
    return story.end()


STORIES = (lower_minimum_and_smaller_set, smaller_set_and_higher_minimum)
