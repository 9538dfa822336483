"""Compacted logs of replicas that lose records. The value a2 is the second one of the key a."""

from typing import cast

from tidelog.errors import ErrorCode
from tidelog.log.cleaner import Candidate, Cleaner
from tidelog.log.cleaner_plan import CompactionSettings
from tidelog.protocol.records import Record, encode_batch
from tidelog.sim.checkers.batches import entries_between
from tidelog.sim.story import Sent, Story
from tidelog.sim.telling import StoryFailed, expect
from tidelog.types import TopicPartition

ONE_BATCH = "100"  # in bytes: the next batch does not fit into the same segment
BUFFER_BYTES = 1 << 20


class CompactedStory(Story):
    def __init__(self) -> None:
        super().__init__(
            cleanup_policy="compact",
            segment_bytes=ONE_BATCH,
            min_cleanable_dirty_ratio="0",
        )

    def put(self, value: str) -> ErrorCode | None:
        """Write a value. Its key is its first letter."""
        record = Record(0, int(self.world.now_ms), value[:1].encode(), value.encode(), ())
        sent = Sent(value, self.leader(), -1, bytes(encode_batch([record])))
        self._ask(sent)
        return self.await_answer(sent)

    def held(self, letter: str) -> list[str]:
        log = self.driver(letter).log
        return [entry.value.decode() for entry in entries_between(log, log.start_offset, log.end_offset)]

    def compact(self, letter: str) -> None:
        """Everything but the newest segment."""
        self.tell(f"{letter} syncs and compacts its log")
        driver, disk = self.driver(letter), self.machine(letter).disk
        now_ms = int(self.world.now_ms)
        driver.sync_now()
        cleaner = Cleaner(disk)
        name = TopicPartition("t", 0)
        settings = cast(CompactionSettings, driver.log.config)
        candidate = Candidate(name, driver.log, settings, driver.replica.high_watermark)
        chosen = cleaner.pick([candidate], now_ms, buffer_bytes=BUFFER_BYTES)
        if chosen is None:
            raise StoryFailed("nothing to compact")
        compaction = chosen[1]
        compaction.read_keys()
        while (cleaned := compaction.clean_next()) is not None:
            compaction.swap_in(cleaned, now_ms)
        compaction.make_durable()
        cleaner.finish(name, compaction)
        self.tell_logs()


def unclean_leader_has_older_values() -> Story:
    """A has removed a1 because of a2. An unclean election gives a2 up, and the new leader C still has a1. A
    copies the whole log of C, and so a1 is still there when A leads again.
    """
    story = CompactedStory()
    expect(story.put("a1"), ErrorCode.NONE)
    expect(story.put("b1"), ErrorCode.NONE)
    story.run(500)
    story.kill("C")
    expect(story.put("a2"), ErrorCode.NONE)
    expect(story.put("c1"), ErrorCode.NONE)
    story.run(500)
    story.compact("A")
    story.kill("A")
    story.kill("B")
    story.start("C")
    story.run(3000)
    story.elect_unclean()
    story.start("AB")
    story.until(story.all_in_sync, "the return of A and B")
    story.run(500)
    story.tell_logs()
    story.kill("C")
    story.until(lambda: story.leader() == "A", "the next leader")
    expect(story.held("A"), ["a1", "b1"])
    story.start("C")
    return story.end_whole("C")


STORIES = (unclean_leader_has_older_values,)
