"""Faults of disks that say that all is well: each of them really happens, and the checkers hear of it."""

from typing import Any

import pytest

from tidelog.errors import ErrorCode
from tidelog.log.checkpoints import RECOVERY_POINTS_FILE
from tidelog.protocol.records import Record, encode_batch
from tidelog.sim.checkers.batches import end_on_disk
from tidelog.sim.checkers.violation import Violation
from tidelog.sim.decay import DECAYS, Decay, recovery_point
from tidelog.sim.disk import SimulatedDisk, everything, nothing
from tidelog.sim.faults import FAULTS, is_segment
from tidelog.sim.machine import DATA
from tidelog.sim.story import Story


def written_disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_directory("d")
    disk.sync_directory("")
    for name, text in (("d/f", b"one two three"), ("d/g", b"four")):
        file = disk.open(name, create=True)
        disk.sync_directory("d")
        file.write_at(0, text)
        file.sync()
    return disk


def test_a_lost_write_is_gone_though_it_was_synced() -> None:
    disk = written_disk()
    disk.lose_write("d/f", 4, 3)
    assert disk.contents("d")["d/f"] == b"one \0\0\0 three"
    disk.crash(nothing, nothing)
    assert disk.contents("d")["d/f"] == b"one \0\0\0 three"


def test_a_lost_write_that_was_not_synced_is_not_on_its_way_either() -> None:
    disk = written_disk()
    disk.open("d/g").write_at(4, b" five")
    disk.lose_write("d/g", 2, 5)
    disk.crash(everything, everything)
    assert disk.contents("d")["d/g"] == b"fo\0\0\0\0\0ve"


def test_a_misdirected_write_is_missing_here_and_overwrites_there() -> None:
    disk = written_disk()
    disk.misdirect(("d/f", 8), ("d/g", 1), 5)
    assert disk.contents("d") == {"d/f": b"one two \0\0\0\0\0", "d/g": b"fthr"}  # Files do not grow by it.


def test_a_lying_sync_does_nothing_until_the_drive_gets_to_it() -> None:
    disk = written_disk()
    disk.lies = lambda path: path.endswith("f")
    for name in ("d/f", "d/g"):
        file = disk.open(name)
        file.write_at(0, b"FOUR")
        file.sync()
    disk.crash(nothing, nothing)
    assert disk.contents("d") == {"d/f": b"one two three", "d/g": b"FOUR"}
    disk.open("d/f").write_at(0, b"ONE")
    disk.stop_lying()
    disk.crash(nothing, nothing)
    assert disk.contents("d")["d/f"] == b"ONE two three"


def _story(**configs: Any) -> Story:
    story = Story(**configs)
    for _ in range(4):
        assert story.write() is ErrorCode.NONE
    story.run(8000)
    return story


def test_every_kind_of_decay_damages_batches() -> None:
    for name in DECAYS:
        story = _story()
        told = Decay(story.cluster).faults()[name](story.machine("B").node_id)
        damages = story.cluster.checker.damages.there()
        assert damages, told
        assert {damage.node for damage in damages} >= {story.machine("B").node_id}
        assert len({damage.node for damage in damages}) == (2 if name == "two damaged" else 1)


def test_two_are_damaged_only_where_a_third_has_everything() -> None:
    story = _story()
    decay = Decay(story.cluster)
    decay.strike_two(story.machine("B").node_id)
    assert "nothing" in decay.strike_two(story.machine("A").node_id)


def test_records_of_a_disk_that_lied_are_gone_after_a_power_failure() -> None:
    story = _story(flush_messages="1")
    machine = story.machine("B")
    machine.lie(is_segment)
    assert story.write() is ErrorCode.NONE
    machine.lose_power(nothing)
    assert end_on_disk(machine.disk, f"{DATA}/t-0") == 4
    assert story.cluster.checker.losses.real(next(iter(story.cluster.checker.losses.keys()))) == {
        machine.node_id: 4
    }
    assert not machine.lied
    machine.start()
    story.until(lambda: story.has_opened("B"), "that B is back")
    story.until(lambda: story.driver("B").log.end_offset == 5, "that B has it again")
    story.run(100)
    assert story.write() is ErrorCode.NONE
    story.run(500)
    assert story.cluster.checker.losses.keys() == []


def test_what_a_disk_lied_about_is_lost_once() -> None:
    """The power fails again before the machine was started."""
    story = _story(flush_messages="1")
    machine, losses = story.machine("B"), story.cluster.checker.losses
    machine.lie(is_segment)
    assert story.write() is ErrorCode.NONE
    machine.lose_power(nothing)
    lost = losses.real(next(iter(losses.keys())))
    machine.lose_power(nothing)
    assert losses.real(next(iter(losses.keys()))) == lost == {machine.node_id: 4}


def test_a_promise_is_checked_at_a_power_failure_after_the_process_was_killed() -> None:
    story = _story(flush_messages="1")
    machine = story.machine("B")
    machine.disk.lies = is_segment  # The checkers are not told: as if the broker did not sync.
    assert story.write() is ErrorCode.NONE
    machine.kill()
    with pytest.raises(Violation, match="acknowledged everything before 5, and holds 4"):
        machine.lose_power(nothing)


def test_they_are_drawn_by_name() -> None:
    assert {*DECAYS, "lying syncs"} <= {fault.name for fault in FAULTS}


def test_a_damaged_checkpoint_notes_nothing_as_synced() -> None:
    """Files rot, too, and the next fault must not fall over it."""
    story = _story(flush_messages="1")
    machine, [place] = story.machine("B"), story.cluster.checker.places()
    assert recovery_point(machine, place) == 4
    machine.disk.open(f"{DATA}/{RECOVERY_POINTS_FILE}", create=True).write_at(0, b"?")
    assert recovery_point(machine, place) == 0
    assert Decay(story.cluster).faults()["flipped bit"](machine.node_id)


def test_a_log_on_a_disk_ends_before_a_batch_that_belongs_elsewhere() -> None:
    """It is whole, and its offsets go back: what was written before it is there all the same."""
    disk = SimulatedDisk()
    disk.make_directory("d")
    log = disk.open("d/00000000000000000010.log", create=True)
    first, astray = (bytes(encode_batch([Record(offset, 0, None, b"x")])) for offset in (10, 3))
    log.write_at(0, first + astray)
    assert end_on_disk(disk, "d") == 11
