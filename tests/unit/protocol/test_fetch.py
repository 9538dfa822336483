"""Fetch by hand: at every version the same as kio reads and writes."""

from contextlib import suppress
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.index import load_response_schema

from interop.wire import parse_response
from tidelog.errors import ErrorCode
from tidelog.protocol import fetch, wire
from tidelog.protocol.extents import Notes, walker
from tidelog.protocol.fetch import FetchPartition, FetchPartitionResponse, FetchResponseBuilder
from tidelog.protocol.produce import NodeAddress
from tidelog.protocol.wire import ELEMENTS_MAX, Malformed
from unit.protocol.sample_requests import TOPIC_ID, request_body

OLDEST, NEWEST = fetch.VERSIONS
every_version = pytest.mark.parametrize("version", range(OLDEST, NEWEST + 1))
REPLICA = UUID(int=5)


class Bytes(NamedTuple):
    """Records that lie in memory."""

    data: bytes

    @property
    def size(self) -> int:
        return len(self.data)


def key(version: int) -> str | UUID:
    return TOPIC_ID if version >= fetch.TOPIC_ID_FROM else "orders"


FULL: dict[str, Any] = {
    "replica_id": 7,
    "replica_state": {"replica_id": 7, "replica_epoch": 8},
    "max_wait": 500,
    "min_bytes": 1,
    "max_bytes": 1 << 20,
    "isolation_level": 1,
    "session_id": 4,
    "session_epoch": 5,
    "rack_id": "räck",
    "topics": [
        {
            "topic": "orders",
            "topic_id": TOPIC_ID,
            "partitions": [
                {
                    "partition": 1,
                    "current_leader_epoch": 2,
                    "fetch_offset": 1 << 40,
                    "last_fetched_epoch": 4,
                    "log_start_offset": 6,
                    "partition_max_bytes": 1 << 18,
                    "replica_directory_id": REPLICA,
                },
                {"partition": 0, "fetch_offset": 9, "partition_max_bytes": 1, "log_start_offset": -1},
            ],
        },
        {"topic": "orders", "topic_id": TOPIC_ID, "partitions": []},
    ],
    "forgotten_topics_data": [{"topic": "orders", "topic_id": TOPIC_ID, "partitions": [8, 9]}],
}


def body(version: int, **more: Any) -> bytes:
    return request_body(fetch.API_KEY, version, {**FULL, **more})


def decode(data: bytes | bytearray, version: int) -> fetch.FetchRequest:
    return fetch.decode(memoryview(data), 0, version)


class TestDecode:
    @every_version
    def test_everything_kio_writes(self, version: int) -> None:
        request = decode(body(version), version)
        assert (request.max_wait_ms, request.min_bytes, request.max_bytes) == (500, 1, 1 << 20)
        assert (request.isolation_level, request.replica_id) == (1, 7)
        assert request.replica_epoch == (8 if version >= fetch.REPLICA_STATE_FROM else -1)
        assert request.rack_id == ("räck" if version >= 11 else "")
        first = FetchPartition(
            partition=1,
            current_leader_epoch=2 if version >= 9 else -1,
            fetch_offset=1 << 40,
            last_fetched_epoch=4 if version >= 12 else -1,
            log_start_offset=6 if version >= 5 else -1,
            max_bytes=1 << 18,
        )
        (found_key, (found, second)), (_, empty) = request.topics
        assert (found_key, found, empty) == (key(version), first, [])
        assert (second.partition, second.fetch_offset, second.max_bytes) == (0, 9, 1)

    @every_version
    def test_sessions(self, version: int) -> None:
        request = decode(body(version), version)
        if version >= fetch.SESSIONS_FROM:
            assert (request.session_id, request.session_epoch) == (4, 5)
            assert request.forgotten == [(key(version), [8, 9])]
        else:
            assert (request.session_id, request.session_epoch) == (fetch.NO_SESSION, fetch.FINAL_EPOCH)
            assert request.forgotten == []

    @every_version
    def test_a_consumer_that_wants_nothing(self, version: int) -> None:
        nothing: dict[str, Any] = {"topics": [], "forgotten_topics_data": [], "rack_id": ""}
        consumer = {"replica_id": -1, "replica_state": {"replica_id": -1, "replica_epoch": -1}}
        request = decode(body(version, **nothing, **consumer), version)
        assert (request.replica_id, request.topics, request.forgotten, request.rack_id) == (-1, [], [], "")

    @pytest.mark.parametrize("version", [fetch.SESSIONS_FROM, NEWEST])
    def test_forgets_no_more_partitions_than_it_may_name(self, version: int) -> None:
        for size in (ELEMENTS_MAX - 1, ELEMENTS_MAX):
            gone = [{"topic": "orders", "topic_id": TOPIC_ID, "partitions": [0] * size}]
            data = body(version, forgotten_topics_data=gone)
            if size < ELEMENTS_MAX:
                assert len(decode(data, version).forgotten[0][1]) == size
            else:
                with pytest.raises(Malformed, match="forgets too many"):
                    decode(data, version)

    @every_version
    def test_starts_where_the_header_ends(self, version: int) -> None:
        data = body(version)
        assert fetch.decode(memoryview(b"header" + data), 6, version) == decode(data, version)

    @pytest.mark.parametrize("version", range(fetch.REPLICA_STATE_FROM, NEWEST + 1))
    def test_tagged_fields_around_the_replica_state(self, version: int) -> None:
        cluster_id = b"\x00\x04abc\x00"
        state = b"\x01\x0d" + wire.INT32.pack(7) + wire.INT64.pack(8) + b"\x00"
        unknown = b"\x63\x02??"
        data = body(version, replica_state={"replica_id": -1, "replica_epoch": -1})
        assert data.endswith(b"\x00")
        for tags, expected in [
            (b"\x03" + cluster_id + state + unknown, (7, 8)),
            (b"\x02" + cluster_id + unknown, (-1, -1)),
        ]:
            request = decode(data[:-1] + tags, version)
            assert (request.replica_id, request.replica_epoch) == expected

    @pytest.mark.parametrize("version", range(fetch.FLEXIBLE_FROM, NEWEST + 1))
    def test_unknown_tagged_fields_are_skipped(self, version: int) -> None:
        tags = b"\x01\x05\x03abc"
        head = bytes(13 if version >= fetch.REPLICA_STATE_FROM else 17) + bytes(8)
        name = TOPIC_ID.bytes if version >= fetch.TOPIC_ID_FROM else wire.write_string("orders", True)
        partition = wire.INT32.pack(3) + bytes(28)
        topics = b"\x02" + name + b"\x02" + partition + tags + tags
        forgotten = b"\x02" + name + b"\x02" + wire.INT32.pack(9) + tags
        request = decode(head + topics + forgotten + wire.write_string("r", True) + tags, version)
        assert [(found, part[0].partition) for found, part in request.topics] == [(key(version), 3)]
        assert request.forgotten == [(key(version), [9])]
        assert request.rack_id == "r"


class TestBrokenRequests:
    @every_version
    def test_cut_at_every_byte(self, version: int) -> None:
        """Malformed, or (where only the last tagged fields are missing) as if it were whole."""
        data = body(version, replica_state={"replica_id": -1, "replica_epoch": -1})
        whole = decode(data, version)
        for cut in range(len(data)):
            try:
                found = decode(data[:cut], version)
            except Malformed:
                continue
            assert cut == len(data) - 1 and version >= fetch.FLEXIBLE_FROM
            assert found == whole

    @every_version
    @settings(max_examples=30)
    @given(data=st.data())
    def test_any_byte_changed(self, version: int, data: st.DataObject) -> None:
        broken = bytearray(body(version))
        for _ in range(data.draw(st.integers(1, 3))):
            broken[data.draw(st.integers(0, len(broken) - 1))] = data.draw(st.integers(0, 255))
        with suppress(Malformed):
            decode(broken, version)

    @every_version
    def test_lengths_that_lead_outside(self, version: int) -> None:
        data = body(version)
        for position in range(len(data)):
            for huge in (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x0f", b"\x80\x00\x00\x00"):
                with suppress(Malformed):
                    decode(data[:position] + huge + data[position + len(huge) :], version)

    @pytest.mark.parametrize("version", [4, 12])
    def test_a_topic_must_have_a_name(self, version: int) -> None:
        data = bytes(17) + (bytes(8) if version >= fetch.SESSIONS_FROM else b"")
        flexible = version >= fetch.FLEXIBLE_FROM
        data += wire.write_array_size(1, flexible) + wire.write_string(None, flexible) + bytes(8)
        with pytest.raises(Malformed, match="without a name"):
            decode(data, version)


def joined(parts: list[Any]) -> bytes:
    return b"".join(part.data if isinstance(part, Bytes) else part for part in parts)


def parse(parts: list[Any], version: int) -> Any:
    frame = joined(parts)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    return parse_response(frame[4:], "fetch", version, 77)


def answered(
    version: int, *partitions: FetchPartitionResponse, nodes: list[NodeAddress] | None = None
) -> list[Any]:
    answer = FetchResponseBuilder(version, 77, ErrorCode.NONE, 4, 1)
    answer.topic(key(version), len(partitions))
    for partition in partitions:
        answer.partition(partition)
    answer.end_topic()
    return answer.finish(nodes)


DATA = FetchPartitionResponse(1, ErrorCode.NONE, 10, 9, 2, Bytes(b"records"), [(1, 2), (3, 4)])
EMPTY = FetchPartitionResponse(2, ErrorCode.NONE, 11, 11, 3)
REFUSED = FetchPartitionResponse(3, ErrorCode.FENCED_LEADER_EPOCH, -1, -1, -1)


class TestAnswer:
    @every_version
    def test_everything_is_read_by_kio(self, version: int) -> None:
        answer = parse(answered(version, DATA, EMPTY, REFUSED), version)
        if version >= fetch.SESSIONS_FROM:
            assert (answer.error_code, answer.session_id) == (0, 4)
        (topic,) = answer.responses
        assert (topic.topic_id if version >= fetch.TOPIC_ID_FROM else topic.topic) == key(version)
        data, empty, refused = topic.partitions
        assert (data.partition_index, data.high_watermark, data.last_stable_offset) == (1, 10, 9)
        assert data.records == b"records"
        assert [(txn.producer_id, txn.first_offset) for txn in data.aborted_transactions] == [(1, 2), (3, 4)]
        # Clients take null for "no answer", so no records are an empty string.
        assert (empty.partition_index, empty.records, empty.aborted_transactions) == (2, b"", None)
        assert (refused.partition_index, refused.error_code, refused.records) == (3, 74, b"")
        if version >= 5:
            assert [part.log_start_offset for part in topic.partitions] == [2, 3, -1]
        if version >= 11:
            assert [part.preferred_read_replica for part in topic.partitions] == [-1, -1, -1]

    @every_version
    def test_records_are_passed_on_and_not_copied(self, version: int) -> None:
        parts = answered(version, DATA, EMPTY, DATA._replace(records=Bytes(b"")))
        assert [part for part in parts if isinstance(part, Bytes)] == [DATA.records]
        assert next(part for part in parts if isinstance(part, Bytes)) is DATA.records

    @every_version
    def test_a_failed_session_is_an_answer_without_topics(self, version: int) -> None:
        parts = FetchResponseBuilder(version, 77, ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0, 0).finish()
        answer = parse(parts, version)
        assert answer.responses == ()
        if version >= fetch.SESSIONS_FROM:
            assert (answer.error_code, answer.session_id) == (70, 0)

    @pytest.mark.parametrize("version", range(fetch.FLEXIBLE_FROM, NEWEST + 1))
    def test_divergence_leader_hint_and_addresses(self, version: int) -> None:
        nodes = [NodeAddress(5, "h", 9)]
        both = DATA._replace(diverging=(3, 1 << 33), leader=(5, 6))
        parts = answered(version, both, EMPTY._replace(leader=(5, 7)), nodes=nodes)
        answer = parse(parts, version)
        assert walker(load_response_schema(1, version))(joined(parts), 9, Notes()) == len(joined(parts))
        first, second = answer.responses[0].partitions
        assert (first.diverging_epoch.epoch, first.diverging_epoch.end_offset) == (3, 1 << 33)
        assert (first.current_leader.leader_id, first.current_leader.leader_epoch) == (5, 6)
        assert second.diverging_epoch.end_offset == -1
        assert second.current_leader.leader_epoch == 7
        if version >= 16:
            assert [(node.node_id, node.host, node.port) for node in answer.node_endpoints] == [(5, "h", 9)]

    @every_version
    @settings(max_examples=30)
    @given(sizes=st.lists(st.integers(0, 40_000), min_size=1, max_size=4))
    def test_sizes_add_up(self, version: int, sizes: list[int]) -> None:
        partitions = [DATA._replace(partition=i, records=Bytes(b"x" * size)) for i, size in enumerate(sizes)]
        answer = parse(answered(version, *partitions), version)
        assert [len(part.records) for part in answer.responses[0].partitions] == sizes
