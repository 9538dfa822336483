"""Who leads, by appointment: the rows of the truth table that the controller decides."""

from uuid import UUID

import msgspec
import pytest
from clusters import fence, unfence

from tidelog.controller import brokers, leader_assignment, logs
from tidelog.controller.availability import BrokerAvailability
from tidelog.controller.image import ClusterImage, PartitionImage, TopicImage
from tidelog.controller.leader_assignment import InSyncProposal
from tidelog.controller.records import BrokerRegistered, PartitionChanged, TopicCreated
from tidelog.controller.successions import force, next_state
from tidelog.controller.successions.steps import Rules
from tidelog.errors import ErrorCode, TidelogError

SAFE = Rules(min_in_sync=2, unclean_allowed=False)
ONE = Rules(min_in_sync=1, unclean_allowed=False)
UNCLEAN = Rules(min_in_sync=1, unclean_allowed=True)
A, B, C = 1, 2, 3
ALL = PartitionImage((A, B, C), (A, B, C), A, 0, last_leader=A)
TOPIC_ID = UUID(int=9)


def state(partition: PartitionImage, *alive: int, rules: Rules = SAFE) -> PartitionImage:
    return next_state(partition, _alive(*alive), rules)


def _alive(*brokers: int) -> BrokerAvailability:
    return BrokerAvailability(frozenset(brokers), frozenset(brokers))


def test_nothing_changes_while_everybody_lives() -> None:
    assert state(ALL, A, B, C) == ALL


def test_leader_killed() -> None:
    after = state(ALL, B, C)
    assert (after.leader, after.leader_epoch, after.in_sync) == (B, 1, (B, C))
    assert state(after, A, B, C) == after  # Back as a follower: it joins when it has caught up, not before.


def test_follower_killed() -> None:
    after = state(ALL, A, C)
    assert (after.leader, after.leader_epoch, after.in_sync, after.eligible) == (A, 0, (A, C), ())


def test_the_last_one_standing_leads_and_the_others_stay_eligible() -> None:
    after = state(state(ALL, A, C), C)
    assert (after.leader, after.in_sync, after.eligible) == (C, (C,), (A,))


def test_all_dead_then_one_that_was_eligible_returns() -> None:
    alone = state(state(ALL, A, C), C)
    dead = state(alone)
    assert (dead.leader, dead.in_sync) == (-1, (C,))
    after = state(dead, A)
    assert (after.leader, after.in_sync) == (A, (A,))
    assert set(after.eligible) == {C}
    assert after.unclean_epoch == -1


def test_the_last_member_that_lost_its_unsynced_end_leads_and_a_damaged_one_does_not() -> None:
    alone = state(state(ALL, A, C, rules=ONE), C, rules=ONE)
    for tail, leader in ((True, C), (False, -1)):
        forgetful = leader_assignment.without_memory(alone, C, empty=False, tail=tail)
        assert state(forgetful, A, B, C, rules=ONE).leader == leader


def test_all_dead_then_one_that_was_not_in_sync_returns() -> None:
    """With a minimum of one, only the last member holds everything."""
    alone = state(state(ALL, A, C, rules=ONE), C, rules=ONE)
    assert alone.eligible == ()
    dead = state(alone, rules=ONE)
    assert state(dead, B, rules=ONE).leader == -1
    assert state(dead, C, rules=ONE).leader == C
    unclean = state(dead, B, rules=UNCLEAN)
    assert (unclean.leader, unclean.in_sync) == (B, (B,))
    assert unclean.unclean_epoch == unclean.leader_epoch


def test_a_replica_that_is_being_added_is_appointed_only_by_hand() -> None:
    """The leader may live, partitioned with its followers, and not have heard of the reassignment."""
    moving = msgspec.structs.replace(ALL, in_sync=(A, B), adding=(C,))
    for rules in (SAFE, UNCLEAN):
        assert state(moving, C, rules=rules).leader == -1
    assert force(moving, _alive(C), SAFE).leader == C
    assert force(msgspec.structs.replace(moving, in_sync=(A,)), _alive(B, C), SAFE).leader == B


def test_epochs_rise_when_a_leadership_ends_too() -> None:
    alone = state(state(ALL, A, rules=ONE), rules=ONE)
    assert (alone.leader, alone.leader_epoch) == (-1, 1)
    assert state(alone, A, rules=ONE).leader_epoch == 2


@pytest.fixture
def image() -> ClusterImage:
    brokers = [BrokerRegistered(each, UUID(int=each), "h", each, None, each) for each in (A, B, C)]
    return ClusterImage().apply([*brokers, TopicCreated("t", TOPIC_ID, [[A, B, C]], {})])


def rules_of(topic: TopicImage) -> Rules:
    return SAFE


def partition(image: ClusterImage) -> PartitionImage:
    return image.topics["t"].partitions[0]


class TestBrokers:
    def test_a_fenced_broker_leads_nothing(self, image: ClusterImage) -> None:
        after = image.apply(fence(image, A, rules_of))
        assert after.brokers[A].fenced
        assert (partition(after).leader, partition(after).in_sync) == (B, (B, C))

    def test_a_broker_that_lost_power_is_not_eligible(self, image: ClusterImage) -> None:
        only_a = image.apply(fence(image, B, rules_of))
        only_a = only_a.apply(fence(only_a, C, rules_of))
        # B left while enough were in sync: what was committed since, it may lack.
        assert partition(only_a).eligible == (C,)
        again = BrokerRegistered(C, UUID(int=7), "h", C, None, 9, fenced=True)
        after = only_a.apply(brokers.register(only_a, again, rules_of, forgot=True, empty=False))
        assert partition(after).eligible == ()

    def test_all_lost_power_the_last_leader_is_taken_when_it_is_back(self, image: ClusterImage) -> None:
        for number, broker in enumerate((A, B, C)):
            again = BrokerRegistered(
                broker, UUID(int=70 + broker), "h", broker, None, 10 + number, fenced=True
            )
            image = image.apply(brokers.register(image, again, rules_of, forgot=True, empty=False))
        assert partition(image).leader == -1
        last = partition(image).last_leader
        others = next(broker for broker in (A, B, C) if broker != last)
        image = image.apply(unfence(image, others, rules_of))
        assert partition(image).leader == -1
        image = image.apply(unfence(image, last, rules_of))
        assert partition(image).leader == last

    def test_an_empty_disk_is_nobodys_last_leader(self, image: ClusterImage) -> None:
        again = BrokerRegistered(A, UUID(int=7), "h", A, None, 9, fenced=True)
        after = image.apply(brokers.register(image, again, rules_of, forgot=False, empty=True))
        assert A not in partition(after).in_sync
        assert partition(after).last_leader != A

    def test_where_an_ok_means_synced_a_power_failure_takes_nothing(self, image: ClusterImage) -> None:
        again = BrokerRegistered(C, UUID(int=7), "h", C, None, 9, fenced=True)
        synced = Rules(min_in_sync=2, unclean_allowed=False, synced=True)
        after = image.apply(brokers.register(image, again, lambda topic: synced, forgot=True, empty=False))
        after = after.apply(fence(after, A, lambda topic: synced))
        after = after.apply(fence(after, B, lambda topic: synced))
        assert partition(after).in_sync == (B,)
        assert partition(after).eligible == (A,)

    def test_who_has_just_come_back_leads_last(self, image: ClusterImage) -> None:
        after = image.apply(fence(image, A, rules_of, lambda broker: int(broker == B)))
        assert partition(after).leader == C


class TestFailedLogs:
    def offline(self, image: ClusterImage, broker: int) -> ClusterImage:
        return image.apply(logs.take_offline(image, broker, broker, [(TOPIC_ID, 0)], rules_of))

    def test_another_one_leads(self, image: ClusterImage) -> None:
        after = partition(self.offline(image, A))
        assert (after.leader, after.leader_epoch, after.in_sync, after.offline) == (B, 1, (B, C), (A,))

    def test_it_is_told_once(self, image: ClusterImage) -> None:
        after = self.offline(image, A)
        assert logs.take_offline(after, A, A, [(TOPIC_ID, 0)], rules_of) == []

    def test_it_cannot_join_again(self, image: ClusterImage) -> None:
        after = self.offline(image, A)
        proposal = InSyncProposal(B, B, TOPIC_ID, 0, 1, 1, (A, B, C))
        assert (
            leader_assignment.change_in_sync(after, proposal, rules_of).error is ErrorCode.INELIGIBLE_REPLICA
        )

    def test_the_last_member_goes_on_until_another_one_holds_everything(self, image: ClusterImage) -> None:
        """Only its word lets one in, and then that one leads."""

        def one_is_enough(topic: object) -> Rules:
            return Rules(min_in_sync=1, unclean_allowed=False)

        for broker in (B, C):
            image = image.apply(fence(image, broker, one_is_enough))
        after = image.apply(logs.take_offline(image, A, A, [(TOPIC_ID, 0)], one_is_enough))
        assert (partition(after).leader, partition(after).in_sync) == (A, (A,))
        after = after.apply(unfence(after, C, one_is_enough))
        now = partition(after)
        proposal = InSyncProposal(A, A, TOPIC_ID, 0, now.leader_epoch, now.partition_epoch, (A, C))
        verdict = leader_assignment.change_in_sync(after, proposal, one_is_enough)
        assert verdict.error is ErrorCode.NONE
        now = partition(after.apply(verdict.records))
        assert (now.leader, now.in_sync, now.offline) == (C, (C,), (A,))

    def test_a_new_run_of_the_broker_begins_as_one_that_forgot(self, image: ClusterImage) -> None:
        after = self.offline(image, A)
        again = BrokerRegistered(A, UUID(int=7), "h", A, None, 9, fenced=True)
        after = after.apply(brokers.register(after, again, rules_of, forgot=False, empty=False))
        assert (partition(after).offline, partition(after).in_sync) == ((), (B, C))

    def test_an_earlier_run_is_not_heard(self, image: ClusterImage) -> None:
        with pytest.raises(TidelogError) as refusal:
            logs.take_offline(image, A, A + 9, [(TOPIC_ID, 0)], rules_of)
        assert refusal.value.code is ErrorCode.STALE_BROKER_EPOCH

    def test_the_last_one_is_still_read_and_replaced_when_somebody_can_lead(
        self, image: ClusterImage
    ) -> None:
        alone = image.apply(fence(image, B, rules_of))
        alone = alone.apply(fence(alone, C, rules_of))
        after = self.offline(alone, A)
        assert (partition(after).leader, partition(after).offline) == (A, (A,))
        after = after.apply(unfence(after, C, rules_of))
        assert partition(after).leader == C


class TestInSync:
    def proposal(self, **change: object) -> InSyncProposal:
        return InSyncProposal(A, A, TOPIC_ID, 0, 0, 0, (A, B))._replace(**change)  # type: ignore[arg-type]

    def test_a_member_leaves(self, image: ClusterImage) -> None:
        after = image.apply(leader_assignment.change_in_sync(image, self.proposal(), rules_of).records)
        assert (partition(after).in_sync, partition(after).partition_epoch) == ((A, B), 1)
        assert partition(after).leader_epoch == 0

    @pytest.mark.parametrize(
        ("change", "code"),
        [
            ({"topic_id": UUID(int=1)}, ErrorCode.UNKNOWN_TOPIC_ID),
            ({"broker_epoch": 99}, ErrorCode.STALE_BROKER_EPOCH),
            ({"broker_id": B, "broker_epoch": B}, ErrorCode.FENCED_LEADER_EPOCH),
            ({"leader_epoch": 1}, ErrorCode.FENCED_LEADER_EPOCH),
            ({"partition_epoch": 5}, ErrorCode.INVALID_UPDATE_VERSION),
            ({"members": (B,)}, ErrorCode.INVALID_REQUEST),
            ({"members": (A, 9)}, ErrorCode.INVALID_REQUEST),
        ],
    )
    def test_refusals(self, image: ClusterImage, change: dict[str, object], code: ErrorCode) -> None:
        with pytest.raises(TidelogError) as refusal:
            leader_assignment.change_in_sync(image, self.proposal(**change), rules_of)
        assert refusal.value.code is code

    def test_a_fenced_broker_cannot_join(self, image: ClusterImage) -> None:
        image = image.apply(fence(image, C, rules_of))
        proposal = self.proposal(members=(A, B, C), partition_epoch=1)
        assert (
            leader_assignment.change_in_sync(image, proposal, rules_of).error is ErrorCode.INELIGIBLE_REPLICA
        )

    def test_a_copy_of_a_refused_proposal_is_not_taken_later(self, image: ClusterImage) -> None:
        image = image.apply(fence(image, C, rules_of))
        proposal = self.proposal(members=(A, B, C), partition_epoch=1)
        refused = image.apply(leader_assignment.change_in_sync(image, proposal, rules_of).records)
        before, after = partition(image), partition(refused)
        assert after == msgspec.structs.replace(before, partition_epoch=2)
        back = refused.apply(unfence(refused, C, rules_of))
        with pytest.raises(TidelogError) as refusal:
            leader_assignment.change_in_sync(back, proposal, rules_of)
        assert refusal.value.code is ErrorCode.INVALID_UPDATE_VERSION
        again = self.proposal(members=(A, B, C), partition_epoch=partition(back).partition_epoch)
        changed = back.apply(leader_assignment.change_in_sync(back, again, rules_of).records)
        assert partition(changed).in_sync == (
            A, B, C,
        )  # fmt: skip

    def test_a_refusal_without_a_new_member_leaves_no_record(self, image: ClusterImage) -> None:
        """The leader waits for the same members as before: nothing is given up."""
        broker = msgspec.structs.replace(image.brokers[B], fenced=True)
        doubted = msgspec.structs.replace(image, brokers={**image.brokers, B: broker})
        assert leader_assignment.change_in_sync(doubted, self.proposal(), rules_of) == (
            [],
            ErrorCode.INELIGIBLE_REPLICA,
        )

    def test_a_refused_leader_to_be_leaves_no_record(self, image: ClusterImage) -> None:
        """It commits nothing before it is taken, and asks again at once."""
        leaving = msgspec.structs.replace(image.brokers[A], leaving=True)
        named = image.apply([PartitionChanged(TOPIC_ID, 0, A, 1, [], [B, C], B)])
        named = msgspec.structs.replace(named, brokers={**named.brokers, A: leaving})
        proposal = self.proposal(members=(A,), leader_epoch=1, partition_epoch=1)
        assert leader_assignment.change_in_sync(named, proposal, rules_of) == (
            [],
            ErrorCode.INELIGIBLE_REPLICA,
        )
