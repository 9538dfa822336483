"""From when a promise counts: what a change marks, and what a confirmation takes away."""

from collections.abc import Mapping

import msgspec
import pytest

from tidelog.config import BrokerConfig
from tidelog.config.topic import REPLICATION_MODE
from tidelog.controller import brokers, configs, promises, reassignment
from tidelog.controller.image import ClusterImage, PartitionImage
from tidelog.controller.leader_assignment import InSyncProposal, change_in_sync
from tidelog.controller.promises import ConfirmedPromise
from tidelog.controller.records import BrokerRegistered, TopicConfigChanged, decode, encode
from tidelog.controller.rules import Rulebook
from tidelog.controller.snapshot import image_of, texts_of
from tidelog.controller.successions.steps import record_of
from tidelog.errors import ErrorCode, TidelogError
from unit.controller.clusters import cluster, created, topic_id

A, B, C = 1, 2, 3
FLUSH = {"flush.messages": "1"}
ID = topic_id(1)
replace = msgspec.structs.replace


class World:
    """One topic that is being configured."""

    def __init__(self, configs: Mapping[str, str], mode: str = "isr", *, replicas: int = 3) -> None:
        names = [A, B, C]
        self.image = cluster(*names, records=[created("t", names[:replicas])])
        first = replace(self.now, mode=mode)
        self.rules = Rulebook(BrokerConfig.parse({"min.insync.replicas": "2"}))
        overrides: dict[str, str | None] = {REPLICATION_MODE: mode, **configs}
        self.image = self.image.apply([TopicConfigChanged(ID, overrides), record_of(ID, 0, first)])

    @property
    def now(self) -> PartitionImage:
        return self.image.topics["t"].partitions[0]

    def set(self, **changes: str | None) -> PartitionImage:
        wanted = dict(self.image.topics["t"].configs)
        for name, value in changes.items():
            wanted.pop(name.replace("_", "."), None)
            if value is not None:
                wanted[name.replace("_", ".")] = value
        self.image = self.image.apply(configs.change_topic(self.image, "t", wanted, self.rules))
        return self.now

    def confirm(self, broker: int, **confirmed: bool) -> PartitionImage:
        told = ConfirmedPromise(ID, 0, self.now.promise_epoch, **confirmed)
        epoch = self.image.brokers[broker].broker_epoch
        self.image = self.image.apply(
            promises.confirm(self.image, broker, epoch, [told], self.rules.at(self.image))
        )
        return self.now

    def power_failure(self, broker: int) -> PartitionImage:
        epoch = self.image.last_broker_epoch + 1
        known = self.image.brokers[broker]
        again = BrokerRegistered(broker, known.incarnation, known.host, known.port, None, epoch, fenced=True)
        records = brokers.register(self.image, again, self.rules.at(self.image), forgot=True, empty=False)
        return self.image.apply(records).topics["t"].partitions[0]


def test_a_new_topic_promises_nothing_that_is_not_so() -> None:
    assert (World(FLUSH).now.unsynced, World({}, "quorum").now.unsynced) == ((), ())


def test_each_replica_confirms_its_syncs() -> None:
    world = World({})
    assert world.set(flush_messages="1").unsynced == (A, B, C)
    assert world.confirm(B, synced=True).unsynced == (A, C)
    assert world.confirm(B, synced=True).unsynced == (A, C)
    world.confirm(A, synced=True)
    assert (world.now.synced_since, world.now.doubtful_epoch > 1 << 30) == (-1, True)
    last = world.confirm(C, synced=True)
    assert (last.unsynced, last.synced_since, last.doubtful_epoch) == ((), 0, 0)


def test_a_power_failure_counts_by_what_was_confirmed() -> None:
    world = World({"min.insync.replicas": "3"})
    world.set(flush_messages="1")
    world.confirm(B, synced=True)
    assert A not in (*world.power_failure(A).in_sync, *world.power_failure(A).eligible)
    assert B in (*world.power_failure(B).in_sync, *world.power_failure(B).eligible)


def test_a_setting_of_all_brokers_is_a_setting_of_every_topic() -> None:
    world = World({})
    wanted = {"log.flush.interval.messages": "1"}
    world.image = world.image.apply(configs.change_broker(world.image, "", wanted, world.rules))
    assert world.now.unsynced == (A, B, C)
    assert world.set(flush_messages="1").promise_epoch == 1  # No more than before.
    world.image = world.image.apply(configs.change_broker(world.image, "", {}, world.rules))
    assert world.now.unsynced == (A, B, C)  # The topic's own setting stays.


def test_what_was_confirmed_before_the_setting_was_taken_back_is_void() -> None:
    world = World({})
    late = ConfirmedPromise(ID, 0, world.set(flush_messages="1").promise_epoch, synced=True)
    assert world.set(flush_messages=None).unsynced == ()
    assert world.set(flush_messages="1").unsynced == (A, B, C)
    assert promises.confirm(world.image, B, 0, [late], world.rules.at(world.image)) == []


def test_another_run_of_the_broker_confirms_nothing() -> None:
    world = World({})
    world.set(flush_messages="1")
    with pytest.raises(TidelogError) as refusal:
        promises.confirm(
            world.image, B, 5, [ConfirmedPromise(ID, 0, 1, synced=True)], world.rules.at(world.image)
        )
    assert refusal.value.code is ErrorCode.STALE_BROKER_EPOCH


@pytest.mark.parametrize(
    "confirmed",
    [
        ConfirmedPromise(topic_id(9), 0, 1, True),
        ConfirmedPromise(ID, 4, 1, True),
        ConfirmedPromise(ID, -1, 1, True),
    ],
)
def test_partitions_that_do_not_exist_are_passed_over(confirmed: ConfirmedPromise) -> None:
    world = World({})
    assert promises.confirm(world.image, A, 0, [confirmed], world.rules.at(world.image)) == []


def test_a_mode_that_syncs_promises_it_with_its_step() -> None:
    world = World({})
    stepped = world.set(replication_mode="quorum")
    assert (stepped.mode, stepped.unsynced) == ("quorum", (A, B, C))


def test_a_mode_that_does_not_sync_takes_the_promise_back() -> None:
    world = World({}, "quorum")
    world.set(replication_mode="isr")
    proposal = InSyncProposal(A, 0, ID, 0, 5, world.now.partition_epoch, (A, B, C), (-1, -1, -1), sealed=True)
    records = change_in_sync(world.image, proposal, world.rules.at(world.image)).records
    world.image = world.image.apply(records)
    assert (world.now.mode, world.now.unsynced) == ("isr", ())
    assert world.set(replication_mode="quorum").unsynced == (A, B, C)


def test_copies_that_were_confirmed_before_fewer_were_enough_are_void() -> None:
    world = World({"min.insync.replicas": "1"}, "primary-backup")
    late = ConfirmedPromise(ID, 0, world.set(min_insync_replicas="3").promise_epoch, copied=True)
    assert world.set(min_insync_replicas="2").promise_epoch == late.promise_epoch  # No more than before.
    assert world.set(min_insync_replicas="3").copies == 1
    assert promises.confirm(world.image, A, 0, [late], world.rules.at(world.image)) == []
    assert world.confirm(A, copied=True).copies == 0


def test_more_copies_are_confirmed_by_the_leader() -> None:
    world = World({"min.insync.replicas": "1"}, "primary-backup")
    assert world.now.copies == 0
    assert world.set(min_insync_replicas="3").copies == 1
    assert world.set(min_insync_replicas="2").copies == 1
    assert world.confirm(B, copied=True).copies == 1  # It does not lead.
    assert world.confirm(A, synced=True).copies == 1
    assert world.confirm(A, copied=True).copies == 0
    assert world.set(min_insync_replicas="1").copies == 0  # Less than before needs no word.


def test_degradation_is_one_copy() -> None:
    world = World({"min.insync.replicas": "2"}, "primary-backup")
    assert world.set(replication_degrade_after_ms="300").copies == 0
    assert world.set(replication_degrade_after_ms=None).copies == 1


def test_another_replica_may_be_another_copy() -> None:
    world = World({}, "primary-backup", replicas=1)
    rules = world.rules.at(world.image)
    world.image = world.image.apply(reassignment.begin(world.image, "t", 0, [A, B], rules))
    assert world.now.copies == 1


def test_members_are_the_copies_of_what_was_committed_in_isr() -> None:
    world = World({"min.insync.replicas": "1"})
    world.image = world.image.apply([record_of(ID, 0, replace(world.now, in_sync=(A,)))])
    assert world.set(min_insync_replicas="3", replication_mode="primary-backup").copies == 1


def test_a_move_that_is_taken_back_keeps_whoever_leads() -> None:
    world = World({"min.insync.replicas": "1"}, "primary-backup", replicas=1)
    rules = world.rules.at(world.image)
    world.image = world.image.apply(reassignment.begin(world.image, "t", 0, [B, C], rules))
    led = replace(world.now, leader=B, last_leader=B, leader_epoch=1, in_sync=(B,), eligible=(A,))
    world.image = world.image.apply([record_of(ID, 0, led)])
    world.image = world.image.apply(reassignment.cancel(world.image, "t", 0, rules))
    assert (world.now.leader, world.now.target, set(world.now.replicas)) == (B, (A,), {A, B, C})


def test_what_is_unconfirmed_is_told() -> None:
    world = World({"min.insync.replicas": "1"}, "primary-backup")
    world.set(flush_messages="1", min_insync_replicas="2")
    told = [each.waits_for for each in promises.unconfirmed(world.image.topics["t"])]
    assert told == [
        "brokers 1, 2, 3, to confirm that their logs are synced",
        "the leader: some records may have only 1 of the required copies",
    ]
    world.confirm(A, synced=True, copied=True)
    assert len(list(promises.unconfirmed(world.image.topics["t"]))) == 1


def test_snapshots_and_records_keep_it() -> None:
    world = World({"min.insync.replicas": "1"}, "primary-backup")
    world.set(flush_messages="1", min_insync_replicas="2")
    assert image_of(texts_of(world.image)) == world.image
    record = record_of(ID, 0, world.now)
    assert decode(encode(record)) == record


def test_who_led_last_is_remembered_by_its_epoch() -> None:
    world = World({}, "primary-backup")
    image: ClusterImage = world.image

    def after(**changes: object) -> int:
        record = record_of(ID, 0, replace(world.now, **changes))
        return image.apply([record]).topics["t"].partitions[0].acted_epoch

    assert after(leader_epoch=4) == 4
    assert after(leader=-1, leader_epoch=5) == 0
    assert after(leader=A, in_sync=(B,), leader_epoch=6) == 0  # It still gathers what others hold.


def test_another_wish_leaves_what_is_unconfirmed() -> None:
    world = World({"min.insync.replicas": "1"}, "primary-backup")
    before = world.now.partition_epoch
    world.set(flush_messages="1", min_insync_replicas="2", replication_mode="isr")
    assert (world.now.mode, world.now.unsynced, world.now.copies) == ("primary-backup", (A, B, C), 1)
    assert world.now.partition_epoch == before + 2


def test_who_leaves_need_not_confirm() -> None:
    world = World({})
    world.set(flush_messages="1")
    world.confirm(A, synced=True)
    world.confirm(B, synced=True)
    rules = world.rules.at(world.image)
    world.image = world.image.apply(reassignment.begin(world.image, "t", 0, [A, B], rules))
    assert (world.now.replicas, world.now.unsynced, world.now.synced_since) == ((A, B), (), 0)


def test_a_move_ends_when_its_leader_has_confirmed_the_copies_without_those_that_go() -> None:
    world = World({}, "primary-backup")
    late = ConfirmedPromise(ID, 0, world.now.promise_epoch, copied=True)
    rules_of = world.rules.at(world.image)
    world.image = world.image.apply(reassignment.begin(world.image, "t", 0, [A, B], rules_of))
    assert (world.now.replicas, world.now.uncounted) == ((A, B, C), (C,))
    assert image_of(texts_of(world.image)) == world.image
    assert promises.confirm(world.image, A, 0, [late], rules_of) == []
    assert world.confirm(B, copied=True).ending  # It does not lead.
    done = world.confirm(A, copied=True)
    assert (done.replicas, done.in_sync, done.is_moving, done.ending) == ((A, B), (A, B), False, False)


def test_what_was_confirmed_for_one_move_does_not_end_another() -> None:
    world = World({}, "primary-backup")
    rules_of = world.rules.at(world.image)
    world.image = world.image.apply(reassignment.begin(world.image, "t", 0, [A, B], rules_of))
    late = ConfirmedPromise(ID, 0, world.now.promise_epoch, copied=True)
    world.image = world.image.apply(reassignment.begin(world.image, "t", 0, [A, C], rules_of))
    assert world.now.uncounted == (B,)
    assert promises.confirm(world.image, A, 0, [late], rules_of) == []
    assert world.confirm(A, copied=True).replicas == (A, C)
