"""Who leads, by appointment: brokers that come and go, failed logs, and proposals of leaders."""

from uuid import UUID

import msgspec
import pytest

from tidelog.controller import brokers, leader_assignment, logs
from tidelog.controller.image import ClusterImage, PartitionImage, TopicImage
from tidelog.controller.leader_assignment import InSyncProposal
from tidelog.controller.records import BrokerRegistered, PartitionChanged, TopicCreated
from tidelog.controller.successions.steps import Rules
from tidelog.errors import ErrorCode, TidelogError
from unit.controller.clusters import fence, unfence

SAFE = Rules(min_in_sync=2, unclean_allowed=False)
A, B, C = 1, 2, 3
TOPIC_ID = UUID(int=9)


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
