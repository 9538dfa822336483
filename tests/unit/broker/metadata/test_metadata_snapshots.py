"""Snapshots of the metadata: what is in them, when they are written, what a crash at any moment leaves."""

from uuid import UUID

import pytest
from controllers import Controllers, quiet
from hypothesis import given
from hypothesis import strategies as st

from tidelog.controller import snapshot_file
from tidelog.controller.image import BrokerImage, ClusterImage, PartitionImage, TopicImage
from tidelog.controller.records import BrokerConfigChanged, ClusterFounded, TopicCreated
from tidelog.controller.snapshot import image_of, texts_of
from tidelog.controller.snapshot_file import Contents, snapshot_named
from tidelog.controller.snapshot_store import KEPT, SnapshotStore
from tidelog.errors import StorageError
from tidelog.sim.controllers import DIRECTORY
from tidelog.sim.disk import PowerLoss, SimulatedDisk, everything, nothing
from tidelog.types import SnapshotId

__all__ = ["quiet"]

TOPIC = UUID(int=7)
SMALL = 150  # bytes between snapshots: one every few values


def an_image(values: int = 3) -> ClusterImage:
    partition = PartitionImage((1, 2, 3), (1, 2), 1, 9, 4, (3,), 1, 5)
    return ClusterImage(
        "cluster",
        {1: BrokerImage(1, UUID(int=1), "h", 9092, "rack", 3, False)},
        {"orders": TopicImage("orders", TOPIC, (partition,), {"retention.ms": "1"})},
        {TOPIC: "orders"},
        {"": {str(number): "x" for number in range(values)}},
        1000,
    )


def contents(end_offset: int = 10, epoch: int = 2, values: int = 3) -> Contents:
    return Contents(SnapshotId(end_offset, epoch), an_image(values), b"voters")


def file_of(what: Contents) -> bytes:
    return b"".join(snapshot_file.encode(what, now_ms=1000))


class TestContents:
    def test_an_image_comes_back_as_it_was(self) -> None:
        assert image_of(texts_of(an_image())) == an_image()
        assert image_of(texts_of(ClusterImage())) == ClusterImage()

    @given(
        st.lists(st.text(min_size=1), unique=True),
        st.dictionaries(st.text(), st.dictionaries(st.text(), st.text())),
    )
    def test_whatever_its_names_and_values(
        self, names: list[str], configs: dict[str, dict[str, str]]
    ) -> None:
        image = ClusterImage().apply(
            [
                ClusterFounded("c"),
                *[TopicCreated(name, UUID(int=place), [[1]], {}) for place, name in enumerate(names)],
                *[BrokerConfigChanged(broker, dict(values)) for broker, values in configs.items()],
            ]
        )
        assert image_of(texts_of(image)) == image

    def test_a_field_that_nobody_wrote_has_its_default(self) -> None:
        texts = [text for text in texts_of(an_image()) if b"next_producer_id" not in text]
        assert image_of(texts).next_producer_id == 0

    @pytest.mark.parametrize(
        "text", [b'{"field":"weather","value":1}', b'{"field":"cluster_id","value":1}', b"\xff", b"{}"]
    )
    def test_what_is_not_understood_is_refused(self, text: bytes) -> None:
        with pytest.raises(StorageError):
            image_of([text])


class TestFile:
    def test_name(self) -> None:
        name = snapshot_file.name_of(SnapshotId(1234, 7))
        assert name == "00000000000000001234-0000000007.checkpoint"
        assert snapshot_named(name) == SnapshotId(1234, 7)
        for other in ("00000000000000001234.log", name + ".part", name + ".tmp", "quorum-state"):
            assert snapshot_named(other) is None

    def test_what_is_written_is_what_is_read(self) -> None:
        assert snapshot_file.decode(file_of(contents())) == contents()

    def test_a_large_image_is_many_batches(self) -> None:
        large = {f"t{n}": TopicImage(f"t{n}", UUID(int=n), (), {"k": "v" * 900}) for n in range(900)}
        image = ClusterImage(topics=large)
        what = Contents(SnapshotId(1, 1), image, b"")
        assert snapshot_file.decode(file_of(what)) == what
        assert len(list(snapshot_file.encode(what, 0))) > 4

    def test_a_file_that_is_cut_anywhere_is_no_snapshot(self) -> None:
        data = file_of(contents())
        for size in range(len(data)):
            with pytest.raises(StorageError):
                snapshot_file.decode(data[:size])
        with pytest.raises(StorageError):
            snapshot_file.decode(data + b"x")

    def test_nor_is_one_with_a_flipped_bit_in_what_it_says(self) -> None:
        data = file_of(contents())
        unharmed = 0
        for position in range(len(data)):
            damaged = bytearray(data)
            damaged[position] ^= 0x10
            try:
                # A batch's offset and epoch are not under its CRC, and nobody reads them here.
                assert snapshot_file.decode(bytes(damaged)) == contents()
                unharmed += 1
            except StorageError:
                pass
        assert unharmed <= 12 * len(list(snapshot_file.encode(contents(), 0)))


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


def log_of(cluster: Controllers, node_id: int) -> tuple[int, int]:
    log = cluster.quorum(node_id).driver.log
    return log.start_offset, log.end_offset


def snapshots_on(cluster: Controllers, node_id: int) -> list[int]:
    found = [snapshot_named(entry.name) for entry in cluster.machines[node_id].disk.list(DIRECTORY)]
    return sorted(each.end_offset for each in found if each is not None)


class TestLoneNode:
    def test_a_snapshot_is_written_and_the_log_dropped_behind_it(self) -> None:
        cluster = Controllers(1, snapshot_bytes=SMALL).begin()
        cluster.write_some(40)
        cluster.run(100)
        start_offset, end_offset = log_of(cluster, 1)
        assert end_offset - start_offset < 20
        assert len(snapshots_on(cluster, 1)) == KEPT
        assert snapshots_on(cluster, 1)[0] == start_offset  # The log reaches back to the older one.

    def test_it_begins_again_with_it(self) -> None:
        cluster = Controllers(1, snapshot_bytes=SMALL).begin()
        cluster.write_some(40)
        image = cluster.quorum(1).image
        cluster.machines[1].lose_power()
        cluster.machines[1].start()
        assert cluster.quorum(1).image != ClusterImage()  # Already before anybody leads.
        cluster.until(cluster.is_whole)
        assert cluster.quorum(1).image == image

    def test_after_a_while_without_much_news_there_is_one_as_well(self) -> None:
        cluster = Controllers(1).begin()  # Which would need a gigabyte.
        cluster.write_some(3)
        assert snapshots_on(cluster, 1) == []
        cluster.run(6000)
        assert len(snapshots_on(cluster, 1)) == 1
        cluster.run(60_000)
        assert len(snapshots_on(cluster, 1)) == 1  # Nothing new is nothing to write.

    def test_a_damaged_newest_one_costs_nothing(self) -> None:
        cluster = Controllers(1, snapshot_bytes=SMALL).begin()
        cluster.write_some(40)
        cluster.run(100)
        machine = cluster.machines[1]
        image = cluster.quorum(1).image
        machine.kill()
        newest = snapshots_on(cluster, 1)[-1]
        name = next(entry.name for entry in machine.disk.list(DIRECTORY) if f"{newest:020}-" in entry.name)
        machine.disk.flip(f"{DIRECTORY}/{name}", 120, 1)
        machine.start()
        cluster.until(cluster.is_whole)
        assert cluster.quorum(1).image == image

    def test_two_damaged_ones_stop_it_and_it_says_what_to_do(self) -> None:
        cluster = Controllers(1, snapshot_bytes=SMALL).begin()
        cluster.write_some(40)
        cluster.run(100)
        machine = cluster.machines[1]
        machine.kill()
        for entry in machine.disk.list(DIRECTORY):
            if snapshot_named(entry.name) is not None:
                machine.disk.flip(f"{DIRECTORY}/{entry.name}", 120, 1)
        machine.start()
        assert not machine.alive
        assert "Restore the snapshot (*.checkpoint) from a copy" in cluster.world.trace[-1]

    def test_one_that_cannot_be_written_costs_no_decision(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Without a snapshot the log still tells everything."""

        def fail() -> None:
            raise OSError("no space left")

        with monkeypatch.context() as patch:
            patch.setattr(SnapshotStore, "writing", lambda self, what, now_ms: fail)
            cluster = Controllers(1, snapshot_bytes=SMALL).begin()
            cluster.write_some(20)
            assert log_of(cluster, 1)[0] == 0
        cluster.run(70_000)  # It tries again after a minute.
        assert len(snapshots_on(cluster, 1)) == 1
        cluster.write_some(20)
        assert log_of(cluster, 1)[0] > 0
        cluster.machines[1].lose_power()
        cluster.machines[1].start()
        cluster.until(cluster.is_whole)
        cluster.check_acknowledged()

    @pytest.mark.parametrize("torn_at", [0, 7])
    def test_power_lost_at_any_operation_loses_nothing_acknowledged(self, torn_at: int) -> None:
        """Appending, rolling, writing snapshots, dropping segments and old snapshots: every moment."""
        last = self._operations()
        assert last > 200
        for operation in range(3, last, 2 if torn_at else 3):
            cluster = Controllers(1, seed=operation, snapshot_bytes=SMALL)
            machine = cluster.machines[1]
            machine.disk.lose_power_at(operation, torn_at)
            try:
                cluster.begin()
                cluster.write_some(12)
            except PowerLoss:
                pass
            machine.lose_power()
            machine.start()
            cluster.until(cluster.active, step_ms=20)
            cluster.check_acknowledged()
            cluster.write_some(1)

    @staticmethod
    def _operations() -> int:
        cluster = Controllers(1, snapshot_bytes=SMALL).begin()
        cluster.write_some(12)
        return cluster.machines[1].disk.operations


class TestFollowers:
    def away(self, cluster: Controllers, values: int = 40) -> int:
        """Somebody who was away while the others went on and dropped their logs' beginnings."""
        machine = cluster.followers()[0]
        machine.kill()
        cluster.write_some(values)
        cluster.run(200)
        leader = cluster.active_machine()
        assert log_of(cluster, leader.node_id)[0] > 10
        return machine.node_id

    def test_who_was_away_for_too_long_gets_a_snapshot(self) -> None:
        cluster = Controllers(3, snapshot_bytes=SMALL).begin()
        node_id = self.away(cluster)
        cluster.machines[node_id].start()
        cluster.until(cluster.is_whole)
        assert cluster.quorum(node_id).image == cluster.active().image  # type: ignore[union-attr]
        assert log_of(cluster, node_id)[0] > 10
        cluster.write_some(3)
        cluster.until(cluster.is_whole)
        cluster.check_acknowledged()

    def test_an_observer_as_well(self) -> None:
        cluster = Controllers(3, 1, snapshot_bytes=SMALL).begin()
        cluster.machines[4].lose_disk()
        cluster.write_some(40)
        cluster.run(200)
        cluster.machines[4].start()
        cluster.until(cluster.is_whole)
        assert cluster.quorum(4).image == cluster.active().image  # type: ignore[union-attr]
        assert cluster.quorum(4).voters.latest.ids == {1, 2, 3}

    def test_who_is_only_a_little_behind_gets_records(self) -> None:
        cluster = Controllers(3, snapshot_bytes=SMALL).begin()
        cluster.write_some(20)
        machine = cluster.followers()[0]
        machine.kill()
        cluster.write_some(3)
        cluster.run(200)
        start = log_of(cluster, cluster.active_machine().node_id)[0]
        machine.start()
        ended = log_of(cluster, machine.node_id)[1]
        assert ended >= start
        cluster.until(cluster.is_whole)

    def test_in_pieces_over_a_bad_network(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("tidelog.replication.attachments.snapshots.PIECE_BYTES", 64)
        cluster = Controllers(3, snapshot_bytes=SMALL, seed=5).begin()
        node_id = self.away(cluster)
        weather = cluster.network.weather
        weather.lost, weather.doubled, weather.late = 0.1, 0.2, 0.2
        cluster.machines[node_id].start()
        cluster.until(lambda: log_of(cluster, node_id)[0] > 10, 60_000, step_ms=20)
        cluster.network.weather.lost = weather.doubled = weather.late = 0.0
        cluster.until(cluster.is_whole)
        cluster.check_acknowledged()

    def test_the_leader_changes_meanwhile(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("tidelog.replication.attachments.snapshots.PIECE_BYTES", 64)
        cluster = Controllers(5, snapshot_bytes=SMALL).begin()
        node_id = self.away(cluster)
        leader = cluster.active_machine()
        cluster.machines[node_id].start()
        snapshots = cluster.quorum(node_id).driver.snapshots
        assert snapshots is not None
        cluster.until(lambda: snapshots.fetching)
        cluster.run(5)
        leader.kill()
        cluster.until(cluster.active)
        cluster.until(lambda: log_of(cluster, node_id)[0] > 10)
        leader.start()
        cluster.until(cluster.is_whole)
        cluster.check_acknowledged()

    def test_what_it_had_besides_goes(self) -> None:
        """A tail that nobody else has, of an epoch that was over when the leader's log begins."""
        cluster = Controllers(3, snapshot_bytes=SMALL).begin()
        cluster.write_some(3)
        old = cluster.active_machine()
        others = [node_id for node_id in cluster.machines if node_id != old.node_id]
        cluster.network.part([old.node_id], others)
        for _ in range(30):
            cluster.write()  # To the old leader: written, never committed.
        tail = log_of(cluster, old.node_id)[1]
        cluster.until(lambda: cluster.active() and not old.leads)
        while log_of(cluster, cluster.active_machine().node_id)[0] == 0:
            cluster.write_some(1)
        cluster.run(100)
        assert 0 < log_of(cluster, cluster.active_machine().node_id)[0] < tail
        cluster.network.heal()
        cluster.until(cluster.is_whole)
        cluster.check_acknowledged()

    @pytest.mark.slow
    def test_power_lost_at_any_operation_of_receiving_one(self) -> None:
        """Half a file, a whole one, a log that is being dropped, and its new beginning."""
        first, last = self._receiving(None)
        assert last - first > 12
        for operation in range(first, last + 1):
            self._receiving(operation)

    def _receiving(self, lose_power_at: int | None) -> tuple[int, int]:
        cluster = Controllers(3, snapshot_bytes=SMALL, seed=2).begin()
        node_id = self.away(cluster, 25)
        machine = cluster.machines[node_id]
        machine.start()
        first = machine.disk.operations + 1
        if lose_power_at is not None:
            machine.disk.lose_power_at(lose_power_at)
        try:
            cluster.until(lambda: log_of(cluster, node_id)[0] > 10)
            cluster.run(50)
        except PowerLoss:
            machine.lose_power()
            machine.start()
            assert machine.alive
        last = machine.disk.operations
        cluster.until(cluster.is_whole)
        cluster.check_acknowledged()
        return first, last
