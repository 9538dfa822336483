"""Sessions, registrations and stopping, as the active controller handles them."""

from typing import Any
from uuid import UUID

import pytest

from tidelog.config import BrokerConfig
from tidelog.controller import leadership
from tidelog.controller.cluster_settings import values_of
from tidelog.controller.controller import NEWCOMER_MS, STANDSTILL_MS
from tidelog.controller.messages import (
    HeartbeatAsk,
    OfflineAsk,
    OfflineGot,
)
from tidelog.controller.records import BrokerConfigChanged, TopicConfigChanged, TopicCreated
from tidelog.controller.rules import Rulebook
from tidelog.errors import ErrorCode, TidelogError
from tidelog.types import NO_BROKER
from unit.controller.active_controllers import GRACE_MS, SESSION_MS, TICK_MS, TOPIC_ID, A, B, C, Cluster


@pytest.fixture
def cluster() -> Cluster:
    """Three brokers and a topic of three partitions, one led by each."""
    made = Cluster()
    made.come(A, B, C)
    made.pass_time(NEWCOMER_MS + TICK_MS)
    made.store.write([TopicCreated("t", TOPIC_ID, [[A, B, C], [B, C, A], [C, A, B]], {})])
    return made


class TestRegistration:
    def test_a_broker_begins_fenced_and_is_let_in_when_it_knows_the_metadata(self) -> None:
        cluster = Cluster()
        got = cluster.register(A)
        assert (got.error, got.broker_epoch) == (ErrorCode.NONE, 1)
        assert cluster.unfenced() == set()
        assert cluster.beat(A, offset=cluster.store.committed_offset - 1).fenced
        assert cluster.unfenced() == set()
        cluster.beat(A)
        assert cluster.unfenced() == {A}
        assert not cluster.beat(A).fenced

    def test_what_is_decided_later_need_not_be_known(self) -> None:
        """Otherwise a busy cluster would let nobody in."""
        cluster = Cluster()
        cluster.register(A)
        known = cluster.store.committed_offset
        cluster.register(B)
        cluster.beat(A, offset=known)
        assert cluster.unfenced() == {A}

    def test_the_same_process_asks_again(self) -> None:
        cluster = Cluster()
        assert cluster.register(A).broker_epoch == cluster.register(A).broker_epoch == 1

    def test_epochs_rise_over_all_brokers(self) -> None:
        cluster = Cluster()
        epochs = [cluster.register(broker, run).broker_epoch for run in (1, 2) for broker in (A, B)]
        assert epochs == [1, 2, 3, 4]

    def test_the_same_disk_shows_that_the_old_process_is_dead(self, cluster: Cluster) -> None:
        got = cluster.register(A, run=2)
        assert got.error is ErrorCode.NONE
        assert cluster.partition().leader == -1
        cluster.beat(B)
        assert cluster.partition().leader == B
        assert A not in cluster.partition().in_sync

    def test_nobody_is_dropped_in_favour_of_the_dead(self) -> None:
        """All died unnoticed, one of them with its newest records: whoever comes back first is whole."""
        cluster = Cluster(**{"node.id": 9})
        cluster.come(A, B, C)
        cluster.store.write([TopicCreated("t", TOPIC_ID, [[A, B, C]], {"min.insync.replicas": "1"})])
        cluster.register(A, run=2)
        cluster.register(C, run=2)
        assert set(cluster.partition().in_sync) == {A, B, C}
        cluster.register(B, run=2, forgot=True)
        cluster.beat(B)
        assert cluster.partition().leader == -1
        cluster.beat(C)
        assert (cluster.partition().leader, cluster.partition().in_sync) == (C, (C,))

    def test_a_second_broker_of_the_same_number_is_refused(self, cluster: Cluster) -> None:
        before = cluster.store.image
        got = cluster.register(A, run=2, directory=UUID(int=77))
        assert got.error is ErrorCode.DUPLICATE_BROKER_REGISTRATION
        assert cluster.store.image is before

    def test_so_it_is_while_the_session_of_a_fenced_broker_lasts(self, cluster: Cluster) -> None:
        cluster.controller.broker_lost(A, cluster.now_ms)
        cluster.beating.discard(A)
        cluster.pass_time(SESSION_MS // 2)
        assert cluster.store.image.brokers[A].fenced
        got = cluster.register(A, run=2, directory=UUID(int=77))
        assert got.error is ErrorCode.DUPLICATE_BROKER_REGISTRATION
        cluster.pass_time(SESSION_MS)
        assert cluster.register(A, run=2, directory=UUID(int=77)).error is ErrorCode.NONE

    def test_another_disk_is_taken_when_the_old_one_is_gone_and_counts_as_empty(
        self, cluster: Cluster
    ) -> None:
        cluster.beating.discard(A)
        cluster.controller.broker_lost(A, cluster.now_ms, dead=True)
        assert cluster.register(A, run=2, directory=UUID(int=77)).error is ErrorCode.NONE
        assert A not in (*cluster.partition().in_sync, *cluster.partition().eligible)

    def test_a_restart_ends_a_drain(self, cluster: Cluster) -> None:
        cluster.store.write([BrokerConfigChanged("1", {"broker.drain": "true", "logging.level": "debug"})])
        cluster.register(A, run=2)
        assert cluster.store.image.broker_configs["1"] == {"logging.level": "debug"}

    def test_only_the_active_controller_registers(self, cluster: Cluster) -> None:
        cluster.store.refusal = TidelogError("not here", ErrorCode.NOT_CONTROLLER)
        assert cluster.register(A, run=2).error is ErrorCode.NOT_CONTROLLER


def lose_all_but(cluster: Cluster, leader: int) -> None:
    """The others are dead, and out of the in-sync set for good."""
    for broker in {A, B, C} - {leader}:
        cluster.beating.discard(broker)
        cluster.controller.broker_lost(broker, cluster.now_ms, dead=True)
    cluster.store.write([TopicConfigChanged(TOPIC_ID, {"min.insync.replicas": "1"})])
    assert cluster.join(leader).error is ErrorCode.NONE


def elect_unclean(cluster: Cluster) -> None:
    rules = Rulebook(BrokerConfig.parse({}))
    image = cluster.store.image
    cluster.store.write(leadership.elect(image, "t", 0, rules.at(image), unclean=True))


class TestSilence:
    def test_a_silent_broker_is_fenced_after_its_session(self, cluster: Cluster) -> None:
        cluster.beating.discard(A)
        cluster.pass_time(SESSION_MS - TICK_MS)
        assert cluster.unfenced() == {A, B, C}
        cluster.pass_time(2 * TICK_MS)
        assert cluster.unfenced() == {B, C}
        assert cluster.partition().in_sync == (B, C)

    def test_whoever_beats_stays(self, cluster: Cluster) -> None:
        cluster.pass_time(10 * SESSION_MS)
        assert cluster.unfenced() == {A, B, C}

    def test_a_closed_connection_is_fenced_after_a_short_grace(self, cluster: Cluster) -> None:
        cluster.beating.discard(A)
        cluster.controller.broker_lost(A, cluster.now_ms)
        cluster.pass_time(GRACE_MS - TICK_MS)
        assert A in cluster.unfenced()
        cluster.pass_time(2 * TICK_MS)
        assert A not in cluster.unfenced()

    def test_a_beat_within_the_grace_saves_it(self, cluster: Cluster) -> None:
        cluster.controller.broker_lost(A, cluster.now_ms)
        cluster.beat(A)
        cluster.pass_time(2 * GRACE_MS)
        assert A in cluster.unfenced()

    def test_a_broker_known_to_be_dead_is_fenced_at_once(self, cluster: Cluster) -> None:
        cluster.controller.broker_lost(A, cluster.now_ms, dead=True)
        assert A not in cluster.unfenced()

    def test_one_whose_connections_closed_may_act_on_its_session(self, cluster: Cluster) -> None:
        """It may live, and leads in its own opinion: no other leads that lacks what only it holds."""
        lose_all_but(cluster, A)
        cluster.controller.broker_lost(A, cluster.now_ms)
        cluster.beating.discard(A)
        cluster.pass_time(GRACE_MS + TICK_MS)
        assert (A in cluster.unfenced(), cluster.partition().leader) == (False, NO_BROKER)
        cluster.come(B)
        with pytest.raises(TidelogError, match=f"broker {A} may be alive"):
            elect_unclean(cluster)
        cluster.pass_time(SESSION_MS - GRACE_MS)
        elect_unclean(cluster)
        assert cluster.partition().leader == B

    def test_a_session_counts_from_the_last_heartbeat_that_was_answered(self, cluster: Cluster) -> None:
        """The decision that lets the broker in is not committed yet, and its next heartbeat says that it is
        not ready: it is told that it is not fenced, and acts on that for a whole session.
        """
        lose_all_but(cluster, A)
        cluster.beating.discard(A)
        cluster.register(A, run=2)
        cluster.store.holds = True
        answers: list[Any] = []
        for offset in (cluster.store.committed_offset, -1):
            heartbeat = HeartbeatAsk(A, cluster.epoch(A), offset)
            cluster.controller.handle(heartbeat, cluster.now_ms, answers.append)
            cluster.pass_time(SESSION_MS // 4)
        cluster.store.holds = False
        cluster.store.commit()
        assert [got.fenced for got in answers] == [False, False]
        cluster.controller.broker_lost(A, cluster.now_ms)
        cluster.pass_time(SESSION_MS // 2 + TICK_MS)
        cluster.come(B)
        with pytest.raises(TidelogError, match=f"broker {A} may be alive"):
            elect_unclean(cluster)
        cluster.pass_time(SESSION_MS // 4)
        elect_unclean(cluster)
        assert cluster.partition().leader == B

    def test_nor_before_a_majority_of_the_controllers_has_followed_since(self, cluster: Cluster) -> None:
        """What this controller decides alone may be committed by others that come back later."""
        lose_all_but(cluster, A)
        cluster.beating.discard(A)
        cluster.come(B)
        cluster.followed_ms = cluster.now_ms + SESSION_MS - TICK_MS
        cluster.pass_time(2 * SESSION_MS)
        assert cluster.unfenced() == {B}
        with pytest.raises(TidelogError, match=f"broker {A} may be alive"):
            elect_unclean(cluster)
        cluster.followed_ms += TICK_MS
        cluster.pass_time(TICK_MS)
        elect_unclean(cluster)
        assert cluster.partition().leader == B

    def test_nor_after_a_change_of_the_controller(self, cluster: Cluster) -> None:
        lose_all_but(cluster, A)
        cluster.controller.broker_lost(A, cluster.now_ms)
        cluster.beating.discard(A)
        cluster.pass_time(GRACE_MS + TICK_MS)
        cluster.controller.deactivate()
        cluster.controller.activate(cluster.now_ms)
        cluster.come(B)
        cluster.pass_time(SESSION_MS - TICK_MS)
        with pytest.raises(TidelogError, match=f"broker {A} may be alive"):
            elect_unclean(cluster)
        cluster.pass_time(2 * TICK_MS)
        elect_unclean(cluster)

    @pytest.mark.parametrize("late_ms", [0, GRACE_MS + TICK_MS])
    def test_one_that_is_dead_has_no_session(self, cluster: Cluster, late_ms: int) -> None:
        lose_all_but(cluster, A)
        cluster.controller.broker_lost(A, cluster.now_ms)
        cluster.beating.discard(A)
        cluster.pass_time(late_ms)
        cluster.controller.broker_lost(A, cluster.now_ms, dead=True)
        cluster.come(B)
        elect_unclean(cluster)
        assert cluster.partition().leader == B

    def test_a_session_that_is_over_is_recorded_when_it_matters(self, cluster: Cluster) -> None:
        """No partition waits for it: then there is no record."""
        cluster.controller.broker_lost(A, cluster.now_ms)
        cluster.beating.discard(A)
        cluster.pass_time(2 * SESSION_MS)
        assert cluster.store.image.brokers[A].session_lasts
        for broker in (B, C):
            cluster.beating.discard(broker)
            cluster.controller.broker_lost(broker, cluster.now_ms, dead=True)
        assert cluster.partition().leader == NO_BROKER
        cluster.pass_time(TICK_MS)
        assert not cluster.store.image.brokers[A].session_lasts

    def test_a_new_controller_gives_everybody_a_session(self, cluster: Cluster) -> None:
        cluster.controller.deactivate()
        cluster.now_ms += 10 * SESSION_MS
        cluster.controller.tick(cluster.now_ms, cluster.now_ms)
        assert cluster.unfenced() == {A, B, C}
        cluster.controller.activate(cluster.now_ms)
        cluster.beating.clear()
        cluster.pass_time(SESSION_MS - TICK_MS)
        assert cluster.unfenced() == {A, B, C}

    def test_nobody_is_judged_for_the_controllers_own_standstill(self, cluster: Cluster) -> None:
        cluster.now_ms += 5 * SESSION_MS
        cluster.controller.tick(cluster.now_ms, cluster.now_ms)
        assert cluster.unfenced() == {A, B, C}
        cluster.beating.discard(A)
        cluster.pass_time(SESSION_MS + TICK_MS)
        assert cluster.unfenced() == {B, C}

    def test_a_controller_that_is_slow_all_the_time_notices_the_dead(self, cluster: Cluster) -> None:
        for _ in range(SESSION_MS // STANDSTILL_MS + 1):
            cluster.now_ms += 3 * STANDSTILL_MS
            cluster.beat(B)
            cluster.beat(C)
            cluster.controller.tick(cluster.now_ms, cluster.now_ms)
        assert cluster.unfenced() == {B, C}

    def test_who_comes_back_leads_only_if_nobody_else_can(self, cluster: Cluster) -> None:
        cluster.register(A, run=2)
        cluster.beat(B)
        cluster.beat(A)
        assert cluster.join(B, C, A).error is ErrorCode.NONE
        cluster.controller.broker_lost(B, cluster.now_ms, dead=True)
        assert cluster.partition().leader == C

    @pytest.mark.parametrize(
        ("ask", "code"),
        [
            (HeartbeatAsk(9, 1, 0), ErrorCode.BROKER_ID_NOT_REGISTERED),
            (HeartbeatAsk(A, 99, 0), ErrorCode.STALE_BROKER_EPOCH),
        ],
    )
    def test_beats_of_strangers(self, cluster: Cluster, ask: HeartbeatAsk, code: ErrorCode) -> None:
        got = cluster.ask(ask)
        assert (got.error, got.fenced) == (code, True)

    def test_beats_to_the_wrong_controller(self, cluster: Cluster) -> None:
        cluster.controller.deactivate()
        assert cluster.beat(A).error is ErrorCode.NOT_CONTROLLER


class TestStopping:
    def test_others_lead_first_then_it_may_stop(self, cluster: Cluster) -> None:
        first = cluster.beat(A, leaving=True)
        assert (first.error, first.fenced, first.may_stop) == (ErrorCode.NONE, False, False)
        assert cluster.partition().leader == B
        assert set(cluster.partition().in_sync) == {A, B, C}
        second = cluster.beat(A, leaving=True)
        assert (second.fenced, second.may_stop) == (True, True)
        assert set(cluster.partition().in_sync) == {B, C}

    def test_asking_once_more_is_answered_alike(self, cluster: Cluster) -> None:
        cluster.beat(A, leaving=True)
        cluster.beat(A, leaving=True)
        image = cluster.store.image
        assert cluster.beat(A, leaving=True).may_stop
        assert cluster.store.image.topics is image.topics or cluster.store.image == image

    def test_it_serves_on_while_nobody_else_has_caught_up(self, cluster: Cluster) -> None:
        assert cluster.join(A).error is ErrorCode.NONE
        cluster.beat(A, leaving=True)
        assert not cluster.beat(A, leaving=True).may_stop
        assert cluster.partition().leader == A
        assert cluster.join(A, B).error is ErrorCode.NONE
        assert cluster.partition().leader == B  # It had been waiting for exactly that.
        assert cluster.beat(A, leaving=True).may_stop

    def test_the_last_ones_stop_together(self, cluster: Cluster) -> None:
        """All brokers are told to stop at once: nobody waits for another."""
        for broker in (A, B, C):
            cluster.beat(broker, leaving=True)
        for broker in (A, B, C):
            assert cluster.beat(broker, leaving=True).may_stop
        assert cluster.partition().leader == -1

    def test_it_gets_nothing_back_while_it_is_leaving(self, cluster: Cluster) -> None:
        cluster.beat(A, leaving=True)
        cluster.controller.broker_lost(B, cluster.now_ms, dead=True)
        assert cluster.partition().leader == C

    def test_one_that_dies_on_its_way_out_is_fenced_like_others(self, cluster: Cluster) -> None:
        cluster.beating.discard(A)
        cluster.beat(A, leaving=True)
        cluster.pass_time(SESSION_MS + TICK_MS)
        assert A not in cluster.unfenced()

    def test_it_is_a_broker_like_others_when_it_is_back(self, cluster: Cluster) -> None:
        cluster.beat(A, leaving=True)
        cluster.beat(A, leaving=True)
        cluster.register(A, run=2)
        cluster.beat(B)
        cluster.beat(A)
        node = cluster.store.image.brokers[A]
        assert (node.fenced, node.leaving) == (False, False)

    def test_a_leaving_broker_cannot_join(self, cluster: Cluster) -> None:
        assert cluster.join(B, C, index=1).error is ErrorCode.NONE
        cluster.beat(A, leaving=True)
        assert cluster.join(B, C, A, index=1).error is ErrorCode.INELIGIBLE_REPLICA


class TestOrder:
    def drain(self, cluster: Cluster, broker: int, value: str | None) -> None:
        cluster.store.write([BrokerConfigChanged(str(broker), {"broker.drain": value})])
        cluster.pass_time(TICK_MS)

    def leaders(self, cluster: Cluster) -> list[int]:
        return [cluster.partition(index).leader for index in range(3)]

    def test_a_drained_broker_leads_nothing_and_stays_a_member(self, cluster: Cluster) -> None:
        self.drain(cluster, A, "true")
        assert self.leaders(cluster) == [B, B, C]
        assert set(cluster.partition().in_sync) == {A, B, C}

    def test_it_gets_nothing_back_before_the_drain_ends(self, cluster: Cluster) -> None:
        self.drain(cluster, A, "true")
        cluster.pass_time(40_000)
        assert self.leaders(cluster) == [B, B, C]
        self.drain(cluster, A, None)
        cluster.pass_time(40_000)
        assert self.leaders(cluster) == [A, B, C]

    def test_it_leads_when_nobody_else_can(self, cluster: Cluster) -> None:
        self.drain(cluster, A, "true")
        for broker in (B, C):
            cluster.beating.discard(broker)
            cluster.controller.broker_lost(broker, cluster.now_ms, dead=True)
        assert self.leaders(cluster) == [A, A, A]

    def test_what_it_could_not_give_up_it_gives_up_when_somebody_has_caught_up(
        self, cluster: Cluster
    ) -> None:
        cluster.join(A)
        self.drain(cluster, A, "true")
        assert self.leaders(cluster)[0] == A
        cluster.join(A, C)
        assert self.leaders(cluster)[0] == C

    def test_leaders_go_home_after_a_while(self, cluster: Cluster) -> None:
        cluster.register(A, run=2)
        cluster.beat(B)
        cluster.beat(A)
        cluster.join(B, C, A)
        assert cluster.partition().leader == B
        cluster.pass_time(60_000)
        assert cluster.partition().leader == A

    def test_unless_that_is_switched_off(self) -> None:
        cluster = Cluster(**{"auto.leader.rebalance.enable": "false"})
        cluster.come(A, B)
        cluster.store.write([TopicCreated("t", TOPIC_ID, [[A, B]], {})])
        cluster.register(A, run=2)
        cluster.beat(B)
        cluster.beat(A)
        cluster.join(B, A)
        cluster.pass_time(120_000)
        assert cluster.partition().leader == B


class TestFailedLogs:
    def ask(self, cluster: Cluster, broker: int, *, healed: bool = False) -> OfflineGot:
        got: OfflineGot = cluster.ask(OfflineAsk(broker, cluster.epoch(broker), ((TOPIC_ID, 0),), healed))
        return got

    def test_another_one_leads_and_it_joins_again_when_it_is_repaired(self, cluster: Cluster) -> None:
        assert self.ask(cluster, A).error is ErrorCode.NONE
        now = cluster.partition()
        assert (now.leader, now.in_sync, now.offline) == (B, (B, C), (A,))
        assert cluster.partition(1).offline == ()
        assert cluster.join(B, C, A).error is ErrorCode.INELIGIBLE_REPLICA
        assert self.ask(cluster, A, healed=True).healed
        assert cluster.partition().offline == ()
        assert cluster.join(B, C, A).error is ErrorCode.NONE

    def test_what_the_leader_knew_of_a_repaired_log_counts_no_more(self, cluster: Cluster) -> None:
        """It would have the replica join at once, for what it had fetched before it dropped it."""
        self.ask(cluster, C)
        before = cluster.partition()
        self.ask(cluster, C, healed=True)
        after = cluster.partition()
        assert (after.leader, after.leader_epoch) == (before.leader, before.leader_epoch + 1)

    def test_a_repaired_log_is_not_taken_for_a_complete_one(self, cluster: Cluster) -> None:
        cluster.join(A, B)
        self.ask(cluster, A)
        assert cluster.partition().eligible == (A,)
        self.ask(cluster, A, healed=True)
        assert cluster.partition().eligible == ()

    def test_an_earlier_run_is_not_heard(self, cluster: Cluster) -> None:
        got = cluster.ask(OfflineAsk(A, 99, ((TOPIC_ID, 0),)))
        assert got.error is ErrorCode.STALE_BROKER_EPOCH

    def test_a_report_from_before_the_repair_is_refused(self, cluster: Cluster) -> None:
        known = cluster.partition().partition_epoch
        report = OfflineAsk(A, cluster.epoch(A), ((TOPIC_ID, 0),), partition_epochs=(known,))
        assert cluster.ask(report).error is ErrorCode.NONE
        assert cluster.ask(report).error is ErrorCode.NONE, "it is known"
        self.ask(cluster, A, healed=True)
        repaired = cluster.partition()
        assert cluster.ask(report).error is ErrorCode.INVALID_UPDATE_VERSION
        assert cluster.partition() == repaired
        again = report._replace(partition_epochs=(repaired.partition_epoch,))
        assert cluster.ask(again).error is ErrorCode.NONE
        assert cluster.partition().damaged == {A}

    def test_of_two_logs_only_the_changed_one_is_refused(self, cluster: Cluster) -> None:
        both = ((TOPIC_ID, 0), (TOPIC_ID, 1))
        known = cluster.partition(1).partition_epoch
        got = cluster.ask(OfflineAsk(A, cluster.epoch(A), both, partition_epochs=(-1, known)))
        assert got.error is ErrorCode.INVALID_UPDATE_VERSION
        assert (cluster.partition().damaged, cluster.partition(1).damaged) == (frozenset(), frozenset({A}))

    def test_partitions_that_are_gone_are_left_out(self, cluster: Cluster) -> None:
        unknown = ((UUID(int=5), 0), (TOPIC_ID, 7), (TOPIC_ID, -1))
        got = cluster.ask(OfflineAsk(A, cluster.epoch(A), unknown))
        assert got.error is ErrorCode.NONE


@pytest.mark.parametrize(("minimum", "warned"), [(1, True), (2, False)])
def test_a_broker_whose_file_says_otherwise_is_told_of(
    minimum: int, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = Cluster(**{"min.insync.replicas": 2})
    theirs = values_of(BrokerConfig.parse({"min.insync.replicas": minimum}))
    cluster.register(B, cluster_settings=theirs)
    assert ("broker 2 has min.insync.replicas=1, but this controller has 2" in caplog.text) is warned
    assert B in cluster.store.image.brokers
    caplog.clear()
    cluster.store.write([BrokerConfigChanged("", {"min.insync.replicas": "2"})])
    cluster.register(B, run=2, cluster_settings=theirs)
    assert "min.insync.replicas" not in caplog.text
