"""Offsets of deleted topics, where the coordinator was not there to hear of the deletion."""

from tidelog.broker.coordinators.group_machine import GroupMachine
from tidelog.broker.coordinators.shard import Shard
from tidelog.controller.records import TopicDeleted
from unit.broker.fakes import FakeBroker
from unit.broker.handlers.group_broker import group_broker


def commit(broker: FakeBroker, topic: str) -> None:
    partition = {"partition_index": 0, "committed_offset": 7, "committed_metadata": ""}
    topics = [{"name": topic, "partitions": [partition]}]
    answer = broker.call("offset_commit", 8, group_id="g", generation_id_or_member_epoch=-1, topics=topics)
    assert [each.error_code for row in answer.topics for each in row.partitions] == [0]


def topics_with_offsets(broker: FakeBroker) -> list[str]:
    return [row.name for row in broker.call("offset_fetch", 5, group_id="g", topics=None).topics]


def shard_of(broker: FakeBroker) -> Shard[GroupMachine]:
    return broker.broker.coordinators.groups.machine_of("g")._shard


def with_offsets() -> FakeBroker:
    broker = group_broker()
    broker.create("other")
    commit(broker, "t")
    commit(broker, "other")
    return broker


def test_deleted_and_created_again_while_the_log_is_read() -> None:
    broker = with_offsets()
    broker.services.held = True  # nothing is read from the disk
    shard_of(broker).throw_away()
    broker.submit(TopicDeleted(broker.topic_id("t")))
    broker.services.settle()
    broker.begin("create_topics", topics=[{"name": "t", "num_partitions": 2, "replication_factor": 1}])
    broker.services.settle()
    broker.services.held = False
    broker.services.settle()
    assert "t" in broker.store.image.topics
    assert topics_with_offsets(broker) == ["other"]


def test_deleted_while_nobody_coordinated() -> None:
    broker = with_offsets()
    broker.broker.coordinators._known_topics = {}  # as after a restart
    broker.call("delete_topics", topics=[{"name": "t", "topic_id": None}])
    assert set(topics_with_offsets(broker)) == {"t", "other"}
    shard_of(broker).throw_away()
    broker.services.settle()
    assert topics_with_offsets(broker) == ["other"]
    broker.create("t", 2)
    assert topics_with_offsets(broker) == ["other"]


def test_nothing_else_is_forgotten() -> None:
    broker = with_offsets()
    end_offset = shard_of(broker).partition.log.end_offset
    shard_of(broker).throw_away()
    broker.services.settle()
    assert set(topics_with_offsets(broker)) == {"t", "other"}
    assert shard_of(broker).partition.log.end_offset == end_offset
