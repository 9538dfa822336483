"""Snapshots of the metadata on disk: what a crash at any moment leaves."""

import pytest

from tidelog.controller import snapshot_file
from tidelog.controller.snapshot_file import Contents
from tidelog.controller.snapshot_store import KEPT, SnapshotStore
from tidelog.errors import StorageError
from tidelog.sim.disk import PowerLoss, SimulatedDisk, everything, nothing
from tidelog.types import SnapshotId
from unit.controller.snapshots import contents, file_of


def a_store(disk: SimulatedDisk) -> SnapshotStore:
    return SnapshotStore(disk, "d")


def a_disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_directory("d")
    disk.sync_directory("")
    return disk


def write(store: SnapshotStore, what: Contents) -> None:
    store.writing(what, 1000)()
    store.written(what.snapshot)


class TestStore:
    def test_the_newest_is_loaded_and_old_ones_go(self) -> None:
        disk = a_disk()
        store = a_store(disk)
        assert store.load_newest() is None
        for end_offset in (10, 20, 30):
            write(store, contents(end_offset))
            store.remove_old()
        assert [entry.name[:20] for entry in disk.list("d")] == [f"{20:020}", f"{30:020}"]
        assert store.count == KEPT
        again = a_store(disk)
        assert again.load_newest() == contents(30)
        assert (again.oldest, again.newest) == (SnapshotId(20, 2), SnapshotId(30, 2))

    def test_a_damaged_one_is_passed_over(self) -> None:
        disk = a_disk()
        store = a_store(disk)
        write(store, contents(10))
        write(store, contents(20))
        disk.flip(f"d/{snapshot_file.name_of(SnapshotId(20, 2))}", 100, 3)
        again = a_store(disk)
        assert again.load_newest() == contents(10)
        assert again.newest == SnapshotId(10, 2)

    def test_one_under_another_name_is_no_good(self) -> None:
        disk = a_disk()
        write(a_store(disk), contents(10))
        names = [snapshot_file.name_of(SnapshotId(end_offset, 2)) for end_offset in (10, 20)]
        disk.rename(f"d/{names[0]}", f"d/{names[1]}")
        assert a_store(disk).load_newest() is None

    @pytest.mark.parametrize("survive", [nothing, everything])
    def test_power_lost_at_any_operation_leaves_it_there_or_not(self, survive: object) -> None:
        operation, found = 0, set()
        while True:
            operation += 1
            disk = a_disk()
            write(a_store(disk), contents(10))
            began = disk.operations
            disk.lose_power_at(began + operation, torn_at=5)
            try:
                write(a_store(disk), contents(20))
            except PowerLoss:
                disk.crash(survive, survive)  # type: ignore[arg-type]
                loaded = a_store(disk).load_newest()
                assert loaded in (contents(10), contents(20))
                found.add(loaded.snapshot.end_offset if loaded else -1)
                assert not [entry.name for entry in disk.list("d") if entry.name.endswith((".tmp", ".part"))]
            else:
                break
        assert operation > 4
        assert 10 in found

    def test_a_received_one_counts_when_all_of_it_is_there(self) -> None:
        disk = a_disk()
        store = a_store(disk)
        data = file_of(contents(50))
        receiving = store.receive(SnapshotId(50, 2))
        for position in range(0, len(data), 100):
            assert receiving.size == position
            receiving.append(data[position : position + 100])
        assert a_store(disk).newest is None  # Gone with the process that was receiving it.
        receiving = store.receive(SnapshotId(50, 2))
        receiving.append(data)
        assert receiving.finish() == contents(50)
        assert a_store(disk).load_newest() == contents(50)

    def test_half_of_one_does_not(self) -> None:
        disk = a_disk()
        receiving = a_store(disk).receive(SnapshotId(50, 2))
        receiving.append(file_of(contents(50))[:-1])
        with pytest.raises(StorageError):
            receiving.finish()
        receiving.abandon()
        assert not disk.list("d")

    def test_pieces_are_passed_on(self) -> None:
        store = a_store(a_disk())
        write(store, contents(10))
        data = file_of(contents(10))
        assert store.read(SnapshotId(10, 2), 0, 1 << 20) == (data, len(data))
        assert store.read(SnapshotId(10, 2), 100, 7) == (data[100:107], len(data))
        assert store.read(SnapshotId(11, 2), 0, 1) is None
