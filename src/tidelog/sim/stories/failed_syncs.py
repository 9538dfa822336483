"""A failed sync: the system may drop what it could not write, although the machine stays on."""

from errno import EIO
from typing import Any

from tidelog.controller.messages import OfflineAsk
from tidelog.errors import ErrorCode
from tidelog.sim.story import Story
from tidelog.sim.telling import expect

CHECKPOINTED_MS = 3500
UNSYNCED = "2"  # flush.messages: an acknowledgement does not wait for the sync after the second record


def _refuse_syncs(story: Story, letter: str) -> None:
    story.tell(f"the disk of {letter} fails each sync")
    machine = story.machine(letter)
    machine.disk.failing["sync"] = EIO
    machine.damaged = True  # The checkers know that it may lose what is not synced.


def _lose_reports(story: Story, letter: str) -> None:
    node = story.machine(letter).node_id
    story.tell(f"what {letter} says of failed logs is lost")

    def is_lost(sender: int, receiver: int, message: Any) -> bool:
        return sender == node and isinstance(getattr(message, "ask", None), OfflineAsk)

    story.network.withheld = is_lost


def isr_last_member() -> Story:
    """The last member cannot sync, and its broker is restarted: what was not synced is gone, as after a power
    failure. That is no damage: it leads with what it has, and no operator is needed.
    """
    story = Story(min_insync_replicas="1", flush_messages=UNSYNCED)
    expect(story.write(), ErrorCode.NONE)
    story.kill("BC")
    story.until(lambda: story.in_sync() == "A", "the departure of B and C")
    for _ in range(2):  # The first of them is synced with the history of epochs.
        expect(story.write(), ErrorCode.NONE)
        story.run(CHECKPOINTED_MS)
    _refuse_syncs(story, "A")
    story.write()
    node = story.machine("A").node_id
    story.until(lambda: node in story.partition().offline, "the report of A")
    story.run(CHECKPOINTED_MS)
    story.kill("A")
    story.repair_disk("A")
    story.start("ABC")
    story.until(story.all_in_sync, "the return of all")
    expect(story.write(), ErrorCode.NONE)
    return story.end()


def isr_unreported() -> Story:
    """A follower cannot sync, and its broker is restarted before the controllers hear of it. It has lost
    acknowledged records, and says so when it registers: it is no member until it has fetched them again.
    """
    story = Story(flush_messages=UNSYNCED)
    expect(story.write(), ErrorCode.NONE)
    story.kill("C")
    story.until(lambda: "C" not in story.in_sync(), "the departure of C")
    story.run(CHECKPOINTED_MS)
    _lose_reports(story, "B")
    _refuse_syncs(story, "B")
    for _ in range(2):
        story.write()
    story.run(50)
    story.kill("B")
    story.repair_disk("B")
    story.cut("A", "B")
    story.start("B")
    story.run(500)
    story.kill("A")
    story.network.withheld = None
    story.run(12_000)
    expect(story.leader(), "nobody")
    story.heal()
    story.start("AC")
    story.until(story.all_in_sync, "the return of all")
    expect(story.read(), ["r1", "r2", "r3"])
    return story.end()


STORIES = (isr_last_member, isr_unreported)
