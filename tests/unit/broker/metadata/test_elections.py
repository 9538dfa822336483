"""How fast the controllers agree on an active one, and that nothing but a fault makes them change it."""

from collections.abc import Callable
from functools import partial
from typing import Any
from uuid import UUID

import pytest

from tidelog.controller.records import (
    BrokerFencingChanged,
    BrokerRegistered,
    ClusterFounded,
    MetadataRecord,
)
from tidelog.services import ignore
from tidelog.sim.controllers import ControllerMachine
from unit.broker.controllers import Controllers, quiet

__all__ = ["quiet"]

SEEDS = range(12)


def has_leaders(cluster: Controllers, count: int) -> bool:
    return len(cluster.leaders()) == count


def has_stepped_down(machine: Any) -> bool:
    return not machine.leads


def failover_ms(seed: int, fault: Callable[[Controllers, ControllerMachine], None], size: int = 3) -> float:
    cluster = Controllers(size, seed=seed).begin()
    cluster.run(cluster.world.chance.uniform(300, 900))
    machine = cluster.active_machine()
    epoch = cluster.quorum(machine.node_id).election.epoch
    fault(cluster, machine)
    return cluster.until(
        lambda: any(each.active and each.election.epoch > epoch for each in cluster.quorums())
    )


def middle(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


class TestBeginning:
    def test_a_lone_voter_elects_itself_at_once(self) -> None:
        for seed in SEEDS:
            cluster = Controllers(1, seed=seed)
            cluster.start()
            assert cluster.until(cluster.active) <= 10

    @pytest.mark.parametrize("size", [3, 5])
    def test_several_new_nodes_agree_within_tens_of_milliseconds(self, size: int) -> None:
        for seed in SEEDS:
            cluster = Controllers(size, seed=seed)
            cluster.start()
            assert cluster.until(cluster.active) <= 150

    def test_the_last_one_to_start_makes_the_difference(self) -> None:
        """Nobody founds a cluster while one that may know of an older one has not answered; then at once."""
        cluster = Controllers(3)
        cluster.machines[1].start()
        cluster.machines[2].start()
        cluster.run(1000)
        assert cluster.active() is None
        cluster.machines[3].start()
        assert cluster.until(cluster.active) <= 150

    def test_two_of_three_found_a_cluster_when_the_third_stays_away(self) -> None:
        cluster = Controllers(3)
        cluster.machines[1].start()
        cluster.machines[3].start()
        assert 3000 <= cluster.until(cluster.active) <= 4000


class TestFailover:
    @pytest.mark.parametrize("size", [3, 5])
    def test_a_killed_leader_is_replaced_at_once(self, size: int) -> None:
        took = [failover_ms(seed, lambda _, machine: machine.kill(), size) for seed in SEEDS]
        assert middle(took) <= 80
        assert max(took) <= 150

    def test_a_frozen_leader_is_replaced_when_it_was_silent_for_too_long(self) -> None:
        took = [failover_ms(seed, lambda _, machine: machine.pause()) for seed in SEEDS]
        assert max(took) <= 1200

    def test_a_leader_that_is_cut_off_is_replaced_and_steps_down(self) -> None:
        def cut_off(cluster: Controllers, machine: ControllerMachine) -> None:
            others = [node_id for node_id in cluster.machines if node_id != machine.node_id]
            cluster.network.part([machine.node_id], others)

        for seed in SEEDS:
            cluster = Controllers(seed=seed).begin()
            machine = cluster.active_machine()
            cut_off(cluster, machine)
            cluster.until(partial(has_leaders, cluster, 2), 1300)
            cluster.until(partial(has_stepped_down, machine), 1000)
            cluster.write_some()  # On the other side.
            cluster.network.heal()
            cluster.until(cluster.is_whole)
            cluster.check_acknowledged()

    @pytest.mark.slow
    def test_split_votes_do_not_repeat(self) -> None:
        """Two survivors of three that ask at the very same moment."""
        for seed in SEEDS:
            cluster = Controllers(seed=seed).begin()
            cluster.network.weather.delay_ms = (3.0, 3.0)
            epoch = cluster.active_machine().quorum.election.epoch  # type: ignore[union-attr]
            cluster.active_machine().lose_power()
            for machine in cluster.followers():
                assert machine.quorum is not None
                quorum, now_ms = machine.quorum, machine.services.uptime_ms()  # type: ignore[union-attr]
                machine.host.voting.leader_lost(quorum.driver, quorum.leader, now_ms, 0.5)  # type: ignore[union-attr]
            assert cluster.until(cluster.active) <= 250
            assert cluster.active().election.epoch <= epoch + 2  # type: ignore[union-attr]


class TestCalm:
    """A busy machine on which processes do not run for a third of a second, again and again."""

    @pytest.mark.parametrize("pause_ms", [100, 500, 2000])
    def test_standstills_make_nobody_elect(self, pause_ms: float) -> None:
        for seed in range(3):
            cluster = Controllers(seed=seed).begin()
            world, epoch = cluster.world, cluster.active_machine().quorum.election.epoch  # type: ignore[union-attr]

            def stall(machine: ControllerMachine, cluster: Controllers = cluster) -> None:
                chance = cluster.world.chance
                machine.pause()
                length_ms = chance.uniform(300, 500)
                cluster.world.after(length_ms, machine.resume)
                cluster.world.after(length_ms + chance.expovariate(1 / pause_ms), lambda: stall(machine))

            for machine in cluster.machines.values():
                world.after(world.chance.uniform(0, 1000), lambda machine=machine: stall(machine))  # type: ignore[misc]
            cluster.run(60_000)
            assert {quorum.election.epoch for quorum in cluster.quorums()} == {epoch}

    def test_nor_does_a_connection_that_breaks(self) -> None:
        """One follower alone takes the leader for dead; the other one knows better."""
        for seed in SEEDS:
            cluster = Controllers(seed=seed).begin()
            leader = cluster.active_machine()
            epoch = cluster.quorum(leader.node_id).election.epoch
            for machine in cluster.followers()[:1] * 10:
                cluster.network.close(leader.node_id, machine.node_id, [leader.node_id, machine.node_id])
                cluster.run(500)
            assert cluster.leaders() == [leader.node_id]
            assert cluster.quorum(leader.node_id).election.epoch == epoch
            cluster.until(cluster.is_whole)

    def test_a_follower_that_was_away_unseats_nobody(self) -> None:
        cluster = Controllers().begin()
        leader, away = cluster.active_machine(), cluster.followers()[0]
        epoch = cluster.quorum(leader.node_id).election.epoch
        away.kill()
        cluster.write_some(5)
        cluster.run(5000)
        away.start()
        cluster.until(cluster.is_whole)
        assert cluster.quorum(leader.node_id).election.epoch == epoch


class TestOwnDecisions:
    def test_what_a_lonely_controller_decides_ends_the_session_of_its_own_broker_only_if_it_says_so(
        self,
    ) -> None:
        cluster = Controllers(3).begin()
        active = cluster.active()
        assert active is not None
        broker = BrokerRegistered(active.election.me, UUID(int=1), "here", 9092, broker_epoch=1)

        def decide(*decided: MetadataRecord) -> bool:
            active.submit(lambda image: list(decided), ignore)
            return active.may_have_ended_session(active.election.me)

        decide(broker)
        cluster.until(lambda: active.committed_offset == active.driver.log.end_offset)
        assert not active.may_have_ended_session(active.election.me)
        for follower in cluster.followers():
            follower.kill()
        assert not decide(ClusterFounded("cluster"))
        cluster.until(lambda: not active.active)
        assert not active.may_have_ended_session(active.election.me)

    def test_that_it_is_fenced_may_be_committed_without_it(self) -> None:
        cluster = Controllers(3).begin()
        active = cluster.active()
        assert active is not None
        me = active.election.me
        active.submit(lambda image: [BrokerRegistered(me, UUID(int=1), "here", 9092, broker_epoch=1)], ignore)
        cluster.until(lambda: active.committed_offset == active.driver.log.end_offset)
        for follower in cluster.followers():
            follower.kill()
        active.submit(lambda image: [BrokerFencingChanged(me, True)], ignore)
        cluster.until(lambda: not active.active)
        assert active.may_have_ended_session(me)
