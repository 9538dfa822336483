"""Produce by hand: at every version the same as kio reads and writes."""

from contextlib import suppress
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.index import load_response_schema

from interop.wire import parse_response
from tidelog.errors import ErrorCode, RecordError
from tidelog.protocol import produce, wire
from tidelog.protocol.extents import Notes, walker
from tidelog.protocol.produce import NodeAddress, PlainEncoder, ProducePartitionResponse, TopicResponses
from tidelog.protocol.wire import Malformed
from unit.protocol.sample_requests import TOPIC_ID, request_body

OLDEST, NEWEST = produce.VERSIONS
VERSIONS = range(OLDEST, NEWEST + 1)
every_version = pytest.mark.parametrize("version", VERSIONS)
flexible_version = pytest.mark.parametrize("version", range(produce.FLEXIBLE_FROM, NEWEST + 1))


def key(version: int, name: str = "orders") -> str | UUID:
    return TOPIC_ID if version >= produce.TOPIC_ID_FROM else name


def topic(name: str, partitions: dict[int, bytes | None]) -> dict[str, Any]:
    data = [{"index": index, "records": records} for index, records in partitions.items()]
    return {"name": name, "topic_id": TOPIC_ID, "partition_data": data}


def body(version: int, *topics: dict[str, Any], **more: Any) -> bytearray:
    values = {"transactional_id": None, "acks": -1, "timeout": 1500, "topic_data": topics, **more}
    return bytearray(request_body(produce.API_KEY, version, values))


def full_body(version: int) -> bytearray:
    first = topic("orders", {3: b"abc", 0: None, 70_000: b""})
    return body(version, first, topic("bills", {1: b"x" * 300}), transactional_id="tx")


def decode(data: bytes | bytearray, version: int) -> produce.ProduceRequest:
    return produce.decode(memoryview(data), 0, version)


class TestDecode:
    @every_version
    def test_everything_kio_writes(self, version: int) -> None:
        request = decode(full_body(version), version)
        assert (request.transactional_id, request.acks, request.timeout_ms) == ("tx", -1, 1500)
        assert request.topics == [
            (key(version), [(3, b"abc"), (0, None), (70_000, b"")]),
            (key(version, "bills"), [(1, b"x" * 300)]),
        ]

    @every_version
    def test_starts_where_the_header_ends(self, version: int) -> None:
        data = full_body(version)
        frame = memoryview(b"header" + data)
        assert produce.decode(frame, 6, version) == decode(data, version)

    @every_version
    @pytest.mark.parametrize("acks", [0, 1, -1, 7, -32768])
    def test_without_topics(self, version: int, acks: int) -> None:
        request = decode(body(version, acks=acks), version)
        assert (request.acks, request.transactional_id, request.topics) == (acks, None, [])

    @every_version
    def test_a_topic_without_partitions(self, version: int) -> None:
        assert decode(body(version, topic("orders", {})), version).topics == [(key(version), [])]

    @every_version
    def test_records_can_be_patched_where_they_lie(self, version: int) -> None:
        data = body(version, topic("orders", {0: b"abc"}))
        ((_, [(_, records)]),) = decode(data, version).topics
        assert records is not None
        records[0] = ord("X")
        assert b"Xbc" in data

    @flexible_version
    def test_unknown_tagged_fields_are_skipped(self, version: int) -> None:
        tags = b"\x02" + b"\x05\x03abc" + b"\xc8\x01\x00"  # fields 5 and 200
        name = TOPIC_ID.bytes if version >= produce.TOPIC_ID_FROM else wire.write_string("orders", True)
        partition = wire.INT32.pack(4) + b"\x03hi" + tags
        data = b"\x00" + b"\xff\xff" + wire.INT32.pack(9) + b"\x02" + name + b"\x02" + partition + tags + tags
        request = decode(data, version)
        assert (request.acks, request.timeout_ms) == (-1, 9)
        assert request.topics == [(key(version), [(4, memoryview(b"hi"))])]

    @pytest.mark.parametrize("version", [3, 9])
    def test_null_arrays_are_empty(self, version: int) -> None:
        null = b"\x00" if version >= produce.FLEXIBLE_FROM else b"\xff\xff\xff\xff"
        head = wire.write_string(None, version >= 9) + b"\x00\x01" + wire.INT32.pack(9)
        assert decode(head + null, version).topics == []
        one = wire.write_array_size(1, version >= 9) + wire.write_string("orders", version >= 9)
        assert decode(head + one + null + b"\x00", version).topics == [("orders", [])]

    @pytest.mark.parametrize("version", [3, 9])
    def test_a_topic_must_have_a_name(self, version: int) -> None:
        flexible = version >= produce.FLEXIBLE_FROM
        data = wire.write_string(None, flexible) + b"\x00\x01" + wire.INT32.pack(9)
        data += wire.write_array_size(1, flexible) + wire.write_string(None, flexible) + bytes(8)
        with pytest.raises(Malformed, match="without a name"):
            decode(data, version)


class TestBrokenRequests:
    @pytest.mark.parametrize("version", [9, 12])
    @pytest.mark.parametrize("where", ["name", "transactional_id"])
    def test_a_name_that_is_no_name(self, version: int, where: str) -> None:
        long = "x" * (wire.STRING_BYTES_MAX + 1)
        data = wire.write_string(long if where == "transactional_id" else None, True)
        data += bytes([0, 1, 0, 0, 0, 9]) + wire.write_array_size(1, True)
        data += wire.write_string(long, True) + bytes([1, 0, 0])
        with pytest.raises(Malformed, match="more than 32767 bytes"):
            decode(data, version)

    @every_version
    def test_cut_at_every_byte(self, version: int) -> None:
        """Malformed, or (where only the last, empty tagged fields are missing) as if it were whole."""
        data = full_body(version)
        whole = decode(data, version)
        for cut in range(len(data)):
            try:
                found = decode(data[:cut], version)
            except Malformed:
                continue
            assert cut == len(data) - 1 and version >= produce.FLEXIBLE_FROM
            assert found == whole

    @every_version
    @settings(max_examples=30)
    @given(data=st.data())
    def test_any_byte_changed(self, version: int, data: st.DataObject) -> None:
        broken = full_body(version)
        for _ in range(data.draw(st.integers(1, 3))):
            broken[data.draw(st.integers(0, len(broken) - 1))] = data.draw(st.integers(0, 255))
        with suppress(Malformed):
            decode(broken, version)

    @every_version
    def test_lengths_that_lead_outside(self, version: int) -> None:
        """Every place of the frame in turn claims to be a huge length or count."""
        data = full_body(version)
        for position in range(len(data)):
            for huge in (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x0f", b"\x80\x00\x00\x00"):
                broken = data[:position] + huge + data[position + len(huge) :]
                with suppress(Malformed):
                    decode(broken, version)


def partition_of(frame: bytes | bytearray, version: int) -> Any:
    ((answer,),) = (topic.partition_responses for topic in parse(frame, version).responses)
    return answer


def parse(frame: bytes | bytearray, version: int, correlation_id: int = 99) -> Any:
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    return parse_response(bytes(frame[4:]), "produce", version, correlation_id)


REFUSED = ProducePartitionResponse(3, ErrorCode.NOT_LEADER_OR_FOLLOWER, message="söme reason", leader=(2, 9))
WRITTEN = ProducePartitionResponse(0, ErrorCode.NONE, 1 << 40, 1_700_000_000_123, 77)


class TestEncode:
    @every_version
    def test_everything_is_read_by_kio(self, version: int) -> None:
        topics: TopicResponses = [(key(version), [REFUSED, WRITTEN]), (key(version, "bills"), [])]
        answer = parse(produce.encode(version, 99, topics), version)
        assert answer.throttle_time.total_seconds() == 0
        orders, bills = answer.responses
        if version >= produce.TOPIC_ID_FROM:
            assert orders.topic_id == TOPIC_ID
        else:
            assert (orders.name, bills.name) == ("orders", "bills")
        assert bills.partition_responses == ()
        refused, written = orders.partition_responses
        assert (refused.index, refused.error_code, refused.base_offset) == (3, 6, -1)
        assert refused.log_append_time is None
        assert (written.index, written.error_code, written.base_offset) == (0, 0, 1 << 40)
        assert written.log_append_time.timestamp() == 1_700_000_000.123
        if version >= 5:
            assert (refused.log_start_offset, written.log_start_offset) == (-1, 77)
        if version >= 8:
            assert (refused.error_message, written.error_message) == ("söme reason", None)
            assert refused.record_errors == ()

    @every_version
    def test_wrong_records_have_their_own_messages(self, version: int) -> None:
        wrong = (RecordError(1, "no key"), RecordError(70_000, "too öld"))
        response = REFUSED._replace(refused_records=wrong)
        frame = produce.encode(version, 99, [(key(version), [response])])
        if version < 8:
            assert frame == produce.encode(version, 99, [(key(version), [REFUSED])])
            return
        (found,) = parse(frame, version).responses[0].partition_responses
        told = [(each.batch_index, each.batch_index_error_message) for each in found.record_errors]
        assert told == [tuple(each) for each in wrong]

    @every_version
    def test_no_topics(self, version: int) -> None:
        assert parse(produce.encode(version, 99, []), version).responses == ()

    @every_version
    def test_a_leader_hint_and_its_address(self, version: int) -> None:
        nodes = [NodeAddress(2, "broker-2", 9092), NodeAddress(3, "broker-3", 9093, "rack")]
        frame = produce.encode(version, 99, [(key(version), [REFUSED])], nodes)
        answer = parse(frame, version)
        if version < 10:
            assert frame == produce.encode(version, 99, [(key(version), [REFUSED._replace(leader=None)])])
            return
        # Sizes of tagged fields: kio does not look at them, other clients do.
        assert walker(load_response_schema(0, version))(frame, 9, Notes()) == len(frame)
        hint = answer.responses[0].partition_responses[0].current_leader
        assert (hint.leader_id, hint.leader_epoch) == (2, 9)
        found = [(node.node_id, node.host, node.port, node.rack) for node in answer.node_endpoints]
        assert found == [tuple(node) for node in nodes]

    @every_version
    @settings(max_examples=30)
    @given(correlation_id=st.integers(-(1 << 31), (1 << 31) - 1))
    def test_carries_the_correlation_id(self, version: int, correlation_id: int) -> None:
        frame = produce.encode(version, correlation_id, [])
        assert parse(frame, version, correlation_id).responses == ()


class TestPlainEncoder:
    offsets = st.integers(-1, (1 << 63) - 1)

    @pytest.mark.parametrize("version", range(5, NEWEST + 1))
    @settings(max_examples=30)
    @given(
        correlation_id=st.integers(-(1 << 31), (1 << 31) - 1),
        partition=st.integers(0, (1 << 31) - 1),
        base_offset=offsets,
        append_time_ms=offsets,
        start_offset=offsets,
    )
    def test_is_the_general_answer(
        self,
        version: int,
        correlation_id: int,
        partition: int,
        base_offset: int,
        append_time_ms: int,
        start_offset: int,
    ) -> None:
        plain = PlainEncoder(version, key(version), partition)
        answer = ProducePartitionResponse(
            partition, ErrorCode.NONE, base_offset, append_time_ms, start_offset
        )
        general = produce.encode(version, correlation_id, [(key(version), [answer])])
        plain.encode(1, 2, 3, 4)  # one answer leaves nothing behind in the template
        assert plain.encode(correlation_id, base_offset, append_time_ms, start_offset) == general

    @given(topic_id=st.uuids())
    def test_any_topic_id(self, topic_id: UUID) -> None:
        frame = PlainEncoder(13, topic_id, 0).encode(99, 5, -1, 0)
        assert parse(frame, 13).responses[0].topic_id == (topic_id if topic_id.int else None)
        assert partition_of(frame, 13).base_offset == 5

    @given(name=st.from_regex(r"[a-zA-Z0-9._-]{1,249}", fullmatch=True))
    def test_any_topic_name(self, name: str) -> None:
        frame = PlainEncoder(9, name, 0).encode(99, 5, -1, 0)
        assert parse(frame, 9).responses[0].name == name
        assert partition_of(frame, 9).base_offset == 5
