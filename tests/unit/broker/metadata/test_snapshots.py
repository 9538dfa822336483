"""Snapshots of the metadata: when they are written, what a crash leaves, and how followers get them."""

import pytest

from tidelog.controller.image import ClusterImage
from tidelog.controller.snapshot_file import snapshot_named
from tidelog.controller.snapshot_store import KEPT, SnapshotStore
from tidelog.sim.controllers import DIRECTORY
from tidelog.sim.disk import PowerLoss
from unit.broker.controllers import Controllers, quiet

__all__ = ["quiet"]
SMALL = 150  # bytes between snapshots: one every few values


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
    @pytest.mark.slow
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
