"""What a voter has when its leader commits: its disk tells, not what its process has found out so far."""

import pytest

from tidelog.errors import ErrorCode
from tidelog.log.checkpoints import RECOVERY_POINTS_FILE
from tidelog.protocol.batch import iterate
from tidelog.protocol.records import Record, encode_batch
from tidelog.replication.driver import ReplicaDriver
from tidelog.sim.checkers.batches import synced_on_disk
from tidelog.sim.checkers.violation import Violation
from tidelog.sim.disk import SimulatedDisk
from tidelog.sim.faults import is_segment
from tidelog.sim.machine import DATA
from tidelog.sim.story import Sent, Story

SLOW_MS, SLOWER_MS = 300.0, 500.0


def acknowledged_by_one_voter_that_restarts(story: Story) -> Sent:
    """B has acknowledged the newest record, and the leader's own sync takes longer than B's restart. C is
    down and lacks it. The new process of B does not know what is synced: its recovery point is lost.
    """
    story.kill("C")
    for letter, delay_ms in (("A", SLOWER_MS), ("B", 0.1)):
        services = story.machine(letter).services
        assert services is not None
        services.disk_delay_ms = (delay_ms, delay_ms)
    leader = story.driver("A")
    end = leader.log.end_offset
    sent = story.send()
    story.until(lambda: leader.log.end_offset > end, "the append")
    b = story.machine("B").node_id
    story.until(lambda: leader.replica.progress[b].holds(leader.log.end_offset), "the acknowledgement of B")
    story.kill("B")
    story.machine("B").disk.open(f"{DATA}/{RECOVERY_POINTS_FILE}", create=True).truncate(0)
    story.machine("B").disk_delay_ms = (SLOW_MS, SLOW_MS)
    story.start("B")
    story.until(lambda: story.has_opened("B"), "that B is back")
    assert story.driver("B").log.synced_end_offset < leader.log.end_offset
    assert leader.replica.high_watermark < leader.log.end_offset
    return sent


def test_a_voter_has_what_its_last_process_had_synced() -> None:
    story = Story(replication_mode="quorum")
    sent = acknowledged_by_one_voter_that_restarts(story)
    assert story.await_answer(sent) is ErrorCode.NONE


def test_a_voter_that_acknowledged_without_a_sync_does_not_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story(replication_mode="quorum")
    monkeypatch.setattr(ReplicaDriver, "may_fetch", True)
    monkeypatch.setattr(ReplicaDriver, "_sync_if_needed", lambda driver: None)
    sent = acknowledged_by_one_voter_that_restarts(story)
    with pytest.raises(Violation, match=r"\[2, 3\] of \[1, 2, 3\] do not have it as they should"):
        story.await_answer(sent)


def test_a_drive_that_has_what_it_says_to_have_synced_in_its_memory_has_it() -> None:
    """Where replicas vote, such a drive writes it before the power fails."""
    story = Story(replication_mode="quorum")
    story.machine("B").lie(is_segment)
    sent = acknowledged_by_one_voter_that_restarts(story)
    assert story.await_answer(sent) is ErrorCode.NONE


def test_only_what_was_synced_counts_with_its_file_and_its_directory() -> None:
    disk = SimulatedDisk()
    first, second = (bytes(encode_batch([Record(offset, 0, None, b"x")])) for offset in (10, 11))
    disk.make_directory("d")
    log = disk.open("d/00000000000000000010.log", create=True)
    log.write_at(0, first)
    log.sync()
    disk.sync_directory("d")
    assert synced_on_disk(disk, "d") == (0, [])  # The name of the directory is not safe.
    disk.sync_directory("")
    log.write_at(len(first), second)
    end, batches = synced_on_disk(disk, "d")
    assert (end, [base for base, _ in batches]) == (11, [10])
    log.sync()
    assert synced_on_disk(disk, "d")[0] == 12


def test_what_was_written_after_a_sync_that_the_drive_only_claims_does_not_count() -> None:
    disk = SimulatedDisk()
    disk.make_directory("d")
    disk.sync_directory("")
    disk.lies = lambda path: True
    log = disk.open("d/f", create=True)
    disk.sync_directory("d")
    log.write_at(0, b"one")
    assert disk.synced_contents("d") == {"d/f": b""}
    log.sync()
    log.write_at(3, b" two")
    assert disk.synced_contents("d") == {"d/f": b"one"}
    disk.stop_lying()
    assert disk.synced_contents("d") == {"d/f": b"one two"}


def test_synced_records_of_another_leader_do_not_count() -> None:
    """A voter has replaced them by committed ones, and these are not synced: after a power failure it has the
    old ones.
    """
    story = Story(replication_mode="quorum")
    assert story.write() is ErrorCode.NONE
    story.run(100)
    checker, [place] = story.cluster.checker, story.cluster.checker.places()
    b = story.machine("B").node_id
    end = story.driver("B").log.end_offset
    assert checker._held_on_disk(place, b, synced=True) == end
    path, content = story.segments("B")[-1]
    *_, (position, newest) = iterate(content)
    file = story.machine("B").disk.open(path)
    file.truncate(position)
    file.write_at(position, bytes(encode_batch([Record(newest.base_offset, 0, None, b"other")])))
    file.sync()
    assert checker._held_on_disk(place, b, synced=True) == newest.base_offset
