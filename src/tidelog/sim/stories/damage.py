"""Records that are missing when a broker comes back, and that a crash cannot have taken: in no mode does a
replica that lost them count as one that has them.
"""

from typing import Any

from tidelog.controller.messages import OfflineAsk
from tidelog.errors import ErrorCode
from tidelog.sim.machine import DATA
from tidelog.sim.stories.primary_backup_group import is_missed, is_whole
from tidelog.sim.stories.quorum_topics import Vote
from tidelog.sim.story import TOPIC, Story
from tidelog.sim.telling import expect

CHECKPOINTED_MS = 3500
LOST_FOR_MS = 2000


def _two_hold_two_records(story: Story) -> None:
    """C missed the second record; A and B have checkpointed their logs."""
    expect(story.write(), ErrorCode.NONE)
    story.kill("C")
    story.until(lambda: "C" not in story.in_sync(), "the departure of C")
    expect(story.write(), ErrorCode.NONE)
    story.run(CHECKPOINTED_MS)


def _last_hope_is_damaged(story: Story) -> None:
    """B is killed, and the leader frozen: B may lead, if it holds what was committed."""
    story.kill("B")
    story.until(lambda: story.in_sync() == "A", "the departure of B")
    story.freeze("A")


def _nobody_leads_before_a_goes_on(story: Story) -> None:
    story.run(8000)
    expect(story.leader(), "nobody")
    story.thaw("A")


def isr() -> Story:
    """The last follower that may lead returns with a damaged record, synced and committed, while the leader
    is frozen: it is not elected, and nothing is lost.
    """
    story = Story(flush_messages="1")
    _two_hold_two_records(story)
    _last_hope_is_damaged(story)
    story.flip_bit("B", newest=True)
    story.start("B")
    _nobody_leads_before_a_goes_on(story)
    story.start("C")
    story.until(story.all_in_sync, "the return of B and C")
    expect(story.read(), ["r1", "r2"])
    return story.end()


def isr_killed_before_it_was_told() -> Story:
    """A broker finds a damaged record, repairs its log and is killed before it could report that: it has
    recorded it on disk, and is not elected although its log is in order.
    """
    story = Story(flush_messages="1")
    _two_hold_two_records(story)
    _last_hope_is_damaged(story)
    story.flip_bit("B", newest=True)
    _lose_reports(story, "B")
    story.start("B")
    story.until(lambda: story.has_opened("B"), "the log of B")
    story.run(50)
    story.tell_logs()
    story.kill("B")
    story.network.withheld = None
    story.start("B")
    _nobody_leads_before_a_goes_on(story)
    story.start("C")
    story.until(story.all_in_sync, "the return of B and C")
    expect(story.read(), ["r1", "r2"])
    return story.end()


def isr_comes_back_to_nobody() -> Story:
    """The last follower that may lead returns with a damaged record when there is no leader: it is not
    unfenced before the controllers know that it must not lead.
    """
    story = Story(flush_messages="1")
    _two_hold_two_records(story)
    _last_hope_is_damaged(story)
    story.flip_bit("B", newest=True)
    story.until(lambda: story.leader() == "nobody", "the end of the leadership")
    _delay_reports(story, "B")
    story.start("B")
    _nobody_leads_before_a_goes_on(story)
    story.until(lambda: story.in_sync() == "AB", "the return of B")
    expect(story.read(), ["r1", "r2"])
    return story.end()


def isr_not_synced() -> Story:
    """Unsynced records survive a killed process: damage in them counts as well."""
    story = Story()
    _two_hold_two_records(story)
    _last_hope_is_damaged(story)
    story.flip_bit("B", newest=True)
    story.start("B")
    _nobody_leads_before_a_goes_on(story)
    story.start("C")
    story.until(story.all_in_sync, "the return of B and C")
    expect(story.read(), ["r1", "r2"])
    return story.end()


def isr_directory_removed() -> Story:
    """The partition's directory is removed while the broker is down: the same as damage."""
    story = Story(flush_messages="1")
    _two_hold_two_records(story)
    _last_hope_is_damaged(story)
    _remove_directory(story, "B")
    story.start("B")
    _nobody_leads_before_a_goes_on(story)
    story.start("C")
    story.until(story.all_in_sync, "the return of B and C")
    expect(story.read(), ["r1", "r2"])
    return story.end()


def isr_torn_write() -> Story:
    """A process is killed within a write: the torn part was never acknowledged and is not damage. The replica
    leads.
    """
    story = Story(flush_messages="1")
    _two_hold_two_records(story)
    _last_hope_is_damaged(story)
    story.tell("B was killed within a write")
    story.tear("B")
    story.start("B")
    story.until(lambda: story.leader() == "B", "an election")
    expect(story.read(), ["r1", "r2"])
    story.thaw("A")
    story.start("C")
    story.until(story.all_in_sync, "the return of A and C")
    return story.end()


def primary_backup_double() -> Story:
    """The primary returns with a damaged record that only it and a frozen backup had: it waits for that
    backup, and does not lead replicas that lack the record.
    """
    story = Story(replication_mode="primary-backup", min_insync_replicas="2", flush_messages="1")
    _two_hold_two_records(story)
    story.kill("A")
    story.until(lambda: is_missed(story), "the end of the leadership")
    story.freeze("B")
    story.flip_bit("A", newest=True)
    story.start("AC")
    story.run(8000)
    story.thaw("B")
    story.until(lambda: is_whole(story), "the return of all")
    expect(story.read(), ["r1", "r2"])
    return story.end()


def quorum() -> Vote:
    """A voter returns with a damaged record, together with one that never had it, while the leader is frozen:
    it does not vote, so they elect no leader, and nothing is lost.
    """
    story = Vote()
    expect(story.write(), ErrorCode.NONE)
    story.kill("C")
    story.run(500)
    expect(story.write(), ErrorCode.NONE)
    story.run(CHECKPOINTED_MS)
    story.kill("B")
    story.freeze("A")
    story.flip_bit("B", newest=True)
    story.start("BC")
    story.run(8000)
    expect(story.elected(), "A")
    story.thaw("A")
    story.await_return("B")
    expect(story.read(at=story.elected()), ["r1", "r2"])
    return story


def _lose_reports(story: Story, letter: str) -> None:
    """The broker's reports about its logs never arrive."""
    node = story.machine(letter).node_id
    story.tell(f"what {letter} says of its logs is lost")
    story.network.withheld = lambda sender, receiver, message: (
        sender == node and isinstance(getattr(message, "ask", None), OfflineAsk)
    )


def _delay_reports(story: Story, letter: str) -> None:
    """Only the broker's reports about its logs are lost for a while."""
    machine = story.machine(letter)
    send, until_ms = machine.send, story.world.now_ms + LOST_FOR_MS

    def send_some(to: int, message: Any, *, in_order: bool = False) -> None:
        if story.world.now_ms > until_ms or not isinstance(getattr(message, "ask", None), OfflineAsk):
            send(to, message, in_order=in_order)

    story.tell(f"what {letter} says of its logs will be lost for {LOST_FOR_MS / 1000:.0f} s")
    machine.send = send_some  # type: ignore[method-assign]


def _remove_directory(story: Story, letter: str) -> None:
    story.tell(f"somebody removes the partition's directory on {letter}")
    machine, directory = story.machine(letter), f"{DATA}/{TOPIC}-0"
    for path in machine.disk.contents(directory):
        machine.disk.remove(path)
    machine.disk.remove_directory(directory)
    story.lose_replica(letter)


STORIES = (
    isr, isr_killed_before_it_was_told, isr_comes_back_to_nobody, isr_not_synced, isr_directory_removed,
    isr_torn_write, primary_backup_double, quorum,
)  # fmt: skip
