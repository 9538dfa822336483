"""Logs that fail writes and logs that are damaged: only the latter lack synced records."""

from errno import EIO
from typing import Any

from tidelog.controller.messages import OfflineAsk
from tidelog.errors import ErrorCode
from tidelog.sim.stories.quorum_topics import Vote
from tidelog.sim.story import Story
from tidelog.sim.telling import expect

CHECKPOINTED_MS = 3500


def _refuse(story: Story, letter: str, operation: str) -> None:
    story.tell(f"the disk of {letter} fails each {operation}")
    story.machine(letter).disk.failing[operation] = EIO


def _is_offline(story: Story, letter: str) -> bool:
    return story.machine(letter).node_id in story.partition().offline


def _lose_repairs(story: Story, letter: str) -> None:
    node = story.machine(letter).node_id
    story.tell(f"what {letter} says of repaired logs is lost")

    def is_lost(sender: int, receiver: int, message: Any) -> bool:
        ask = getattr(message, "ask", None)
        return sender == node and isinstance(ask, OfflineAsk) and ask.healed

    story.network.withheld = is_lost


def quorum_refused_a_write() -> Vote:
    """A voter's disk fails a write, and another voter returns with an empty disk. The first has acknowledged
    nothing that it had not synced: after a restart it forms a majority with the third, and they elect a
    leader.
    """
    story = Vote()
    expect(story.write(), ErrorCode.NONE)
    story.run(CHECKPOINTED_MS)
    _refuse(story, "B", "write")
    expect(story.write(), ErrorCode.NONE)
    story.until(lambda: _is_offline(story, "B"), "the report of B")
    story.lose_disk("C")
    story.kill("AB")
    story.repair_disk("B")
    story.start("BC")
    story.run(5000)
    expect(story.elected(), "nobody")
    story.start("A")
    story.await_leader(not_by="")
    story.await_return("C")
    expect(story.read(at=story.elected()), ["r1", "r2"])
    return story


def isr_refused_a_write() -> Story:
    """The leader is the last member when its disk fails a write. If an acknowledgement means "synced", it
    holds everything after a restart, and leads.
    """
    story = Story(flush_messages="1", min_insync_replicas="1")
    expect(story.write(), ErrorCode.NONE)
    story.kill("BC")
    story.until(lambda: story.in_sync() == "A", "the departure of B and C")
    expect(story.write(), ErrorCode.NONE)
    _refuse(story, "A", "write")
    expect(story.write(), ErrorCode.KAFKA_STORAGE_ERROR)
    story.until(lambda: _is_offline(story, "A"), "the report of A")
    epoch = story.partition().leader_epoch
    story.kill("A")
    story.repair_disk("A")
    story.start("A")
    story.until(lambda: story.is_led_anew(epoch), "an election")
    expect(story.read(), ["r1", "r2"])
    story.start("BC")
    story.until(story.all_in_sync, "the return of B and C")
    return story.end()


def isr_recovery_that_failed() -> Story:
    """The last member loses power, and with it records that were not synced. Its disk fails while
    the log is recovered, and the broker is restarted. Its log ends before the high watermark, which is still
    no damage: the broker leads with what it has, and no operator is needed.
    """
    story = Story(min_insync_replicas="1")
    expect(story.write(), ErrorCode.NONE)
    story.kill("BC")
    story.until(lambda: story.in_sync() == "A", "the departure of B and C")
    for _ in range(2):  # The first of them is synced with the history of epochs.
        expect(story.write(), ErrorCode.NONE)
        story.run(CHECKPOINTED_MS)
    story.power_off("A")
    story.start("A")
    _refuse(story, "A", "create")
    story.until(lambda: _is_offline(story, "A"), "the report of A")
    story.run(1000)
    story.kill("A")
    story.repair_disk("A")
    story.start("ABC")
    story.until(story.all_in_sync, "the return of all")
    expect(story.write(), ErrorCode.NONE)
    return story.end()


def isr_damaged_and_started_again() -> Story:
    """The last follower that may lead returns with a damaged record while the leader is frozen. It has
    reported the damage, and is restarted before it could report the repair: its log is in order then, but the
    record is missing. It is not elected, and nothing is lost.
    """
    story = Story(flush_messages="1")
    expect(story.write(), ErrorCode.NONE)
    story.kill("C")
    story.until(lambda: "C" not in story.in_sync(), "the departure of C")
    expect(story.write(), ErrorCode.NONE)
    story.run(CHECKPOINTED_MS)
    story.kill("B")
    story.until(lambda: story.in_sync() == "A", "the departure of B")
    story.freeze("A")
    story.flip_bit("B", newest=True)
    _lose_repairs(story, "B")
    story.start("B")
    story.until(lambda: _is_offline(story, "B"), "the report of B")
    story.run(200)
    story.kill("B")
    story.network.withheld = None
    story.start("B")
    story.run(8000)
    expect(story.leader(), "nobody")
    story.thaw("A")
    story.start("C")
    story.until(story.all_in_sync, "the return of B and C")
    expect(story.read(), ["r1", "r2"])
    return story.end()


STORIES = (
    quorum_refused_a_write,
    isr_refused_a_write,
    isr_damaged_and_started_again,
    isr_recovery_that_failed,
)
