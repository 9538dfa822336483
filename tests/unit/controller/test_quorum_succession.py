"""Partitions whose replicas vote, as the controllers write them down."""

import msgspec
import pytest
from clusters import cluster, created, topic_id

from tidelog.config.modes import QUORUM
from tidelog.controller import brokers, leadership, reassignment
from tidelog.controller.elections import InSyncWish, change_in_sync
from tidelog.controller.image import ClusterImage, PartitionImage
from tidelog.controller.records import BrokerFencingChanged, TopicCreated
from tidelog.controller.successions.steps import Rules
from tidelog.errors import TidelogError

RULES = Rules(1, False, synced=True)


def rules_of(topic: object) -> Rules:
    return RULES


def topic(*replicas: int) -> TopicCreated:
    return msgspec.structs.replace(created("t", list(replicas), **{"replication.mode": QUORUM}), mode=QUORUM)


@pytest.fixture
def image() -> ClusterImage:
    return cluster(1, 2, 3, 4, 5, records=[topic(1, 2, 3)])


def partition(image: ClusterImage) -> PartitionImage:
    return image.topics["t"].partitions[0]


def told(
    image: ClusterImage, leader: int, epoch: int, *voters: int, runs: tuple[int, ...] = ()
) -> ClusterImage:
    wish = InSyncWish(leader, 0, topic_id(1), 0, epoch, -1, voters, runs or (-1,) * len(voters), elected=True)
    return image.apply(change_in_sync(image, wish, rules_of).records)


def test_the_winner_of_an_election_is_written_down(image: ClusterImage) -> None:
    now = partition(told(image, 2, 7, 1, 2, 3))
    assert (now.leader, now.leader_epoch, now.in_sync) == (2, 7, (1, 2, 3))


def test_an_older_election_is_no_news(image: ClusterImage) -> None:
    after = told(image, 2, 7, 1, 2, 3)
    with pytest.raises(TidelogError):
        told(after, 3, 6, 1, 2, 3)
    with pytest.raises(TidelogError):
        told(after, 3, 7, 1, 2, 3)


def test_fencing_raises_no_epoch_and_elects_nobody(image: ClusterImage) -> None:
    after = told(image, 2, 7, 1, 2, 3)
    now = partition(after.apply(brokers.fence(after, 2, rules_of)))
    assert (now.leader, now.leader_epoch) == (-1, 7)
    assert (now.in_sync, now.eligible) == ((1, 3), (2,))


def test_who_forgot_counts_when_its_leader_has_taken_in_this_very_run(image: ClusterImage) -> None:
    after = told(image, 2, 7, 1, 2, 3)
    forgot = msgspec.structs.replace(partition(after), in_sync=(1, 2))
    topics = {"t": msgspec.structs.replace(after.topics["t"], partitions=(forgot,))}
    after = msgspec.structs.replace(after, topics=topics)
    assert partition(told(after, 2, 7, 1, 2, 3)).in_sync == (1, 2)
    assert partition(told(after, 2, 7, 1, 2, 3, runs=(-1, -1, 99))).in_sync == (1, 2)
    run = after.brokers[3].broker_epoch
    assert partition(told(after, 2, 7, 1, 2, 3, runs=(-1, -1, run))).in_sync == (1, 2, 3)


def test_a_leader_that_wants_to_stop_gets_an_heir(image: ClusterImage) -> None:
    after = told(image, 2, 7, 1, 2, 3)
    after = after.apply(brokers.leave(after, 2, rules_of))
    assert partition(after).heir in (1, 3)
    assert partition(after).leader == 2
    assert brokers.is_needed(after, 2)
    after = told(after, partition(after).heir, 8, 1, 2, 3)
    assert partition(after).heir == -1
    assert not brokers.is_needed(after, 2)


def test_the_preferred_leader_is_asked_for(image: ClusterImage) -> None:
    after = told(image, 2, 7, 1, 2, 3)
    after = after.apply(leadership.elect(after, "t", 0, rules_of, unclean=False))
    assert (partition(after).leader, partition(after).leader_epoch, partition(after).heir) == (2, 7, 1)
    fenced = after.apply([BrokerFencingChanged(1, True)])
    settled = fenced.apply(brokers.fence(after, 1, rules_of))
    assert partition(settled).heir == -1


def test_nobody_can_enforce_an_election(image: ClusterImage) -> None:
    after = image.apply(brokers.fence(image, 1, rules_of))
    with pytest.raises(TidelogError):
        leadership.elect(after, "t", 0, rules_of, unclean=True)


def test_a_move_ends_when_the_leader_tells_of_the_target(image: ClusterImage) -> None:
    after = told(image, 1, 1, 1, 2, 3)
    after = after.apply(reassignment.begin(after, "t", 0, [1, 4, 5], rules_of))
    assert partition(after).replicas == (1, 4, 5, 2, 3)
    runs = tuple(after.brokers[broker].broker_epoch for broker in (1, 4, 5))
    after = told(after, 1, 1, 1, 4, 5, runs=runs)
    assert partition(after).replicas == (1, 4, 5)
    assert not partition(after).is_moving


def test_no_voter_is_left_behind_when_a_move_is_called_off(image: ClusterImage) -> None:
    after = told(image, 1, 1, 1, 2, 3)
    after = after.apply(reassignment.begin(after, "t", 0, [1, 4, 5], rules_of))
    after = after.apply(reassignment.begin(after, "t", 0, [1, 2, 4], rules_of))
    assert set(partition(after).replicas) == {1, 2, 3, 4, 5}
    after = after.apply(reassignment.cancel(after, "t", 0, rules_of))
    assert partition(after).target == (1, 2, 3)
    assert set(partition(after).replicas) == {1, 2, 3, 4, 5}


def test_fewer_than_three_replicas_are_refused(image: ClusterImage) -> None:
    with pytest.raises(TidelogError, match="needs 3 replicas"):
        reassignment.begin(image, "t", 0, [1, 2], rules_of)
