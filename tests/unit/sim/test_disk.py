"""The simulated disk keeps exactly the promises of the storage interface; all crash tests trust it."""

from collections.abc import Callable

import pytest

from tidelog.sim.disk import EIO, ENOSPC, STORY_LINES_MAX, PowerLoss, SimulatedDisk, everything, nothing


@pytest.fixture
def disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_directory("d")
    disk.sync_directory("")
    return disk


def read_raw(disk: SimulatedDisk, path: str) -> bytes:
    file = disk.open(path)
    return file.read_at(0, file.size())


def durable_file(disk: SimulatedDisk, content: bytes) -> None:
    file = disk.open("d/f", create=True)
    file.write_at(0, content)
    file.sync()
    disk.sync_directory("d")


def test_only_what_was_synced_survives(disk: SimulatedDisk) -> None:
    durable_file(disk, b"safe")
    disk.open("d/f").write_at(4, b" and not")
    assert read_raw(disk, "d/f") == b"safe and not"
    disk.crash(survive=nothing)
    assert read_raw(disk, "d/f") == b"safe"


@pytest.mark.parametrize("kept", range(9))
def test_unsynced_bytes_survive_up_to_any_byte(disk: SimulatedDisk, kept: int) -> None:
    durable_file(disk, b"0000")
    file = disk.open("d/f")
    file.write_at(2, b"abc")
    file.write_at(0, b"XY")
    file.truncate(3)
    disk.crash(survive=lambda path, unsynced: min(kept, unsynced))
    states = [b"0000", b"00a0", b"00ab", b"00abc", b"X0abc", b"XYabc", b"XYa"]
    assert read_raw(disk, "d/f") == states[min(kept, 6)]


def test_a_synced_file_without_a_synced_name_is_lost(disk: SimulatedDisk) -> None:
    file = disk.open("d/f", create=True)
    file.write_at(0, b"x")
    file.sync()
    disk.crash(survive=everything, names=nothing)
    assert not disk.exists("d/f")


def test_names_survive_in_order(disk: SimulatedDisk) -> None:
    durable_file(disk, b"x")
    disk.rename("d/f", "d/g")
    disk.open("d/h", create=True)
    disk.remove("d/g")
    disk.crash(names=lambda directory, count: 2)
    assert sorted(entry.name for entry in disk.list("d")) == ["g", "h"]


def test_a_lost_directory_takes_its_files_along(disk: SimulatedDisk) -> None:
    disk.make_directory("d/sub")
    disk.open("d/sub/f", create=True).sync()
    disk.sync_directory("d/sub")
    disk.crash()
    assert not disk.exists("d/sub")
    assert not disk.exists("d/sub/f")


def test_stores_into_a_mapping_are_lost_until_the_file_is_synced(disk: SimulatedDisk) -> None:
    durable_file(disk, b"....")
    mapping = disk.map("d/f", 8, writable=True)
    mapping.view[0:2] = b"ab"
    assert read_raw(disk, "d/f") == b"ab..\0\0\0\0"
    disk.open("d/f").sync()
    mapping.view[2:4] = b"cd"
    disk.crash(survive=nothing)
    assert read_raw(disk, "d/f") == b"ab..\0\0\0\0"


def test_a_sync_after_the_mapping_was_closed_covers_its_stores(disk: SimulatedDisk) -> None:
    durable_file(disk, b"....")
    mapping = disk.map("d/f", 4, writable=True)
    mapping.view[0:2] = b"ab"
    mapping.close()
    disk.open("d/f").write_at(4, b"!")
    disk.open("d/f").sync()
    disk.open("d/f").truncate(3)
    disk.crash(survive=nothing)
    assert read_raw(disk, "d/f") == b"ab..!"


def test_the_story_does_not_grow_for_ever(disk: SimulatedDisk) -> None:
    file = disk.open("d/f", create=True)
    for _ in range(STORY_LINES_MAX + 10):
        file.sync()
    assert len(disk.story) == STORY_LINES_MAX
    assert disk.story[-1] == f"{disk.operations} sync d/f"


def test_a_renamed_directory_keeps_its_files(disk: SimulatedDisk) -> None:
    durable_file(disk, b"x")
    disk.rename("d", "e")
    assert read_raw(disk, "e/f") == b"x"
    disk.crash()
    assert read_raw(disk, "d/f") == b"x"
    disk.rename("d", "e")
    disk.sync_directory("")
    disk.crash()
    assert read_raw(disk, "e/f") == b"x"


def test_a_handle_of_before_the_crash_is_dead(disk: SimulatedDisk) -> None:
    durable_file(disk, b"x")
    file = disk.open("d/f")
    disk.crash()
    with pytest.raises(RuntimeError):
        file.write_at(0, b"y")


def test_faults_come_when_they_were_ordered(disk: SimulatedDisk) -> None:
    durable_file(disk, b"")
    file = disk.open("d/f")
    disk.fail_at(disk.operations + 2, EIO, torn_at=2)
    file.write_at(0, b"one")
    with pytest.raises(OSError, match="simulated failure"):
        file.write_at(3, b"two")
    assert read_raw(disk, "d/f") == b"onetw"
    disk.lose_power_at(disk.operations + 1)
    with pytest.raises(PowerLoss):
        file.sync()


def test_a_full_disk_refuses(disk: SimulatedDisk) -> None:
    disk.capacity_bytes = 10
    file = disk.open("d/f", create=True)
    file.write_at(0, b"x" * 10)
    file.write_at(0, b"y" * 10)
    actions: list[Callable[[], object]] = [lambda: file.write_at(5, b"z" * 6), lambda: file.reserve(11)]
    for action in actions:
        with pytest.raises(OSError) as refused:
            action()
        assert refused.value.errno == ENOSPC
    assert disk.usage("d") == (10, 0)


def test_a_directory_made_anew_keeps_what_was_synced_in_it(disk: SimulatedDisk) -> None:
    """Though the old one of its name had files that were not, and was renamed before."""
    disk.make_directory("d")
    disk.open("d/f", create=True).write_at(0, b"old")
    disk.rename("d", "e")
    disk.make_directory("d")
    file = disk.open("d/f", create=True)
    file.write_at(0, b"new")
    file.sync()
    disk.sync_directory("d")
    disk.sync_directory("")
    disk.crash()
    assert read_raw(disk, "d/f") == b"new"


def test_a_failed_sync_does_not_give_up_what_the_drive_has_in_its_memory(disk: SimulatedDisk) -> None:
    durable_file(disk, b"safe")
    file = disk.open("d/f")
    disk.lies = lambda path: True
    file.write_at(4, b" claimed")
    file.sync()
    file.write_at(12, b" given up")
    disk.failing["sync"] = EIO
    with pytest.raises(OSError, match="simulated failure"):
        file.sync()
    disk.failing.clear()
    disk.stop_lying()
    disk.crash(survive=nothing)
    assert read_raw(disk, "d/f") == b"safe claimed"
