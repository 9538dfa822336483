"""Consumer groups with unmodified clients: they resume, share, and outlive each other and the broker."""

import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import confluent_kafka
import pytest
from kio.schema.errors import ErrorCode

from tidelog.testing import Broker, running_broker

from . import calls
from .clients import CLIENTS, Client, Message
from .conftest import BOOTSTRAP, broker_kind
from .consumed import offset_of
from .members import Member, await_shares, members
from .wire import Wire

pytestmark = pytest.mark.interop

SETTINGS = {
    "group.min.session.timeout.ms": 500,
    "group.initial.rebalance.delay.ms": 100,
    "offsets.topic.num.partitions": 5,
    "offsets.topic.replication.factor": 1,
    "offsets.retention.check.interval.ms": 200,
}
NAMES = [client.name for client in CLIENTS]
every_client = pytest.mark.parametrize("client", NAMES)


@pytest.fixture(scope="module")
def at(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker that is quick to notice what happens to members."""
    if BOOTSTRAP:
        pytest.skip("needs a broker with its own settings")
    with running_broker(tmp_path_factory.mktemp("groups"), SETTINGS, kind=broker_kind()) as broker:
        yield broker.bootstrap


@pytest.fixture
def group() -> str:
    return f"g-{uuid.uuid4().hex[:12]}"


def topic_with(bootstrap: str, partitions: int, records_each: int) -> str:
    name = f"t-{uuid.uuid4().hex[:12]}"
    with Wire(bootstrap) as wire:
        calls.create_topic(wire, name, partitions)
    for partition in range(partitions if records_each else 0):
        produce(bootstrap, name, partition, records_each)
    return name


def produce(bootstrap: str, topic: str, partition: int, count: int) -> None:
    messages = [Message(None, f"{partition}-{number}".encode()) for number in range(count)]
    CLIENTS[0].produce(bootstrap, topic, messages, partition=partition)


def coordinator(bootstrap: str, group: str) -> Wire:
    with Wire(bootstrap) as wire:

        def found() -> bool:
            (answer,) = wire.call("find_coordinator", 4, key_type=0, coordinator_keys=[group]).coordinators
            return answer.error_code is ErrorCode.none

        calls.eventually(found, "the group has a coordinator")
    return Wire(bootstrap)


def describe(bootstrap: str, group: str) -> Any:
    with coordinator(bootstrap, group) as wire:
        return once_loaded(lambda: wire.call("describe_groups", 5, groups=[group]).groups[0])


def committed(bootstrap: str, group: str, topic: str) -> dict[int, int]:
    with coordinator(bootstrap, group) as wire:
        answer = once_loaded(
            lambda: wire.call("offset_fetch", 7, group_id=group, topics=None, require_stable=True)
        )
        return {
            partition.partition_index: partition.committed_offset
            for found in answer.topics
            if found.name == topic
            for partition in found.partitions
        }


def once_loaded(ask: Callable[[], Any]) -> Any:
    """The answer of a coordinator that may just have started."""
    answers: list[Any] = []

    def answered() -> bool:
        answers.append(ask())
        return answers[-1].error_code is ErrorCode.none

    calls.eventually(answered, "the coordinator answers")
    return answers[-1]


@pytest.mark.parametrize("client", CLIENTS, ids=NAMES)
def test_commit_and_resume(at: str, group: str, client: Client) -> None:
    topic = topic_with(at, 1, 60)
    options = {"bootstrap": at, "group": group, "topic": topic}
    with members() as started:
        first = Member(client.name, **options)
        started.append(first)
        calls.eventually(lambda: len(first.records) >= 30, "30 records are read and committed")
        first.leave()
        seen = len(first.records)
        produce(at, topic, 0, 20)
        second = Member(client.name, **options)
        started.append(second)
        calls.eventually(lambda: second.records[-1:] == [(0, 79)], "the rest is read")
        second.leave()
    offsets = [offset for _, offset in second.records]
    assert offsets == list(range(seen, 80))
    assert committed(at, group, topic) == {0: 80}


@every_client
def test_members_come_and_go(at: str, group: str, client: str) -> None:
    """They join, leave, crash and stall; whoever is left has all partitions, and nothing is left out."""
    topic = topic_with(at, 6, 5)
    options = {"bootstrap": at, "group": group, "topic": topic}
    with members() as started:
        for number in range(1, 4):
            started.append(Member(client, **options))
            await_shares(started, 6)
            assert describe(at, group).group_state == "Stable" or number < 3
        leaving, crashing, stalling = started
        leaving.leave()
        await_shares([crashing, stalling], 6)
        newcomer = Member(client, **options)
        started.append(newcomer)
        await_shares([crashing, stalling, newcomer], 6)
        crashing.kill()
        await_shares([stalling, newcomer], 6)
        stalling.freeze()
        await_shares([newcomer], 6)
        for partition in range(6):
            produce(at, topic, partition, 5)
        calls.eventually(lambda: committed(at, group, topic) == dict.fromkeys(range(6), 10), "all is read")
        stalling.thaw()
        await_shares([stalling, newcomer], 6)
        read = {record for member in started for record in member.records}
    assert read == {(partition, offset) for partition in range(6) for offset in range(10)}


@every_client
def test_a_static_member_restarts_without_a_rebalance(at: str, group: str, client: str) -> None:
    topic = topic_with(at, 4, 1)
    options = {"bootstrap": at, "group": group, "topic": topic, "stays": True, "session_ms": 30_000}
    with members() as started:
        for name in ("a", "b"):
            started.append(Member(client, instance=name, **options))
        await_shares(started, 4)
        first, second = started
        before = {member.group_instance_id: member for member in describe(at, group).members}
        share, times_assigned = second.partitions, first.count("assigned")
        second.kill()
        again = Member(client, instance="b", **options)
        started.append(again)
        calls.eventually(lambda: again.partitions == share, "it has its old partitions")
        after = {member.group_instance_id: member for member in describe(at, group).members}
        assert after["a"].member_id == before["a"].member_id
        assert after["b"].member_id != before["b"].member_id
        assert after["b"].member_assignment == before["b"].member_assignment
        produce(at, topic, min(share), 1)
        calls.eventually(lambda: (min(share), 1) in again.records, "it reads on")
        assert first.count("assigned") == times_assigned


def test_cooperative_rebalancing_moves_only_what_must_move(at: str, group: str) -> None:
    topic = topic_with(at, 6, 1)
    options = {"bootstrap": at, "group": group, "topic": topic, "strategy": "cooperative-sticky"}
    with members() as started:
        first = Member("confluent", **options)
        started.append(first)
        await_shares(started, 6)
        started.append(Member("confluent", **options))
        await_shares(started, 6)
        revoked = [event["partitions"] for event in first.events if event["event"] == "revoked"]
        assert [partitions for partitions in revoked if partitions] == [sorted(started[1].partitions)]
        started.append(Member("confluent", **options))
        await_shares(started, 6)
        started[1].kill()
        await_shares([first, started[2]], 6)


@pytest.mark.tidelog_settings(SETTINGS)
@pytest.mark.parametrize("how", ["kill", "restart"])
def test_the_broker_comes_back(broker: Broker, group: str, how: str) -> None:
    """Offsets and groups are there again, and members that lived on go on in their generation."""
    topic = topic_with(broker.bootstrap, 2, 10)
    options = {"bootstrap": broker.bootstrap, "group": group, "topic": topic, "session_ms": 30_000}
    with coordinator(broker.bootstrap, "simple") as wire:
        commit(wire, "simple", topic, 7)
    with members() as started:
        started += [Member("confluent", **options), Member("confluent", **options)]
        await_shares(started, 2)
        calls.eventually(lambda: sum(len(each.records) for each in started) == 20, "all is read")
        before = describe(broker.bootstrap, group)
        assigned = [each.count("assigned") for each in started]
        if how == "kill":
            broker.kill()
            broker.start()
        else:
            broker.restart()
        assert committed(broker.bootstrap, "simple", topic) == {0: 7}
        assert committed(broker.bootstrap, group, topic) == {0: 10, 1: 10}
        after = describe(broker.bootstrap, group)
        assert {each.member_id for each in after.members} == {each.member_id for each in before.members}
        for partition in range(2):
            produce(broker.bootstrap, topic, partition, 5)
        calls.eventually(lambda: sum(len(each.records) for each in started) == 30, "members read on")
        assert [each.count("assigned") for each in started] == assigned


def commit(wire: Wire, group: str, topic: str, offset: int, **more: Any) -> Any:
    part = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
    topics = [{"name": topic, "partitions": [part]}]
    fields = {"group_id": group, "generation_id_or_member_epoch": -1, "member_id": "", **more}
    version = 2 if "retention_time" in more else 9

    def committed() -> bool:
        answer = wire.call("offset_commit", version, topics=topics, **fields)
        return answer.topics[0].partitions[0].error_code is ErrorCode.none

    calls.eventually(committed, "the offset is committed")


@pytest.mark.parametrize(
    ("filters", "is_listed"),
    [
        ({}, True),
        ({"states_filter": ["Empty"]}, True),
        ({"states_filter": ["empty", "stable"]}, True),
        ({"states_filter": ["Stable"]}, False),
        ({"types_filter": ["Classic"]}, True),
        ({"types_filter": ["consumer"]}, False),
        ({"types_filter": ["classic"], "states_filter": ["Dead"]}, False),
    ],
)
def test_lists_of_some_groups(at: str, filters: dict[str, list[str]], is_listed: bool) -> None:
    with coordinator(at, "listed") as wire:
        commit(wire, "listed", topic_with(at, 1, 0), 5)
        wanted: dict[str, list[str]] = {"states_filter": [], "types_filter": [], **filters}
        found = wire.call("list_groups", 5, **wanted)
        assert found.error_code is ErrorCode.none
        assert [each.group_state for each in found.groups if each.group_id == "listed"] == [
            "Empty"
        ] * is_listed


@pytest.mark.not_kafka  # which takes its time to look for them
def test_expired_offsets_go(at: str, group: str) -> None:
    topic = topic_with(at, 1, 0)
    with coordinator(at, group) as wire:
        commit(wire, group, topic, 5, retention_time=1)
        commit(wire, "stays", topic, 5, retention_time=1_000_000)
        calls.eventually(lambda: committed(at, group, topic) == {}, "the offset has expired")
        assert committed(at, "stays", topic) == {0: 5}

        def listed() -> set[str]:
            return {found.group_id for found in wire.call("list_groups", 4, states_filter=[]).groups}

        calls.eventually(lambda: group not in listed(), "the group is gone with its last offset")
        assert "stays" in listed()


def test_oversized_metadata_is_refused(at: str, group: str) -> None:
    topic = topic_with(at, 1, 0)
    consumer = confluent_kafka.Consumer({"bootstrap.servers": at, "group.id": group})
    place = confluent_kafka.TopicPartition(topic, 0, 5, metadata="x" * 5000)
    with pytest.raises(confluent_kafka.KafkaException) as refusal:
        consumer.commit(offsets=[place], asynchronous=False)
    assert refusal.value.args[0].code() == confluent_kafka.KafkaError.OFFSET_METADATA_TOO_LARGE
    consumer.close()


def test_many_groups_read_everything(at: str) -> None:
    """Publish and subscribe: each group gets every record."""
    topic = topic_with(at, 1, 10)
    consumers = [
        confluent_kafka.Consumer(
            {
                "bootstrap.servers": at,
                "group.id": f"g-{uuid.uuid4().hex}",
                "auto.offset.reset": "earliest",
                "session.timeout.ms": 3000,
                "heartbeat.interval.ms": 300,
            }
        )
        for _ in range(3)
    ]
    deadline = time.monotonic() + 60
    for consumer in consumers:
        consumer.subscribe([topic])
    for consumer in consumers:
        found: list[int] = []
        while len(found) < 10 and time.monotonic() < deadline:
            message = consumer.poll(0.2)
            if message is not None and not message.error():
                found.append(offset_of(message))
        assert found == list(range(10))
        consumer.close()
