"""A change of the mode, and a fault of a replica that takes part in it: which replicas hold everything
afterwards, and whether the controllers know. In a log ∎ is a seal, · a leader-change record.
"""

from collections.abc import Callable

from tidelog.errors import ErrorCode
from tidelog.sim.stories.changes import ChangeStory
from tidelog.sim.stories.durability import DurabilityStory, is_seal
from tidelog.sim.stories.operations import delete_records
from tidelog.sim.telling import expect

WAIT_MS = 1000


def leader_has_not_synced() -> ChangeStory:
    """From quorum to isr with flush.messages=1. A majority has synced the log, and the leader has not: it
    becomes a member of the in-sync set, and may lead after a power failure, only after its own sync.
    """
    story = DurabilityStory(replication_mode="quorum", flush_messages="1")
    expect(story.write(), ErrorCode.NONE)
    story.slow_disk("A")
    for _ in range(3):
        expect(story.write(), ErrorCode.NONE)
    story.change("isr")
    story.until(lambda: story.driver("A").replica.sealed_end_offset is not None, "the seal")
    story.run(WAIT_MS)
    story.tell_logs()
    story.power_off("ABC")
    story.repair_disk("A")
    story.start("A")
    story.run(WAIT_MS)
    story.start("BC")
    story.await_change("isr")
    story.until(story.all_in_sync, "the return of all")
    expect(story.read(), ["r1", "r2", "r3", "r4"])
    return story


def fenced_holders_are_eligible() -> ChangeStory:
    """From quorum to isr: the leader reports which replicas hold the sealed log, and the others are fenced
    before the report arrives. They still hold everything, and one of them leads when the leader has lost its
    disk.
    """
    story = ChangeStory(replication_mode="quorum")
    expect(story.write(), ErrorCode.NONE)
    story.network.withheld = lambda sender, receiver, message: is_seal(message)
    story.change("isr")
    story.until(lambda: story.driver("A").replica.sealed_end_offset is not None, "the seal")
    story.run(100)
    story.kill("BC")
    story.until(lambda: story.in_sync() == "A", "the departure of B and C")
    story.network.withheld = None
    story.tell("what A said about its log arrives")
    story.network.release()
    story.await_change("isr")
    _lose_the_disk_of_a(story)
    story.until(lambda: story.leader() in "BC", "another leader")
    return _end(story)


def fenced_backup_is_eligible() -> ChangeStory:
    """From primary-backup with two copies to isr: the backup that holds the primary's log is down when the
    primary pauses. It still holds everything, and leads when the primary has lost its disk.
    """
    story = ChangeStory(replication_mode="primary-backup", min_insync_replicas="2")
    story.kill("C")
    story.until(lambda: story.in_sync() == "AB", "the departure of C")
    expect(story.write(), ErrorCode.NONE)
    story.kill("B")
    story.until(lambda: story.in_sync() == "A", "the departure of B")
    story.change("isr")
    story.await_change("isr")
    _lose_the_disk_of_a(story)
    story.until(lambda: story.leader() == "B", "another leader")
    return _end(story)


def eligible_replica_has_all_for_the_primary() -> ChangeStory:
    """From isr to primary-backup with three copies, while two of them are on replicas that are down. The new
    primary loses its disk, and one of the others is back: it has everything, and no operator is needed.
    """
    story = ChangeStory(min_insync_replicas="3")
    expect(story.write(), ErrorCode.NONE)
    story.kill("BC")
    story.until(lambda: story.in_sync() == "A", "the departure of B and C")
    story.change("primary-backup")
    story.await_change("primary-backup")
    _lose_the_disk_of_a(story, back="AB")
    story.until(lambda: story.in_sync() == "AB", "that A has copied everything back")
    story.start("C")
    return _end(story)


def late_voter_deletes_before_it_leads() -> ChangeStory:
    """From isr to quorum while A is down, which has all records and has not heard that some were deleted. It
    is back, and is elected: its voter tells it where the log begins.
    """
    story = ChangeStory()
    for _ in range(3):
        expect(story.write(), ErrorCode.NONE)
    story.run(500)
    story.kill("A")
    story.until(lambda: story.leader() == "B", "another leader")
    expect(delete_records(story, 2), ErrorCode.NONE)
    story.cut("B", "C")
    story.change("quorum")
    story.run(10)
    story.kill("B")
    story.heal()
    story.start("A")
    story.until(lambda: story.leader() == "A", "an election")
    story.run(100)
    story.tell_logs()
    expect(story.driver("A").log.start_offset, 2)
    story.start("B")
    story.end_whole("B")
    return story


def _lose_the_disk_of_a(story: ChangeStory, back: str = "ABC") -> None:
    story.lose_disk("A")
    story.lose_replica("A")
    story.start(back)
    story.run(WAIT_MS)


def _end(story: ChangeStory) -> ChangeStory:
    story.end_whole("all")
    expect(story.read(), ["r1"])
    return story


STORIES: tuple[Callable[[], ChangeStory], ...] = (
    leader_has_not_synced,
    fenced_holders_are_eligible,
    fenced_backup_is_eligible,
    eligible_replica_has_all_for_the_primary,
    late_voter_deletes_before_it_leads,
)
