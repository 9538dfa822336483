"""What a replica counts for when its broker starts again after its log had failed, or was damaged."""

from typing import Any
from uuid import UUID

import msgspec
import pytest

from tidelog.config.modes import QUORUM
from tidelog.controller import brokers, logs
from tidelog.controller.image import ClusterImage, PartitionImage
from tidelog.controller.records import BrokerRegistered, PartitionChanged, decode, encode
from tidelog.controller.snapshot import image_of, texts_of
from tidelog.controller.successions.steps import Rules, record_of
from unit.controller.clusters import cluster, created, topic_id

SYNCED, UNSYNCED = Rules(2, False, synced=True), Rules(2, False, synced=False)
MODE: dict[str, Any] = {"replication.mode": QUORUM}
KEYS = [(topic_id(1), 0)]


@pytest.fixture
def image() -> ClusterImage:
    topic = created("t", [1, 2, 3], **MODE)
    return cluster(1, 2, 3, records=[msgspec.structs.replace(topic, mode=QUORUM)])


def partition(image: ClusterImage) -> PartitionImage:
    return image.topics["t"].partitions[0]


def failed(image: ClusterImage) -> ClusterImage:
    return image.apply(logs.fail(image, 3, 0, KEYS, lambda topic: SYNCED))


def damaged(image: ClusterImage) -> ClusterImage:
    return image.apply(logs.take_offline(image, 3, 0, KEYS, lambda topic: SYNCED))


def restarted(
    image: ClusterImage, rules: Rules = SYNCED, *, forgot: bool = False, empty: bool = False
) -> PartitionImage:
    again = BrokerRegistered(3, UUID(int=7), "host", 9092, None, 9, fenced=True)
    records = brokers.register(image, again, lambda topic: rules, forgot=forgot, empty=empty)
    return partition(image.apply(records))


def test_a_log_that_failed_is_offline_and_not_damaged(image: ClusterImage) -> None:
    now = partition(failed(image))
    assert (now.offline, now.unwritable, now.damaged, now.in_sync) == ((3,), (3,), frozenset(), (1, 2))
    assert logs.fail(failed(image), 3, 0, KEYS, lambda topic: SYNCED) == []


def test_where_all_that_was_acknowledged_is_synced_it_counts_after_a_restart(image: ClusterImage) -> None:
    now = restarted(failed(image))
    assert (now.offline, now.unwritable, now.losses) == ((), (), ())
    assert now.remember == {1, 2, 3}


@pytest.mark.parametrize("empty", [False, True])
def test_elsewhere_it_may_lack_its_tail(image: ClusterImage, empty: bool) -> None:
    now = restarted(failed(image), UNSYNCED, empty=empty)
    assert (now.offline, now.remember) == ((), frozenset({1, 2}))
    assert [loss.tail for loss in now.losses] == [not empty]


def test_a_replica_that_has_not_confirmed_its_sync_may_lack_its_tail(image: ClusterImage) -> None:
    doubtful = msgspec.structs.replace(partition(failed(image)), unsynced=(3,))
    now = restarted(image.apply([record_of(topic_id(1), 0, doubtful)]))
    assert [loss.tail for loss in now.losses] == [True]


@pytest.mark.parametrize("rules", [SYNCED, UNSYNCED])
@pytest.mark.parametrize("forgot", [False, True])
def test_a_damaged_log_lacks_more_than_its_tail(image: ClusterImage, rules: Rules, forgot: bool) -> None:
    now = restarted(damaged(image), rules, forgot=forgot)
    assert (now.offline, now.remember) == ((), frozenset({1, 2}))
    assert [loss.tail for loss in now.losses] == [False]


def test_damage_is_remembered_whatever_is_heard_of_the_log_before_and_after(image: ClusterImage) -> None:
    for now in (partition(failed(damaged(image))), partition(damaged(failed(image)))):
        assert (now.offline, now.unwritable, now.damaged) == ((3,), (), frozenset({3}))
    assert logs.take_offline(damaged(image), 3, 0, KEYS, lambda topic: SYNCED) == []


def test_it_survives_a_snapshot_and_older_records_mean_damage(image: ClusterImage) -> None:
    after = failed(image)
    assert image_of(texts_of(after)) == after
    record = record_of(topic_id(1), 0, partition(after))
    assert isinstance(again := decode(encode(record)), PartitionChanged)
    assert again.unwritable == [3]
    older = msgspec.structs.replace(record, unwritable=[])
    assert b"unwritable" not in encode(older)
    assert partition(after.apply([older])).damaged == {3}


def test_who_is_moved_away_is_not_unwritable_any_more(image: ClusterImage) -> None:
    gone = msgspec.structs.replace(partition(failed(image)), replicas=(1, 2), offline=())
    assert record_of(topic_id(1), 0, gone).unwritable == []
