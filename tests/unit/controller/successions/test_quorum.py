"""Partitions whose replicas vote, as the controllers write them down."""

from typing import Any
from uuid import UUID

import msgspec
import pytest

from tidelog.config.modes import QUORUM
from tidelog.controller import brokers, leadership, logs, reassignment
from tidelog.controller.image import ClusterImage, PartitionImage
from tidelog.controller.leader_assignment import InSyncProposal, change_in_sync
from tidelog.controller.records import (
    BrokerConfigChanged,
    BrokerFencingChanged,
    BrokerRegistered,
    Loss,
    PartitionChanged,
    TopicCreated,
    decode,
    encode,
)
from tidelog.controller.snapshot import image_of, texts_of
from tidelog.controller.successions.steps import Rules, record_of
from tidelog.errors import TidelogError
from unit.controller.clusters import cluster, created, fence, leave, topic_id

MODE: dict[str, Any] = {"replication.mode": QUORUM}
RULES = Rules(1, False, synced=True)


def rules_of(topic: object) -> Rules:
    return RULES


def topic(*replicas: int) -> TopicCreated:
    return msgspec.structs.replace(created("t", list(replicas), **MODE), mode=QUORUM)


@pytest.fixture
def image() -> ClusterImage:
    return cluster(1, 2, 3, 4, 5, records=[topic(1, 2, 3)])


def partition(image: ClusterImage) -> PartitionImage:
    return image.topics["t"].partitions[0]


def told(
    image: ClusterImage, leader: int, epoch: int, *voters: int, healed: tuple[int, ...] = (), known: int = -1
) -> ClusterImage:
    healed = healed or (-1,) * len(voters)
    proposal = InSyncProposal(leader, 0, topic_id(1), 0, epoch, known, voters, healed, elected=True)
    return image.apply(change_in_sync(image, proposal, rules_of).records)


def test_the_winner_of_an_election_is_written_down(image: ClusterImage) -> None:
    now = partition(told(image, 2, 7, 1, 2, 3))
    assert (now.leader, now.leader_epoch, now.in_sync) == (2, 7, (1, 2, 3))


def test_an_older_election_is_no_news(image: ClusterImage) -> None:
    after = told(image, 2, 7, 1, 2, 3)
    with pytest.raises(TidelogError):
        told(after, 3, 6, 1, 2, 3)
    with pytest.raises(TidelogError):
        told(after, 3, 7, 1, 2, 3)


def test_an_epoch_in_which_somebody_has_voted_is_no_election(image: ClusterImage) -> None:
    """A voter had not heard that the controllers appoint leaders, and then that the replicas vote again. In
    between it told its epoch, in which another voter may win now.
    """
    before = partition(image)
    assert partition(told(image, 2, 7)) == before
    after = told(image, 2, 7, 1, 2, 3)
    assert partition(told(after, 3, 9)) == partition(after)
    assert partition(told(after, 3, 7)) == partition(after)


def test_fencing_raises_no_epoch_and_elects_nobody(image: ClusterImage) -> None:
    after = told(image, 2, 7, 1, 2, 3)
    now = partition(after.apply(fence(after, 2, rules_of)))
    assert (now.leader, now.leader_epoch) == (-1, 7)
    assert (now.in_sync, now.eligible) == ((1, 3), (2,))


def lost(image: ClusterImage, broker: int, *, forgot: bool = False, empty: bool = False) -> ClusterImage:
    """The broker starts anew, without some of its data."""
    epoch = image.last_broker_epoch + 1
    registration = BrokerRegistered(broker, UUID(int=1000 + epoch), "host", 9092, None, epoch, fenced=True)
    rules = RULES._replace(synced=False)
    return image.apply(brokers.register(image, registration, lambda topic: rules, forgot=forgot, empty=empty))


def loss(image: ClusterImage, replica: int) -> Loss:
    found = partition(image).loss_of(replica)
    assert found is not None
    return found


def test_a_replica_counts_again_when_it_was_readmitted_for_its_latest_loss(image: ClusterImage) -> None:
    after = lost(told(image, 2, 7, 1, 2, 3), 3, empty=True)
    assert partition(after).remember == {1, 2}
    first = loss(after, 3).number
    assert partition(told(after, 2, 7, 1, 2, 3)).remember == {1, 2}
    assert partition(told(after, 2, 7, 1, 2, 3, healed=(-1, -1, first))).remember == {1, 2, 3}
    again = lost(after, 3, empty=True)
    assert loss(again, 3).number > first
    assert partition(told(again, 2, 7, 1, 2, 3, healed=(-1, -1, first))).remember == {1, 2}
    healed = told(again, 2, 7, 1, 2, 3, healed=(-1, -1, loss(again, 3).number))
    assert partition(healed).losses == ()


def test_every_replica_that_does_not_remember_has_a_number(image: ClusterImage) -> None:
    after = told(image, 1, 1, 1, 2, 3)
    after = after.apply(reassignment.begin(after, "t", 0, [1, 4, 5], rules_of))
    assert {each.replica for each in partition(after).losses} == {4, 5}


def test_who_comes_with_a_move_has_lost_nothing_until_it_does(image: ClusterImage) -> None:
    after = told(image, 1, 1, 1, 2, 3)
    after = after.apply(reassignment.begin(after, "t", 0, [1, 4, 5], rules_of))
    assert loss(after, 4).late
    assert not loss(lost(after, 4, empty=True), 4).late
    assert not loss(lost(after, 4, forgot=True), 4).late


def test_who_votes_no_more_is_not_taken_for_late(image: ClusterImage) -> None:
    after = told(image, 1, 1, 1, 2, 3)
    after = after.apply(reassignment.begin(after, "t", 0, [1, 2, 4], rules_of))
    known = partition(after).partition_epoch
    healed = (-1, -1, loss(after, 4).number)
    gone = told(after, 1, 1, 1, 2, 4, healed=healed, known=known - 1)  # The move has not ended.
    dropped = told(after, 1, 1, 1, 2, known=known)
    assert partition(gone).remember == {1, 2, 3, 4}
    assert not loss(dropped, 3).late


def test_only_who_remembered_can_lose_no_more_than_a_tail(image: ClusterImage) -> None:
    after = lost(told(image, 2, 7, 1, 2, 3), 3, forgot=True)
    assert loss(after, 3).tail
    assert loss(lost(after, 3, forgot=True), 3).tail
    emptied = lost(after, 3, empty=True)
    assert not loss(emptied, 3).tail
    again = lost(lost(emptied, 3, forgot=True), 3, forgot=True)
    assert loss(again, 3).base == loss(emptied, 3).number
    assert not loss(lost(again, 3, empty=True), 3).tail


@pytest.mark.parametrize("empty", [False, True])
def test_a_leader_that_lost_data_leaves_its_epoch_to_the_voters(image: ClusterImage, empty: bool) -> None:
    """They may elect the next one in the epoch after it, and tell so."""
    after = lost(told(image, 3, 7, 1, 2, 3), 3, forgot=not empty, empty=empty)
    assert (partition(after).leader, partition(after).leader_epoch) == (-1, 7)
    now = partition(told(after, 2, 8, 1, 2, 3, known=partition(after).partition_epoch))
    assert (now.leader, now.leader_epoch) == (2, 8)


def test_a_log_that_was_repaired_lost_more_than_a_tail(image: ClusterImage) -> None:
    after = told(image, 2, 7, 1, 2, 3)
    key = [(topic_id(1), 0)]
    after = after.apply(logs.take_offline(after, 3, 0, key, rules_of))
    after = after.apply(logs.bring_online(after, 3, 0, key, rules_of))
    assert not loss(after, 3).tail


def test_a_winner_that_has_lost_data_since_does_not_count(image: ClusterImage) -> None:
    after = told(image, 2, 7, 1, 2, 3)
    key = [(topic_id(1), 0)]
    after = after.apply(logs.take_offline(after, 3, 0, key, rules_of))
    after = after.apply(logs.bring_online(after, 3, 0, key, rules_of))
    assert partition(told(after, 3, 8, 1, 2, 3)).remember == {1, 2}
    # It knows of the loss, and was elected all the same: by voters that lost no more than their tails.
    known = partition(after).partition_epoch
    assert partition(told(after, 3, 8, 1, 2, 3, known=known)).remember == {1, 2, 3}


def test_losses_survive_a_snapshot_and_older_records_have_none(image: ClusterImage) -> None:
    after = lost(told(image, 2, 7, 1, 2, 3), 3, forgot=True)
    assert image_of(texts_of(after)) == after
    record = record_of(topic_id(1), 0, partition(after))
    assert isinstance(again := decode(encode(record)), PartitionChanged)
    assert again.losses == [loss(after, 3)]
    assert b"losses" not in encode(msgspec.structs.replace(record, losses=[]))


def test_who_was_away_when_the_topic_was_created_has_nothing_to_forget() -> None:
    new = msgspec.structs.replace(topic(1, 2, 3), away=[2, 3], away_counts=True)
    image = cluster(1, 2, 3, records=[BrokerFencingChanged(2, True), BrokerFencingChanged(3, True), new])
    assert partition(image).in_sync == (1,)
    assert partition(image).remember == {1, 2, 3}


def test_a_leader_with_an_old_picture_costs_nobody_its_vote(image: ClusterImage) -> None:
    after = told(image, 2, 7, 1, 2, 3)
    assert partition(told(after, 2, 8, 1, 2, known=0)).remember == {1, 2, 3}
    known = partition(after).partition_epoch
    assert partition(told(after, 2, 8, 1, 2, -1, known=known)).remember == {1, 2, 3}
    assert partition(told(after, 2, 8, 1, 2, known=known)).remember == {1, 2}


def test_a_leader_that_wants_to_stop_gets_an_heir(image: ClusterImage) -> None:
    after = told(image, 2, 7, 1, 2, 3)
    after = after.apply(leave(after, 2, rules_of))
    assert partition(after).heir in (1, 3)
    assert partition(after).leader == 2
    assert brokers.is_needed(after, 2)
    after = told(after, partition(after).heir, 8, 1, 2, 3)
    assert partition(after).heir == -1
    assert not brokers.is_needed(after, 2)


def test_a_damaged_leader_hands_over_even_to_a_drained_broker(image: ClusterImage) -> None:
    """It is repaired only once another replica leads."""
    after = told(image, 2, 7, 1, 2, 3)
    after = after.apply([BrokerConfigChanged(str(each), {"broker.drain": "true"}) for each in (1, 3)])
    assert partition(after).heir == -1
    after = after.apply(logs.take_offline(after, 2, 0, [(topic_id(1), 0)], rules_of))
    assert partition(after).heir in (1, 3)


def test_the_preferred_leader_is_asked_for(image: ClusterImage) -> None:
    after = told(image, 2, 7, 1, 2, 3)
    after = after.apply(leadership.elect(after, "t", 0, rules_of, unclean=False))
    assert (partition(after).leader, partition(after).leader_epoch, partition(after).heir) == (2, 7, 1)
    fenced = after.apply([BrokerFencingChanged(1, True)])
    assigned = fenced.apply(fence(after, 1, rules_of))
    assert partition(assigned).heir == -1


def test_nobody_can_enforce_an_election_while_a_majority_can_vote(image: ClusterImage) -> None:
    after = image.apply(fence(image, 1, rules_of))
    with pytest.raises(TidelogError):
        leadership.elect(after, "t", 0, rules_of, unclean=True)


def test_nor_while_one_that_is_only_late_can_vote_with_the_others(image: ClusterImage) -> None:
    for late in (True, False):
        behind = msgspec.structs.replace(partition(image), in_sync=(1, 2), losses=(Loss(3, 1, late=late),))
        after = image.apply([record_of(topic_id(1), 0, behind)])
        after = lost(after, 2, empty=True)
        if late:
            with pytest.raises(TidelogError):
                leadership.elect(after, "t", 0, rules_of, unclean=True)
        else:
            assert leadership.elect(after, "t", 0, rules_of, unclean=True)


def test_a_forced_leader_votes_alone_and_the_others_begin_anew(image: ClusterImage) -> None:
    after = told(image, 1, 7, 1, 2, 3)
    after = after.apply(fence(after, 1, rules_of))
    after = after.apply(fence(after, 2, rules_of))
    after = after.apply(leadership.elect(after, "t", 0, rules_of, unclean=True))
    now = partition(after)
    assert (now.leader, now.in_sync, now.eligible, now.adding) == (3, (3,), (), (1, 2))
    assert now.leader_epoch == now.mode_epoch == now.unclean_epoch > 7
    assert {each.replica for each in now.losses if each.late} == {1, 2}
    healed = (loss(after, 1).number, loss(after, 2).number, -1)
    known = now.partition_epoch
    whole = partition(told(after, 3, now.leader_epoch + 1, 1, 2, 3, healed=healed, known=known))
    assert not whole.is_moving
    assert whole.remember == {1, 2, 3}


def test_a_move_ends_when_the_leader_tells_of_the_target(image: ClusterImage) -> None:
    after = told(image, 1, 1, 1, 2, 3)
    after = after.apply(reassignment.begin(after, "t", 0, [1, 4, 5], rules_of))
    assert partition(after).replicas == (1, 4, 5, 2, 3)
    healed = (-1, loss(after, 4).number, loss(after, 5).number)
    known = partition(after).partition_epoch
    after = told(after, 1, 1, 1, 4, 5, healed=healed, known=known)
    assert partition(after).replicas == (1, 4, 5)
    assert not partition(after).is_moving


def test_a_move_does_not_end_by_what_was_said_before_it_began(image: ClusterImage) -> None:
    after = told(image, 1, 1, 1, 2, 3)
    before = partition(after).partition_epoch
    after = after.apply(reassignment.begin(after, "t", 0, [1, 2, 4], rules_of))
    after = after.apply(reassignment.cancel(after, "t", 0, rules_of))
    assert partition(told(after, 1, 1, 1, 2, 3, known=before)).is_moving
    assert not partition(told(after, 1, 1, 1, 2, 3, known=partition(after).partition_epoch)).is_moving


def test_no_voter_is_left_behind_when_a_move_is_called_off(image: ClusterImage) -> None:
    after = told(image, 1, 1, 1, 2, 3)
    after = after.apply(reassignment.begin(after, "t", 0, [1, 4, 5], rules_of))
    after = after.apply(reassignment.begin(after, "t", 0, [1, 2, 4], rules_of))
    assert set(partition(after).replicas) == {1, 2, 3, 4, 5}
    after = after.apply(reassignment.cancel(after, "t", 0, rules_of))
    assert partition(after).target == (1, 2, 3)
    assert set(partition(after).replicas) == {1, 2, 3, 4, 5}


# --- voters that move ---------------------------------------------------------------------------------------


def moving(image: ClusterImage, *target: int) -> ClusterImage:
    """Led by 1 in epoch 7."""
    after = told(image, 1, 7, 1, 2, 3)
    return after.apply(reassignment.begin(after, "t", 0, list(target), rules_of))


def told_now(image: ClusterImage, *voters: int) -> ClusterImage:
    """By a leader that knows the partition as it is, and has readmitted everybody."""
    now = partition(image)
    healed = tuple(-1 if (found := now.loss_of(each)) is None else found.number for each in voters)
    return told(image, 1, 7, *voters, healed=healed, known=now.partition_epoch)


def can_be_forced(image: ClusterImage) -> bool:
    try:
        return bool(leadership.elect(image, "t", 0, rules_of, unclean=True))
    except TidelogError as refusal:
        assert "can elect one" in refusal.message
        return False


def test_the_voters_of_a_move_are_written_down(image: ClusterImage) -> None:
    after = moving(image, 1, 4, 5)
    assert partition(after).known_voters == {1, 2, 3}
    after = told_now(after, 1, 2, 3, 4)
    assert partition(after).known_voters == {1, 2, 3, 4}
    again = image_of(texts_of(after))
    assert partition(again).known_voters == {1, 2, 3, 4}
    after = told_now(told_now(after, 1, 2, 3, 4, 5), 1, 3, 4, 5)
    assert partition(after).known_voters == {1, 3, 4, 5}
    after = told_now(after, 1, 4, 5)
    assert not partition(after).voters
    assert partition(after).known_voters == {1, 4, 5}


def test_voters_are_not_written_down_while_one_is_readmitted(image: ClusterImage) -> None:
    after = lost(told(image, 1, 7, 1, 2, 3), 3, empty=True)
    after = told_now(after, 1, 2)
    assert not partition(after).voters
    assert partition(after).known_voters == {1, 2, 3}


def test_voters_that_a_cancelled_move_leaves_are_known(image: ClusterImage) -> None:
    after = told_now(moving(image, 1, 4, 5), 1, 2, 3, 4)
    after = after.apply(reassignment.cancel(after, "t", 0, rules_of))
    assert partition(after).known_voters == {1, 2, 3, 4}
    after = told_now(after, 1, 2, 3)
    assert (partition(after).is_moving, partition(after).voters) == (False, ())


def test_a_healthy_move_cannot_be_ended_by_force(image: ClusterImage) -> None:
    after = moving(image, 1, 4, 5)
    for voters in ((1, 2, 3), (1, 2, 3, 4), (1, 2, 3, 4, 5), (1, 3, 4, 5)):
        after = told_now(after, *voters)
        assert not can_be_forced(after)


def test_a_voter_that_a_cancelled_move_may_have_added_counts(image: ClusterImage) -> None:
    """The leader may have added 4 before it heard of the cancellation. Then 1 and 2 are no majority."""
    after = moving(image, 1, 2, 4)
    after = after.apply(reassignment.cancel(after, "t", 0, rules_of))
    assert partition(after).known_voters == {1, 2, 3}
    assert not can_be_forced(after)
    assert can_be_forced(lost(after, 3))


def test_half_of_the_voters_of_a_move_are_no_majority(image: ClusterImage) -> None:
    """Nor may they be in the set that a leader writes next, of which nobody has told yet."""
    for voters in ((1, 2, 3, 4, 5), (1, 3, 4, 5)):
        after = told_now(told_now(told_now(moving(image, 1, 4, 5), 1, 2, 3, 4), 1, 2, 3, 4, 5), *voters)
        assert not can_be_forced(after)
        after = lost(lost(after, 4, empty=True), 5, empty=True)
        assert partition(after).remember == {1, 3, *set(voters) - {4, 5}}
        assert can_be_forced(after)


def test_a_fourth_voter_that_nobody_has_told_of_may_be_needed(image: ClusterImage) -> None:
    after = moving(image, 1, 2, 3, 4)
    assert not can_be_forced(after)
    assert can_be_forced(after.apply([BrokerFencingChanged(3, True)]))


def test_fewer_than_three_replicas_are_refused(image: ClusterImage) -> None:
    with pytest.raises(TidelogError, match="needs 3 replicas"):
        reassignment.begin(image, "t", 0, [1, 2], rules_of)
