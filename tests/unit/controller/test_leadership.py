"""Leadership and replicas that move on purpose: preferred leaders, drained brokers, reassignments."""

from uuid import UUID

import msgspec
import pytest

from tidelog.controller import brokers, leader_assignment, leadership, reassignment
from tidelog.controller.availability import DRAIN_SETTING, BrokerAvailability
from tidelog.controller.image import ClusterImage, PartitionImage, TopicImage
from tidelog.controller.leader_assignment import InSyncProposal
from tidelog.controller.records import (
    BrokerConfigChanged,
    BrokerRegistered,
    MetadataRecord,
    PartitionChanged,
    TopicCreated,
)
from tidelog.controller.successions.steps import Rules, record_of
from tidelog.errors import ErrorCode, TidelogError
from unit.controller.clusters import fence, leave, unfence

TOPIC_ID = UUID(int=9)
SAFE = Rules(min_in_sync=2, unclean_allowed=False)


def rules_of(topic: TopicImage) -> Rules:
    return SAFE


def alike(broker_id: int) -> int:
    return 0


@pytest.fixture
def image() -> ClusterImage:
    registered = [BrokerRegistered(each, UUID(int=each), "h", each, None, each) for each in range(1, 6)]
    return ClusterImage().apply([*registered, TopicCreated("t", TOPIC_ID, [[1, 2, 3], [2, 3, 1]], {})])


def partition(image: ClusterImage, index: int = 0) -> PartitionImage:
    return image.topics["t"].partitions[index]


def join(image: ClusterImage, *members: int) -> ClusterImage:
    now = partition(image)
    proposal = InSyncProposal(
        now.leader, now.leader, TOPIC_ID, 0, now.leader_epoch, now.partition_epoch, members
    )
    return image.apply(leader_assignment.change_in_sync(image, proposal, rules_of).records)


def moving_to_4_and_5(image: ClusterImage) -> ClusterImage:
    return join(image.apply(reassignment.begin(image, "t", 0, [4, 5, 3], rules_of)), 1, 2, 3, 4)


def without_members(image: ClusterImage, last_leader: int, eligible: tuple[int, ...]) -> ClusterImage:
    """Every member has lost records; nothing was decided since."""
    lost = msgspec.structs.replace(
        partition(image), in_sync=(), eligible=eligible, leader=-1, last_leader=last_leader, leader_epoch=9
    )
    return image.apply([record_of(TOPIC_ID, 0, lost)])


class TestPreferredLeader:
    def test_goes_home_when_it_is_in_sync(self, image: ClusterImage) -> None:
        away = image.apply(fence(image, 1, rules_of))
        back = away.apply(unfence(away, 1, rules_of))
        with pytest.raises(TidelogError) as refusal:
            leadership.elect(back, "t", 0, rules_of, unclean=False)
        assert refusal.value.code is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
        joined = join(back, 2, 3, 1)
        after = partition(joined.apply(leadership.elect(joined, "t", 0, rules_of, unclean=False)))
        assert (after.leader, after.leader_epoch, after.in_sync) == (1, 2, (2, 3, 1))

    def test_is_not_elected_again(self, image: ClusterImage) -> None:
        with pytest.raises(TidelogError) as refusal:
            leadership.elect(image, "t", 0, rules_of, unclean=False)
        assert refusal.value.code is ErrorCode.ELECTION_NOT_NEEDED

    @pytest.mark.parametrize(("name", "index"), [("x", 0), ("t", 2), ("t", -1)])
    def test_of_no_partition(self, image: ClusterImage, name: str, index: int) -> None:
        with pytest.raises(TidelogError) as refusal:
            leadership.elect(image, name, index, rules_of, unclean=False)
        assert refusal.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def test_the_balance_leaves_newcomers_in_peace(self, image: ClusterImage) -> None:
        away = image.apply(fence(image, 1, rules_of))
        back = join(away.apply(unfence(away, 1, rules_of)), 2, 3, 1)
        assert leadership.balance(back, lambda broker: int(broker == 1)) == []
        assert partition(back.apply(leadership.balance(back, alike))).leader == 1


class TestUncleanByHand:
    def test_only_where_nobody_leads(self, image: ClusterImage) -> None:
        with pytest.raises(TidelogError) as refusal:
            leadership.elect(image, "t", 0, rules_of, unclean=True)
        assert refusal.value.code is ErrorCode.ELECTION_NOT_NEEDED

    def test_takes_whoever_lives_and_says_so(self, image: ClusterImage) -> None:
        for broker in (2, 3, 1):
            image = image.apply(fence(image, broker, rules_of))
        assert partition(image).leader == -1
        with pytest.raises(TidelogError) as refusal:
            leadership.elect(image, "t", 0, rules_of, unclean=True)
        assert refusal.value.code is ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
        change = unfence(image, 2, rules_of)
        image = image.apply(change)
        if partition(image).leader == -1:
            image = image.apply(leadership.elect(image, "t", 0, rules_of, unclean=True))
            assert partition(image).unclean_epoch == partition(image).leader_epoch
        assert partition(image).leader == 2


class TestDrain:
    def test_leadership_moves_and_stays_away(self, image: ClusterImage) -> None:
        drained = image.apply([BrokerConfigChanged("1", {DRAIN_SETTING: "true"})])
        after = drained.apply(leader_assignment.assign_leaders(drained, rules_of))
        assert [each.leader for each in after.topics["t"].partitions] == [2, 2]
        assert partition(after).in_sync == (1, 2, 3)
        standing = BrokerAvailability.of(after)
        assert list(leadership.misplaced(after, standing)) == []
        assert list(leadership.strays(after, standing)) == []

    def test_who_stops_hands_over_first(self, image: ClusterImage) -> None:
        after = image.apply(leave(image, 1, rules_of))
        assert partition(after).leader == 2
        assert partition(after).in_sync == (1, 2, 3)

    def test_nobody_else_can_lead(self, image: ClusterImage) -> None:
        alone = image.apply(fence(image, 2, rules_of))
        alone = alone.apply(fence(alone, 3, rules_of))
        assert partition(alone.apply(leave(alone, 1, rules_of))).leader == 1


class TestReassignment:
    def test_the_old_ones_leave_when_the_new_ones_are_in_sync(self, image: ClusterImage) -> None:
        moving = image.apply(reassignment.begin(image, "t", 0, [4, 5, 3], rules_of))
        now = partition(moving)
        assert (set(now.replicas), now.adding, now.removing) == ({1, 2, 3, 4, 5}, (4, 5), (1, 2))
        assert (now.leader, now.in_sync) == (1, (1, 2, 3))
        half = join(moving, 1, 2, 3, 4)
        assert partition(half).removing == (1, 2)
        done = partition(join(half, 1, 2, 3, 4, 5))
        assert (done.replicas, done.adding, done.removing) == ((4, 5, 3), (), ())
        assert set(done.in_sync) == {3, 4, 5}
        assert done.leader in done.in_sync
        assert done.leader_epoch == 2  # One for those that come, one for the new leader.

    def test_a_leader_that_stays_goes_on(self, image: ClusterImage) -> None:
        moving = image.apply(reassignment.begin(image, "t", 0, [1, 4], rules_of))
        done = partition(join(moving, 1, 2, 3, 4))
        assert (done.replicas, done.leader, done.leader_epoch) == ((1, 4), 1, 1)

    def test_what_was_fetched_before_a_replica_is_brought_does_not_count(self, image: ClusterImage) -> None:
        moving = image.apply(reassignment.begin(image, "t", 0, [1, 2, 4], rules_of))
        assert (partition(moving).leader, partition(moving).leader_epoch) == (1, 1)
        gone = image.apply(reassignment.begin(image, "t", 0, [1, 2], rules_of))
        assert partition(gone).leader_epoch == 0

    def test_fewer_replicas_at_once(self, image: ClusterImage) -> None:
        done = partition(image.apply(reassignment.begin(image, "t", 0, [2], rules_of)))
        assert (done.replicas, done.in_sync, done.leader, done.leader_epoch) == ((2,), (2,), 2, 1)

    def test_cancelled(self, image: ClusterImage) -> None:
        moving = join(image.apply(reassignment.begin(image, "t", 0, [4, 5, 3], rules_of)), 1, 2, 3, 4)
        back = partition(moving.apply(reassignment.cancel(moving, "t", 0, rules_of)))
        assert (set(back.replicas), back.adding, back.removing) == ({1, 2, 3}, (), ())
        assert (back.leader, set(back.in_sync)) == (1, {1, 2, 3})

    @pytest.mark.parametrize(
        ("last_leader", "eligible", "refused"),
        [
            (4, (), True),  # The last leader would leave: no other replica can lead.
            (1, (), True),  # The last leader stays, but the newest log may be on one of those that leave.
            (-1, (), True),  # An operator has to force a leader, and may need the log of one that leaves.
            (1, (4,), True),  # The only complete replica would leave.
            (4, (1, 4), False),
        ],
    )
    def test_no_replica_leaves_while_none_that_stays_is_complete(
        self, image: ClusterImage, last_leader: int, eligible: tuple[int, ...], refused: bool
    ) -> None:
        moving = without_members(moving_to_4_and_5(image), last_leader, eligible)

        def cancelled() -> list[MetadataRecord]:
            return reassignment.cancel(moving, "t", 0, rules_of)

        def replaced() -> list[MetadataRecord]:
            return reassignment.begin(moving, "t", 0, [1, 2], rules_of)

        for decide in (cancelled, replaced):
            if refused:
                with pytest.raises(TidelogError, match=r"brokers \[4, 5\] may have") as refusal:
                    decide()
                assert refusal.value.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
            else:
                assert 4 not in partition(moving.apply(decide())).replicas

    def test_another_target_with_the_added_ones_while_none_is_complete(self, image: ClusterImage) -> None:
        """No replica is removed at once: nothing has to be refused."""
        moving = without_members(moving_to_4_and_5(image), 4, ())
        wider = partition(moving.apply(reassignment.begin(moving, "t", 0, [4, 5, 1], rules_of)))
        assert set(wider.replicas) == {1, 2, 3, 4, 5}
        assert wider.leader == 4

    def test_cancelled_after_a_forced_election(self, image: ClusterImage) -> None:
        """The way out if the last leader is gone for good."""
        lost = without_members(moving_to_4_and_5(image), 4, ())
        for broker in (4, 5):
            lost = lost.apply(fence(lost, broker, rules_of))
        forced = lost.apply(leadership.elect(lost, "t", 0, rules_of, unclean=True))
        assert partition(forced).in_sync == (3,)
        back = partition(forced.apply(reassignment.cancel(forced, "t", 0, rules_of)))
        assert set(back.replicas) == {1, 2, 3}

    def test_nothing_to_cancel(self, image: ClusterImage) -> None:
        with pytest.raises(TidelogError) as refusal:
            reassignment.cancel(image, "t", 0, rules_of)
        assert refusal.value.code is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS

    @pytest.mark.parametrize("target", [[], [1, 1], [1, 99]])
    def test_targets_that_make_no_sense(self, image: ClusterImage, target: list[int]) -> None:
        with pytest.raises(TidelogError) as refusal:
            reassignment.begin(image, "t", 0, target, rules_of)
        assert refusal.value.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT

    def test_what_is_under_way_is_listed(self, image: ClusterImage) -> None:
        moving = image.apply(reassignment.begin(image, "t", 1, [4], rules_of))
        assert [(each.topic.name, each.number) for each in reassignment.ongoing(moving)] == [("t", 1)]


class TestUnregister:
    def test_one_that_is_gone_and_holds_nothing(self, image: ClusterImage) -> None:
        gone = image.apply(fence(image, 5, rules_of))
        assert 5 not in gone.apply(brokers.unregister(gone, 5)).brokers

    @pytest.mark.parametrize("broker_id", [4, 99])
    def test_not_one_that_serves_or_never_was(self, image: ClusterImage, broker_id: int) -> None:
        with pytest.raises(TidelogError):
            brokers.unregister(image, broker_id)

    def test_not_one_with_replicas(self, image: ClusterImage) -> None:
        gone = image.apply(fence(image, 1, rules_of))
        with pytest.raises(TidelogError):
            brokers.unregister(gone, 1)


def test_records_carry_everything() -> None:
    """A reader of the log needs no history of a partition but its last record."""
    full = PartitionImage((1, 2, 3), (1, 2), 1, 7, 3, (3,), 1, 7, (3,), (2,), (3,))
    record = record_of(TOPIC_ID, 0, full)
    assert isinstance(record, PartitionChanged)
    image = ClusterImage().apply([TopicCreated("t", TOPIC_ID, [[9]], {}), record])
    rebuilt = partition(image)
    expected = PartitionImage((1, 2, 3), (1, 2), 1, 7, 1, (3,), 1, 7, (3,), (2,), (3,), acted_epoch=7)
    assert rebuilt == expected
