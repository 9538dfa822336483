"""Requests sent ahead of their answers: a read sees what its connection wrote before it, as on Kafka.

Runs against Apache Kafka, too (``TIDELOG_TEST_KAFKA``). A broker that works on several requests of a
connection at once must not let a read overtake a write.
"""

import struct
from typing import Any
from uuid import uuid4

import pytest
from kio.schema.errors import ErrorCode

from . import calls
from .conftest import CreateTopic
from .records import batch, values
from .wire import Wire, parse_response, request_bytes

pytestmark = pytest.mark.interop

ROUNDS = 20

Call = tuple[str, int, dict[str, Any]]


def pipelined(wire: Wire, *requests: Call) -> list[Any]:
    """All requests in one write, then their answers."""
    frames = [
        request_bytes(api, version, number, wire.client_id, fields)
        for number, (api, version, fields) in enumerate(requests)
    ]
    wire.send_bytes(b"".join(struct.pack(">i", len(frame)) + frame for frame in frames))
    return [
        parse_response(wire.receive_frame(), api, version, number)
        for number, (api, version, _) in enumerate(requests)
    ]


def produce(topic: str, *texts: bytes, acks: int = -1) -> Call:
    return "produce", 12, calls.produce_request(topic, bytes(batch(*texts)), 0, acks=acks)


def list_end(topic: str) -> Call:
    topics = [{"name": topic, "partitions": [{"partition_index": 0, "timestamp": calls.LATEST}]}]
    return "list_offsets", 8, {"replica_id": -1, "topics": topics}


def fetch(topic: str, offset: int) -> Call:
    topics = [{"topic": topic, "partitions": [calls.fetch_partition(0, offset)]}]
    return "fetch", 12, calls.fetch_request(topics, max_wait=0)


def commit(group: str, topic: str, offset: int) -> Call:
    part = {"partition_index": 0, "committed_offset": offset, "committed_leader_epoch": -1}
    topics = [{"name": topic, "partitions": [part]}]
    return "offset_commit", 8, {"group_id": group, "generation_id_or_member_epoch": -1, "topics": topics}


def committed(group: str) -> Call:
    return "offset_fetch", 7, {"group_id": group, "topics": None, "require_stable": True}


@pytest.fixture
def synced_topic(create_topic: CreateTopic) -> str:
    """An acknowledgement waits for the disk: there is time to overtake it."""
    return create_topic(flush_messages=1)


def test_the_end_of_the_log_counts_the_record_just_acknowledged(wire: Wire, synced_topic: str) -> None:
    for number in range(ROUNDS):
        written, found = pipelined(wire, produce(synced_topic, b"x"), list_end(synced_topic))
        assert written.responses[0].partition_responses[0].base_offset == number
        assert found.topics[0].partitions[0].offset == number + 1


def test_a_fetch_finds_the_record_just_acknowledged(wire: Wire, synced_topic: str) -> None:
    for number in range(ROUNDS):
        text = b"%d" % number
        _, found = pipelined(wire, produce(synced_topic, text), fetch(synced_topic, number))
        assert values(found.responses[0].partitions[0].records) == [text]


def test_a_committed_offset_is_found(wire: Wire, topic: str) -> None:
    group = f"group-{uuid4()}"
    calls.eventually(
        lambda: wire.call("find_coordinator", 2, key=group, key_type=0).error_code is ErrorCode.none,
        "the group has a coordinator",
    )

    def works() -> bool:
        [told] = pipelined(wire, commit(group, topic, 0))
        return told.topics[0].partitions[0].error_code is ErrorCode.none

    calls.eventually(works, "the coordinator takes commits")
    for number in range(ROUNDS):
        _, found = pipelined(wire, commit(group, topic, number), committed(group))
        assert found.topics[0].partitions[0].committed_offset == number


def test_a_group_has_the_assignment_that_was_just_given(wire: Wire) -> None:
    for _ in range(3):
        group = f"group-{uuid4()}"
        member = joined(wire, group)
        given, described, listed = pipelined(
            wire,
            (
                "sync_group",
                3,
                member | {"assignments": [{"member_id": member["member_id"], "assignment": b"a"}]},
            ),
            ("describe_groups", 5, {"groups": [group]}),
            ("list_groups", 4, {"states_filter": ["Stable"]}),
        )
        assert (given.error_code, given.assignment) == (ErrorCode.none, b"a")
        assert described.groups[0].group_state == "Stable"
        assert group in {each.group_id for each in listed.groups}
        wire.call("leave_group", 2, group_id=group, member_id=member["member_id"])


def joined(wire: Wire, group: str) -> dict[str, Any]:
    """The only member of a group, which has yet to assign its partitions."""
    answers: list[Any] = []

    def join() -> bool:
        protocols = [{"name": "range", "metadata": b"m"}]
        answers.append(
            wire.call(
                "join_group", 3, group_id=group, session_timeout=30_000, rebalance_timeout=30_000,
                member_id="", protocol_type="consumer", protocols=protocols,
            )
        )  # fmt: skip
        return answers[-1].error_code is ErrorCode.none

    wire.call("find_coordinator", 2, key=group, key_type=0)
    calls.eventually(join, "the coordinator takes members")
    return {"group_id": group, "generation_id": answers[-1].generation_id, "member_id": answers[-1].member_id}


def test_a_topic_just_created_is_known(wire: Wire) -> None:
    for _ in range(5):
        name = f"topic-{uuid4()}"
        wish = {"name": name, "num_partitions": 1, "replication_factor": 1, "configs": []}
        created, found = pipelined(
            wire,
            ("create_topics", 5, {"topics": [wish], "timeout": 30_000}),
            ("metadata", 12, {"topics": [{"name": name}], "allow_auto_topic_creation": False}),
        )
        assert created.topics[0].error_code is ErrorCode.none
        assert [each.name for each in found.topics] == [name]
        assert found.topics[0].error_code in (ErrorCode.none, ErrorCode.leader_not_available)


def test_many_kinds_mixed_keep_their_order(wire: Wire, synced_topic: str) -> None:
    """Produces in a row, a read in between, produces again: every answer, each in its place."""
    requests: list[Call] = []
    for _ in range(50):
        requests += [produce(synced_topic, b"a"), produce(synced_topic, b"b"), list_end(synced_topic)]
        requests += [produce(synced_topic, b"c", acks=1), fetch(synced_topic, 0)]
    answers = pipelined(wire, *requests)
    ends = [answers[number].topics[0].partitions[0].offset for number in range(2, len(answers), 5)]
    assert ends == [3 * number + 2 for number in range(50)]


@pytest.mark.not_kafka  # Kafka waits as long as it was asked to.
def test_a_client_that_is_gone_is_not_waited_for(wire: Wire, topic: str, bootstrap: str) -> None:
    """It asked for records within a day, and closed its side."""
    with Wire(bootstrap, timeout_s=10) as leaving:
        part = {"topic": topic, "partitions": [calls.fetch_partition(0, 0)]}
        leaving.send("fetch", 12, **calls.fetch_request([part], max_wait=86_400_000))
        leaving.socket.shutdown(1)
        leaving.wait_until_closed()
    assert calls.end_offset(wire, topic) == 0


def test_a_session_used_twice_at_once_is_answered_both_times(
    wire: Wire, create_topic: CreateTopic, bootstrap: str
) -> None:
    """The second use forgets the partition that the first one waits for."""
    topic = create_topic(partitions=2)
    parts = [calls.fetch_partition(0, 0), calls.fetch_partition(1, 0)]
    first = wire.call(
        "fetch",
        12,
        **calls.fetch_request([{"topic": topic, "partitions": parts}], max_wait=0, session_epoch=0),
    )
    session = first.session_id
    with Wire(bootstrap, timeout_s=10) as other:
        fields = calls.fetch_request([], max_wait=2000, session_id=session, session_epoch=1)
        number = wire.send("fetch", 12, **fields)
        calls.list_offset(other, topic, calls.LATEST)
        forgotten = [{"topic": topic, "partitions": [0]}]
        again = calls.fetch_request(
            [], max_wait=0, session_id=session, session_epoch=2, forgotten_topics_data=forgotten
        )
        calls.eventually(
            lambda: other.call("fetch", 12, **again).error_code is ErrorCode.none, "the session goes on", 5
        )
        calls.produce(other, topic, bytes(batch(b"x")), partition=0)
        answer = wire.receive("fetch", 12, number)
    # Kafka tells the first one that its session has moved on; here it gets what it waited for.
    assert answer.error_code in (ErrorCode.none, ErrorCode.invalid_fetch_session_epoch)
