"""The operator of a simulation decides what the documentation leaves to one."""

import pytest

from tidelog.config.topic import REPLICATION_MODE
from tidelog.controller import configs, reassignment
from tidelog.controller.image import ClusterImage
from tidelog.controller.leader_assignment import without_memory
from tidelog.controller.records import MetadataRecord
from tidelog.controller.rules import Rulebook
from tidelog.controller.successions import acting_leader
from tidelog.controller.successions.steps import record_of
from tidelog.controller.topics import NewTopic
from tidelog.errors import ErrorCode
from tidelog.sim import hanging, stuck
from tidelog.sim.cluster import SimCluster
from tidelog.sim.faults import is_segment
from tidelog.sim.operator import Operator
from tidelog.sim.stories.changes import ChangeStory
from tidelog.sim.stories.hanging import forget_a_transaction
from tidelog.sim.stories.late_markers import OldProducer
from tidelog.sim.stories.only_copies import leader_is_damaged
from tidelog.sim.story import TOPIC, Story


def lost_disk(copies: str, mode: str = "primary-backup", replicas: tuple[int, ...] = (1, 2, 3)) -> SimCluster:
    """Broker 1's disk is replaced, and before anybody has noticed it becomes the leader of a new topic."""
    cluster = SimCluster(1, 3, 3)
    cluster.start()
    cluster.world.run_until(cluster.world.now_ms + 3000)
    cluster.machines[1].lose_disk()
    settings = {"replication.mode": mode, "min.insync.replicas": copies}
    cluster.create_topic(NewTopic("t", -1, -1, {0: list(replicas)}, settings))
    cluster.world.run_until(cluster.world.now_ms + 200)
    cluster.machines[1].start()
    cluster.world.run_until(cluster.world.now_ms + 6000)
    return cluster


def leads(cluster: SimCluster) -> bool:
    return acting_leader(cluster.checker.metadata.newest.topics["t"].partitions[0]) == 1


def test_a_replaced_disk_where_one_copy_was_enough_is_its_decision() -> None:
    cluster = lost_disk("1")
    assert not leads(cluster)
    Operator(cluster).start()
    cluster.world.run_until(cluster.world.now_ms + 6000)
    assert leads(cluster)


def test_the_only_replica_of_a_new_topic_on_a_replaced_disk_is_its_decision() -> None:
    cluster = lost_disk("1", "isr", (1,))
    assert not leads(cluster)
    Operator(cluster).start()
    cluster.world.run_until(cluster.world.now_ms + 6000)
    assert leads(cluster)


def test_with_two_copies_nobody_is_asked() -> None:
    cluster = lost_disk("2")
    assert leads(cluster)


def voters(*dead: int, lost: tuple[int, ...] = ()) -> SimCluster:
    """A quorum topic: some are dead, some come back with new disks."""
    cluster = SimCluster(1, 3, 3)
    cluster.start()
    cluster.create_topic(NewTopic("t", -1, -1, {0: [1, 2, 3]}, {"replication.mode": "quorum"}))
    cluster.world.run_until(cluster.world.now_ms + 3000)
    for node in dead:
        cluster.machines[node].kill()
    for node in lost:
        cluster.machines[node].lose_disk()
    cluster.world.run_until(cluster.world.now_ms + 5000)
    for node in lost:
        cluster.machines[node].start()
    Operator(cluster).start()
    cluster.world.run_until(cluster.world.now_ms + 15_000)
    return cluster


def test_voters_that_are_only_away_are_waited_for() -> None:
    cluster = voters(2, 3)
    assert cluster.checker.metadata.newest.topics["t"].partitions[0].unclean_epoch < 0


def test_one_lost_voter_is_readmitted_without_an_operator() -> None:
    cluster = voters(lost=(3,))
    partition = cluster.checker.metadata.newest.topics["t"].partitions[0]
    assert (partition.unclean_epoch, set(partition.in_sync)) == (-1, {1, 2, 3})


def test_a_majority_that_lost_its_disks_is_its_decision() -> None:
    cluster = voters(lost=(2, 3))
    partition = cluster.checker.metadata.newest.topics["t"].partitions[0]
    assert partition.unclean_epoch > 0
    assert (partition.leader, set(partition.in_sync)) == (1, {1, 2, 3})


def test_voters_that_the_cluster_distrusts_for_no_reason_are_not_helped() -> None:
    """Otherwise the operator would hide what the cluster should do by itself."""
    cluster = voters()
    for node in (1, 2, 3):
        cluster.machines[node].kill()
    cluster.decide(lambda image: distrusted(image, 2, 3))
    cluster.world.run_until(cluster.world.now_ms + 1000)
    for node in (1, 2, 3):
        cluster.machines[node].start()
    cluster.world.run_until(cluster.world.now_ms + 15_000)
    partition = cluster.checker.metadata.newest.topics["t"].partitions[0]
    assert (partition.leader, partition.unclean_epoch) == (-1, -1)


def distrusted(image: ClusterImage, *replicas: int) -> list[MetadataRecord]:
    topic = image.topics["t"]
    new = topic.partitions[0]
    for replica in replicas:
        new = without_memory(new, replica, empty=True)
    return [record_of(topic.topic_id, 0, new)]


def test_members_that_are_all_gone_with_their_disks_are_its_decision() -> None:
    cluster = SimCluster(1, 3, 3)
    cluster.start()
    cluster.create_topic(NewTopic("t", -1, -1, {0: [1, 2, 3]}, {"min.insync.replicas": "1"}))
    cluster.world.run_until(cluster.world.now_ms + 3000)
    for node in (1, 2, 3):
        cluster.machines[node].lose_disk()
        cluster.world.run_until(cluster.world.now_ms + 4000)
    for node in (1, 2, 3):
        cluster.machines[node].start()
    cluster.world.run_until(cluster.world.now_ms + 5000)
    assert cluster.checker.metadata.newest.topics["t"].partitions[0].leader < 0
    Operator(cluster).start()
    cluster.world.run_until(cluster.world.now_ms + 8000)
    assert cluster.checker.metadata.newest.topics["t"].partitions[0].leader > 0


def test_a_last_member_that_lacks_what_its_disk_called_synced_is_its_decision() -> None:
    """It notices, and others may hold more."""
    story = Story(min_insync_replicas="1", flush_messages="1")
    story.write()
    story.kill("BC")
    story.until(lambda: story.in_sync() == "A", "the departure of B and C")
    story.machine("A").lie(is_segment)
    story.write()
    story.run(3500)
    story.power_off("A")
    story.start("ABC")
    story.run(5000)
    assert (story.leader(), story.in_sync()) == ("nobody", "")
    Operator(story.cluster).start()
    story.run(8000)
    assert story.all_in_sync()


@pytest.mark.parametrize("mode", ["isr", "primary-backup"])
def test_damaged_records_that_only_the_leader_has_are_its_decision(mode: str) -> None:
    """In ``primary-backup`` the stopped leader is the first replica, and no other one can be forced to lead
    before it is promoted.
    """
    story = leader_is_damaged(Story(replication_mode=mode, min_insync_replicas="1", segment_bytes="200"))
    assert [each.node_id for each in stuck.find(story.cluster)] == [story.machine("A").node_id]
    Operator(story.cluster).start()
    story.run(12_000)
    assert story.all_in_sync()
    assert story.leader() != "A"


@pytest.mark.parametrize("mode", ["isr", "quorum"])
def test_a_change_that_waits_for_a_damaged_primary_is_withdrawn(mode: str) -> None:
    """The change waits for backups that hold the whole log, and no backup can be promoted meanwhile."""
    story = ChangeStory(replication_mode="primary-backup", min_insync_replicas="2", segment_bytes="200")
    story.write()
    story.kill("BC")
    for _ in range(4):
        story.send()
    story.run(3500)
    story.kill("A")
    story.flip_bit("A", segment=1)
    story.start("A")
    story.until(lambda: story.leader() == "A", "the return of A")
    story.start("BC")
    story.run(3000)
    story.change(mode)
    story.run(1000)
    assert not story.has_changed()
    Operator(story.cluster).start()
    story.run(12_000)
    assert story.has_changed()
    assert story.all_in_sync()
    assert story.partition().mode == "primary-backup"


def presumed_lossy(*, late: bool) -> ChangeStory:
    """B and C lose power while every acknowledged record is on their disks. Before the controllers hear of
    it, the topic does not require that any more, and its replicas vote: both count as having lost their
    tails. ``late``: C, the first replica, was behind when votes began, and so counts as having lost more.
    """
    story = ChangeStory(flush_messages="1")
    rules = Rulebook(story.cluster.config)
    order = story.nodes("CBA")
    story.cluster.decide(lambda image: reassignment.begin(image, TOPIC, 0, order, rules.at(image)))
    story.write()
    if late:
        story.kill("C")
        story.until(lambda: story.in_sync() == "AB", "the departure of C")
        assert story.write() is ErrorCode.NONE
    story.power_off("BC")
    settings = {**story.topic().configs, "flush.messages": "3", REPLICATION_MODE: "quorum"}
    del settings["min.insync.replicas"]
    story.cluster.decide(lambda image: configs.change_topic(image, TOPIC, settings, rules))
    story.until(lambda: story.partition().mode == "quorum", "the change")
    story.start("BC")
    story.run(3000)
    return story


@pytest.mark.parametrize("changes_again", [False, True])
def test_voters_that_must_be_taken_for_lossy_are_its_decision(*, changes_again: bool) -> None:
    """The longest log continues. It cannot be put first while the mode changes."""
    story = presumed_lossy(late=True)
    if changes_again:
        story.change("primary-backup")
        story.run(100)
    assert (story.leader(), story.in_sync()) == ("nobody", "A")
    Operator(story.cluster).start()
    story.run(12_000)
    assert story.all_in_sync()
    assert (story.partition().mode, story.partition().unclean_epoch > 0) == ("quorum", True)
    assert story.cluster.checker.given_up == set()


def test_a_majority_that_counts_as_having_lost_its_tail_votes_by_itself() -> None:
    story = presumed_lossy(late=False)
    [place] = story.cluster.checker.places()
    assert story.cluster.checker.losses.presumed(place.key) == set()  # All have caught up.
    assert story.all_in_sync()
    assert story.partition().unclean_epoch < 0


def test_a_transaction_that_its_coordinator_has_lost_is_its_decision() -> None:
    cluster = forget_a_transaction().cluster
    assert len(hanging.find(cluster)) == 1
    Operator(cluster).start()
    cluster.world.run_until(cluster.world.now_ms + 6000)
    assert hanging.find(cluster) == []


def test_a_transaction_that_hangs_without_a_loss_is_not_helped() -> None:
    cluster = forget_a_transaction().cluster
    cluster.checker.transactions.void = False
    cluster.checker.given_up.clear()
    assert hanging.find(cluster) == []


def test_a_transaction_that_its_coordinator_will_end_does_not_hang() -> None:
    """Although records of its partition were given up."""
    story = Story()
    OldProducer(story).write()
    story.cluster.checker.given_up.add((TOPIC, 0))
    assert hanging.find(story.cluster) == []


LEAVERS = {2: "C", 4: "B"}  # by the number of the record after which they leave; a segment holds two


def led_by_a_damaged_replica(*segments: int) -> Story:
    """A leads alone, and some of its segments are damaged. B holds the first two segments, C the first one.
    One copy is enough to commit.
    """
    story = Story(min_insync_replicas="1", segment_bytes="200")
    for number in range(1, 8):
        assert story.write() is ErrorCode.NONE
        if number in LEAVERS:
            story.kill(LEAVERS[number])
            story.until(lambda gone=LEAVERS[number]: gone not in story.in_sync(), "a departure")  # type: ignore[misc]
    story.run(3500)
    story.kill("A")
    for segment in segments:
        story.flip_bit("A", segment=segment)
    story.start("A")
    story.until(lambda: story.leader() == "A", "the return of A")
    story.start("BC")
    story.run(5000)
    return story


def test_a_leader_whose_damaged_records_nobody_has_is_its_decision() -> None:
    story = led_by_a_damaged_replica(2)
    assert [each.node_id for each in stuck.find(story.cluster)] == [1]
    Operator(story.cluster).start()
    story.run(10_000)
    assert (story.all_in_sync(), story.leader()) == (True, "B")


def test_a_replica_that_has_only_the_first_damaged_records_does_not_help() -> None:
    story = led_by_a_damaged_replica(1, 2)
    assert [each.node_id for each in stuck.find(story.cluster)] == [1]
    Operator(story.cluster).start()
    story.run(10_000)
    assert story.all_in_sync()


def test_a_damaged_leader_is_not_replaced_if_another_replica_has_the_damaged_records() -> None:
    """That replica fetches the rest, and the leader steps aside by itself."""
    story = led_by_a_damaged_replica(1)
    assert list(stuck.find(story.cluster)) == []
    assert story.all_in_sync()
