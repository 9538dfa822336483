"""Groups whose partitions the broker assigns (KIP-848), with unmodified clients."""

import re
import uuid
from collections.abc import Iterator
from functools import cache
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import ConsumerGroupState, ConsumerGroupType
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from kio.schema.errors import ErrorCode

from tidelog.testing import Broker, Cluster, running_broker

from . import calls
from .conftest import BOOTSTRAP, broker_kind
from .consumed import offset_of, topic_of
from .members import Member, await_shares, members
from .test_groups import coordinator, produce, topic_with
from .test_java import CONSUMER, DUMP, JARS, java
from .wire import Wire

pytestmark = pytest.mark.interop

SETTINGS: dict[str, Any] = {
    "group.consumer.session.timeout.ms": 3_000,
    "group.consumer.heartbeat.interval.ms": 300,
    "group.min.session.timeout.ms": 500,
    "group.initial.rebalance.delay.ms": 100,
    "offsets.topic.num.partitions": 5,
    "offsets.topic.replication.factor": 1,
    "group.consumer.min.session.timeout.ms": 1_000,
    "group.consumer.min.heartbeat.interval.ms": 100,
}


@pytest.fixture(scope="module")
def at(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker that is quick to notice what happens to members."""
    if BOOTSTRAP:
        pytest.skip("needs a broker with its own settings")
    with running_broker(tmp_path_factory.mktemp("consumer"), SETTINGS, kind=broker_kind()) as broker:
        yield broker.bootstrap


@pytest.fixture
def group() -> str:
    return f"g-{uuid.uuid4().hex[:12]}"


def describe(bootstrap: str, group: str) -> Any:
    return administrator(bootstrap).describe_consumer_groups([group])[group].result()


@cache
def administrator(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


def await_state(bootstrap: str, group: str, state: ConsumerGroupState) -> None:
    calls.eventually(lambda: describe(bootstrap, group).state == state, f"the group is {state.name}")


class Reader:
    """A consumer in this process."""

    def __init__(self, bootstrap: str, group: str, *topics: str, **settings: Any) -> None:
        given = {name.replace("_", "."): value for name, value in settings.items()}
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "group.protocol": "consumer",
                "auto.offset.reset": "earliest",
                "topic.metadata.refresh.interval.ms": 200,
                **given,
            }
        )
        self._consumer.subscribe(list(topics))
        self.read: list[tuple[str, int]] = []

    def __enter__(self) -> "Reader":
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    @property
    def assigned(self) -> set[tuple[str, int]]:
        """What it has, after it has read a little."""
        message = self._consumer.poll(0.05)
        if message is not None and not message.error():
            self.read.append((topic_of(message), offset_of(message)))
        return {(place.topic, place.partition) for place in self._consumer.assignment()}


# -- members -------------------------------------------------------------------------------------------------


def test_members_come_and_go(at: str, group: str) -> None:
    """They join, leave, crash and stall; whoever is left has all partitions, and nothing is left out."""
    topic = topic_with(at, 6, 5)
    options = {"bootstrap": at, "group": group, "topic": topic, "protocol": "consumer"}
    with members() as started:
        for _ in range(3):
            started.append(Member("confluent", **options))
            await_shares(started, 6)
        await_state(at, group, ConsumerGroupState.STABLE)
        leaving, crashing, stalling = started
        leaving.leave()
        await_shares([crashing, stalling], 6)
        crashing.kill()
        await_shares([stalling], 6)
        newcomer = Member("confluent", **options)
        started.append(newcomer)
        await_shares([stalling, newcomer], 6)
        stalling.freeze()
        await_shares([newcomer], 6)
        for partition in range(6):
            produce(at, topic, partition, 5)
        last = {(partition, 9) for partition in range(6)}
        calls.eventually(lambda: last <= set(newcomer.records), "the one that is left reads everything")
        stalling.thaw()
        await_shares([stalling, newcomer], 6)
        read = {record for member in started for record in member.records}
    assert read == {(partition, offset) for partition in range(6) for offset in range(10)}


def test_only_what_must_move_is_taken_from_a_member(at: str, group: str) -> None:
    topic = topic_with(at, 6, 1)
    options = {"bootstrap": at, "group": group, "topic": topic, "protocol": "consumer"}
    with members() as started:
        first = Member("confluent", **options)
        started.append(first)
        await_shares(started, 6)
        started.append(Member("confluent", **options))
        await_shares(started, 6)
        revoked = [event["partitions"] for event in first.events if event["event"] == "revoked"]
        assert [partitions for partitions in revoked if partitions] == [sorted(started[1].partitions)]


def test_a_static_member_restarts_without_a_rebalance(at: str, group: str) -> None:
    topic = topic_with(at, 4, 1)
    options = {"bootstrap": at, "group": group, "topic": topic, "protocol": "consumer"}
    with members() as started:
        for name in ("a", "b"):
            started.append(Member("confluent", instance=name, **options))
        await_shares(started, 4)
        first, second = started
        share, times_assigned = second.partitions, first.count("assigned")
        second.leave()
        again = Member("confluent", instance="b", **options)
        started.append(again)
        calls.eventually(lambda: again.partitions == share, "it has its old partitions")
        produce(at, topic, min(share), 1)
        calls.eventually(lambda: (min(share), 1) in again.records, "it reads on")
        assert first.count("assigned") == times_assigned


def test_the_range_assignor(at: str, group: str) -> None:
    topic = topic_with(at, 5, 1)
    options = {"bootstrap": at, "group": group, "topic": topic, "protocol": "consumer", "strategy": "range"}
    with members() as started:
        started += [Member("confluent", **options), Member("confluent", **options)]
        await_shares(started, 5)
        assert sorted(sorted(member.partitions) for member in started) == [[0, 1, 2], [3, 4]]
        assert describe(at, group).partition_assignor == "range"


# -- topics --------------------------------------------------------------------------------------------------


def test_a_topic_grows(at: str, group: str) -> None:
    topic = topic_with(at, 1, 1)
    with Reader(at, group, topic) as reader:
        calls.eventually(lambda: reader.assigned == {(topic, 0)}, "it has the partition")
        administrator(at).create_partitions([NewPartitions(topic, 3)])[topic].result()
        calls.eventually(lambda: len(reader.assigned) == 3, "it has the new ones, too")
        assert reader.assigned == {(topic, 0), (topic, 1), (topic, 2)}


def test_a_subscription_by_expression(at: str, group: str) -> None:
    prefix = f"x-{uuid.uuid4().hex[:8]}"
    admin = administrator(at)

    def create(name: str) -> None:
        admin.create_topics([NewTopic(name, 1)])[name].result()

    create(f"{prefix}-a")
    create(f"not-{prefix}-b")
    with Reader(at, group, f"^{prefix}-.*") as reader:
        calls.eventually(lambda: reader.assigned == {(f"{prefix}-a", 0)}, "it has what matches")
        create(f"{prefix}-c")
        both = {(f"{prefix}-a", 0), (f"{prefix}-c", 0)}
        calls.eventually(lambda: reader.assigned == both, "it has the new topic")
        produce(at, f"{prefix}-c", 0, 1)
        calls.eventually(lambda: reader.assigned == both and bool(reader.read), "it reads the new topic")
        assert {name for name, *_ in reader.read} == {f"{prefix}-c"}
        admin.delete_topics([f"{prefix}-a"])[f"{prefix}-a"].result()
        calls.eventually(lambda: reader.assigned == {(f"{prefix}-c", 0)}, "it gave up the deleted topic")


# -- the broker ----------------------------------------------------------------------------------------------


@pytest.mark.tidelog_settings({**SETTINGS, "group.consumer.session.timeout.ms": 30_000})
@pytest.mark.parametrize("how", ["kill", "restart"])
def test_the_broker_comes_back(broker: Broker, group: str, how: str) -> None:
    """Members go on in their epoch with the partitions they had; what was committed is committed."""
    topic = topic_with(broker.bootstrap, 4, 5)
    options = {"bootstrap": broker.bootstrap, "group": group, "topic": topic, "protocol": "consumer"}
    with members() as started:
        started += [Member("confluent", **options), Member("confluent", **options)]
        await_shares(started, 4)
        calls.eventually(lambda: sum(len(each.records) for each in started) == 20, "all is read")
        before = {member.member_id for member in describe(broker.bootstrap, group).members}
        assigned = [each.count("assigned") for each in started]
        if how == "kill":
            broker.kill()
            broker.start()
        else:
            broker.restart()
        for partition in range(4):
            produce(broker.bootstrap, topic, partition, 5)
        calls.eventually(lambda: sum(len(each.records) for each in started) == 40, "members read on")
        administrator.cache_clear()  # This is about the members, not about a client's broken connection.
        assert {member.member_id for member in describe(broker.bootstrap, group).members} == before
        assert [each.count("assigned") for each in started] == assigned
        assert [each.count("refused") for each in started] == [0, 0]


@pytest.mark.not_kafka
@pytest.mark.tidelog_settings(
    {"offsets.topic.num.partitions": 1, "group.consumer.session.timeout.ms": 30_000}
)
@pytest.mark.parametrize("how", ["kill", "pause"])
def test_another_broker_takes_over(tidelog_cluster: Cluster, group: str, how: str) -> None:
    """The coordinator is gone: members keep their partitions and their epoch with the next one."""
    bootstrap = tidelog_cluster.bootstrap
    topic = f"t-{uuid.uuid4().hex[:12]}"
    administrator(bootstrap).create_topics([NewTopic(topic, 4, 3)])[topic].result()
    for partition in range(4):
        produce(bootstrap, topic, partition, 5)
    options = {"bootstrap": bootstrap, "group": group, "topic": topic, "protocol": "consumer"}
    with members() as started:
        started += [Member("confluent", **options), Member("confluent", **options)]
        await_shares(started, 4)
        calls.eventually(lambda: sum(len(each.records) for each in started) == 20, "all is read")
        assigned = [each.count("assigned") for each in started]
        tidelog_cluster.await_in_sync(topic, "__consumer_offsets")
        getattr(tidelog_cluster.leader_of("__consumer_offsets"), how)()
        for partition in range(4):
            produce(bootstrap, topic, partition, 5)
        calls.eventually(lambda: sum(len(each.records) for each in started) >= 40, "members read on")
        assert [each.count("assigned") for each in started] == assigned
        started.append(Member("confluent", **options))
        await_shares(started, 4)


# -- both protocols ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("client", "strategy"),
    [
        ("confluent", "range"),
        # Kafka takes what librdkafka's own assignor attaches for a user's, and refuses.
        pytest.param("confluent", "cooperative-sticky", marks=pytest.mark.not_kafka),
        ("kafka-python", ""),
        ("aiokafka", ""),
    ],
)
def test_a_group_changes_its_protocol_and_back(at: str, group: str, client: str, strategy: str) -> None:
    topic = topic_with(at, 4, 3)
    old = {"bootstrap": at, "group": group, "topic": topic, **({"strategy": strategy} if strategy else {})}
    new = {"bootstrap": at, "group": group, "topic": topic, "protocol": "consumer"}
    with members() as started:
        classic = Member(client, **old)
        started.append(classic)
        await_shares([classic], 4)
        consumer = Member("confluent", **new)
        started.append(consumer)
        await_shares([classic, consumer], 4)
        described = describe(at, group)
        assert (described.type, len(described.members)) == (ConsumerGroupType.CONSUMER, 2)
        consumer.leave()
        await_shares([classic], 4)
        assert describe(at, group).type == ConsumerGroupType.CLASSIC
        second = Member("confluent", **new)
        started.append(second)
        await_shares([classic, second], 4)
        classic.leave()
        await_shares([second], 4)
        read = {record for member in started for record in member.records}
        expected = {(partition, offset) for partition in range(4) for offset in range(3)}
        calls.eventually(lambda: read | set(second.records) == expected, "all is read")


# -- administration ------------------------------------------------------------------------------------------


def test_what_an_administrator_sees(at: str, group: str) -> None:
    topic = topic_with(at, 2, 3)
    admin = administrator(at)
    with Reader(at, group, topic, client_id="me", group_instance_id="i") as reader:
        calls.eventually(lambda: reader.assigned == {(topic, 0), (topic, 1)}, "it has both partitions")
        await_state(at, group, ConsumerGroupState.STABLE)
        described = describe(at, group)
        assert (described.type, described.partition_assignor) == (ConsumerGroupType.CONSUMER, "uniform")
        (member,) = described.members
        assert (member.client_id, member.group_instance_id) == ("me", "i")
        for assignment in (member.assignment, member.target_assignment):
            places = {(place.topic, place.partition) for place in assignment.topic_partitions}
            assert places == {(topic, 0), (topic, 1)}
        listed = admin.list_consumer_groups(types={ConsumerGroupType.CONSUMER}).result().valid
        (found,) = [each for each in listed if each.group_id == group]
        assert (found.type, found.state) == (ConsumerGroupType.CONSUMER, ConsumerGroupState.STABLE)
        others = admin.list_consumer_groups(types={ConsumerGroupType.CLASSIC}).result().valid
        assert group not in {each.group_id for each in others}
        with pytest.raises(confluent_kafka.KafkaException) as refusal:
            admin.delete_consumer_groups([group])[group].result()
        assert refusal.value.args[0].code() == confluent_kafka.KafkaError.NON_EMPTY_GROUP
    calls.eventually(lambda: not describe(at, group).members, "a static member's place is given up in time")
    admin.delete_consumer_groups([group])[group].result()
    assert describe(at, group).state == ConsumerGroupState.DEAD


def test_refusals(at: str, group: str) -> None:
    topic = topic_with(at, 1, 0)
    whole: dict[str, Any] = {
        "group_id": group,
        "member_id": "m",
        "member_epoch": 0,
        "rebalance_timeout": 60_000,
        "subscribed_topic_names": [topic],
        "topic_partitions": [],
    }

    with coordinator(at, group) as wire:

        def beat(**fields: Any) -> Any:
            return wire.call("consumer_group_heartbeat", 1, **{**whole, **fields})

        def stays(**fields: Any) -> Any:
            unchanged = {"rebalance_timeout": -1, "subscribed_topic_names": None, "topic_partitions": None}
            return beat(**{**unchanged, **fields})

        # Kafka says GROUP_ID_NOT_FOUND, and clients do not join again then: see differences-from-kafka.md.
        unknown = (ErrorCode.group_id_not_found, ErrorCode.unknown_member_id)
        assert stays(member_epoch=1).error_code in unknown
        assert beat(member_id="").error_code is ErrorCode.invalid_request
        assert beat(server_assignor="mine").error_code is ErrorCode.unsupported_assignor
        bad_regex = beat(subscribed_topic_names=None, subscribed_topic_regex="(")
        assert bad_regex.error_code is ErrorCode.invalid_regular_expression
        joined = beat(instance_id="i")
        epoch = joined.member_epoch
        assert (joined.error_code, joined.member_id, epoch > 0) == (ErrorCode.none, "m", True)
        assert [list(part.partitions) for part in joined.assignment.topic_partitions] == [[0]]
        again = stays(member_epoch=epoch, instance_id="i")
        assert (again.error_code, again.assignment) == (ErrorCode.none, None)
        assert stays(member_epoch=epoch + 1, instance_id="i").error_code is ErrorCode.fenced_member_epoch
        assert stays(member_epoch=epoch, member_id="x").error_code is ErrorCode.unknown_member_id
        assert beat(member_id="x", instance_id="i").error_code is ErrorCode.unreleased_instance_id
        assert (
            stays(member_epoch=1, member_id="x", instance_id="i").error_code is ErrorCode.fenced_instance_id
        )
        assert commit(wire, group, topic, "m", epoch) is ErrorCode.none
        assert commit(wire, group, topic, "m", epoch + 1) is ErrorCode.stale_member_epoch
        assert commit(wire, group, topic, "x", epoch) is ErrorCode.unknown_member_id
        left = stays(member_epoch=-2, instance_id="i")
        assert (left.error_code, left.member_epoch) == (ErrorCode.none, -2)
        assert beat(member_id="x", instance_id="i").error_code is ErrorCode.none
        assert stays(member_epoch=-1, member_id="x", instance_id="i").error_code is ErrorCode.none
        (described,) = wire.call("consumer_group_describe", 1, group_ids=[group]).groups
        assert (described.group_state, described.members) == ("Empty", ())


def commit(wire: Wire, group: str, topic: str, member: str, epoch: int) -> ErrorCode:
    part = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
    answer = wire.call(
        "offset_commit",
        9,
        group_id=group,
        member_id=member,
        generation_id_or_member_epoch=epoch,
        topics=[{"name": topic, "partitions": [part]}],
    )
    error: ErrorCode = answer.topics[0].partitions[0].error_code
    return error


# -- Kafka's own tools, in Java ------------------------------------------------------------------------------

needs_java = pytest.mark.skipif(JARS is None, reason="TIDELOG_TEST_JARS names no directory with Kafka's jars")
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


@needs_java
def test_javas_consumer_and_its_tools(at: str, group: str) -> None:
    topic = topic_with(at, 2, 10)
    place = ["--bootstrap-server", at, "--group", group]
    speaks = ["--command-property", "group.protocol=consumer"]
    expected = [f"{partition}-{number}" for partition in range(2) for number in range(10)]
    for flag, wanted in (("--topic", topic), ("--include", f"{topic[:-1]}.")):
        read = [flag, wanted, "--from-beginning", "--max-messages", "20", "--timeout-ms", "60000"]
        lines = java(CONSUMER, *place, *speaks, *read).splitlines()
        assert sorted(lines) == expected
        java(GROUPS, *place, "--reset-offsets", "--to-earliest", "--topic", topic, "--execute")
    with Reader(at, group, topic) as reader:
        calls.eventually(lambda: reader.assigned == {(topic, 0), (topic, 1)}, "it has both partitions")
        await_state(at, group, ConsumerGroupState.STABLE)
        assert "uniform" in java(GROUPS, *place, "--describe", "--state")
        described = java(GROUPS, *place, "--describe", "--members", "--verbose")
        assert f"{topic}:0,1" in described
        assert "Consumer" in java(GROUPS, "--bootstrap-server", at, "--list", "--type")


@needs_java
@pytest.mark.not_kafka
@pytest.mark.tidelog_settings({**SETTINGS, "offsets.topic.num.partitions": 1})
def test_kafkas_dumper_reads_the_records_of_a_group(broker: Broker, group: str) -> None:
    topic = topic_with(broker.bootstrap, 2, 1)
    with Reader(broker.bootstrap, group, f"^{topic}|other", group_instance_id="i") as reader:
        calls.eventually(lambda: reader.assigned == {(topic, 0), (topic, 1)}, "it has both partitions")
    broker.stop()
    (segment,) = (broker.data_directory / "__consumer_offsets-0").glob("*.log")
    told = java(DUMP, "--offsets-decoder", "--files", str(segment))
    kinds = {int(kind) for kind in re.findall(r'key: \{"type":"(\d+)"', told)}
    assert {3, 5, 6, 7, 8, 16} <= kinds, told
    assert '"instanceId":"i"' in told
    assert '"metadataHash"' in told
    assert "could not be decoded" not in told.lower()
