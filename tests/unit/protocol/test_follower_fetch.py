"""Fetch between brokers, by hand: what kio's schema of Fetch 18 says, plus two tagged fields of ours."""

from typing import Any, NamedTuple
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader

from interop.wire import build
from tidelog.errors import ErrorCode
from tidelog.protocol import follower_fetch, messages
from tidelog.protocol.extents import tame
from tidelog.protocol.follower_fetch import NOT_TOLD, Ask, Key
from tidelog.protocol.kio_import import entity_writer
from tidelog.protocol.wire import Malformed
from unit.protocol.sample_requests import request_body

CLIENT = follower_fetch.asker("tidelog-peer-2", "the clüster")
HEADER_SIZE = 12 + len(CLIENT.header)  # size, api key, version and correlation id before it

INT16 = st.integers(-(1 << 15), (1 << 15) - 1)
INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
TOPICS = st.sampled_from([UUID(int=n << 64 | 7) for n in range(1, 4)])
KEYS = st.tuples(TOPICS, st.integers(0, 3))
DIRECTORIES = st.none() | st.builds(UUID, int=st.integers(1, (1 << 128) - 1))
CODES = st.sampled_from(list(ErrorCode))


class Item(NamedTuple):
    key: Key
    epoch: int
    offset: int
    last_epoch: int
    log_start_offset: int
    high_watermark: int


class Bytes(NamedTuple):
    data: bytes

    @property
    def size(self) -> int:
        return len(self.data)


class Part(NamedTuple):
    key: Key
    offset: int
    error: ErrorCode
    epoch: int
    leader: int
    high_watermark: int
    log_start_offset: int
    records: Any
    diverging: tuple[int, int] | None = None
    snapshot: tuple[int, int] | None = None


ITEMS = st.lists(st.builds(Item, KEYS, INT32, INT64, INT32, INT64, INT64))
ASKS = (
    st.builds(Ask, INT32, INT64, INT64, INT64, st.integers(0, 10_000), st.integers(0, 1 << 30), DIRECTORIES)
    .flatmap(
        lambda ask: (
            st.sampled_from([-1, 0])
            | st.integers(1, 1000).map(lambda behind: max(ask.generation - behind, 0))
        ).map(lambda heard: ask._replace(heard=heard))
    )
    .flatmap(
        lambda ask: st.lists(st.tuples(KEYS, st.uuids()), max_size=2).map(
            lambda others: ask._replace(others=others or ())
        )
    )
)
PARTS = st.lists(
    st.builds(
        Part,
        KEYS,
        INT64,
        CODES,
        INT32,
        INT32,
        INT64,
        INT64,
        st.none() | st.builds(Bytes, st.binary(min_size=1, max_size=300)),
        st.none() | st.tuples(INT32, INT64),
        st.none() | st.tuples(INT64, INT32),
    )
)


def sample_item(index: int = 0, topic: int = 1) -> Item:
    return Item((UUID(int=topic), index), 3, 1 << 40, 2, 5, 1 << 39)


def sample_part(index: int = 0, records: Bytes | None = None) -> Part:
    return Part((UUID(int=1), index), 9, ErrorCode.NONE, 3, 2, 8, 1, records)


ASK = Ask(2, 77, 1 << 40, (1 << 40) - 1, 300, 1 << 20)


def flat(pieces: list[Any]) -> bytes:
    return b"".join(piece.data if isinstance(piece, Bytes) else bytes(piece) for piece in pieces)


def decode_ask(frame: bytes | bytearray) -> tuple[Ask, list[Item], list[Key], str | None]:
    return follower_fetch.decode_ask(memoryview(frame), HEADER_SIZE, Item)


def decode_response(frame: bytes) -> tuple[ErrorCode, list[Part]]:
    return follower_fetch.decode_response(memoryview(frame), 9, Part)


def copied(parts: list[Part]) -> list[Part]:
    return [
        part if part.records is None else part._replace(records=Bytes(bytes(part.records))) for part in parts
    ]


def read_by_kio(schema: Any, frame: bytes | bytearray, position: int) -> Any:
    """What kio understands of it, without our own tagged fields; all of it."""
    tamed, start = tame(schema, memoryview(bytes(frame)), position)
    entity, size = entity_reader(schema)(bytes(tamed), start)
    assert start + size == len(tamed)
    return entity


class TestAsks:
    @given(ASKS, ITEMS, st.lists(KEYS))
    def test_come_back_as_they_were(self, ask: Ask, items: list[Item], forgotten: list[Key]) -> None:
        frame = follower_fetch.encode_ask(CLIENT, 5, ask, items, forgotten)
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4
        assert decode_ask(frame) == (ask, items, forgotten, "the clüster")
        assert follower_fetch.is_ask(memoryview(frame)[4:], 18)

    @given(ASKS, ITEMS, st.lists(KEYS))
    def test_are_kafka_requests(self, ask: Ask, items: list[Item], forgotten: list[Key]) -> None:
        frame = follower_fetch.encode_ask(CLIENT, 5, ask, items, forgotten)
        request = read_by_kio(load_request_schema(1, 18), frame, HEADER_SIZE)
        assert (request.replica_state.replica_id, request.replica_state.replica_epoch) == ask[:2]
        assert messages.milliseconds(request.max_wait) == ask.max_wait_ms
        assert (request.max_bytes, request.isolation_level) == (ask.max_bytes, 0)
        behind = request.min_bytes - 1
        assert ask.heard == (0 if behind < 0 else -1 if behind == 0 else ask.generation - behind)
        assert (request.session_id, request.session_epoch) == (0, -1)
        assert request.cluster_id == "the clüster"
        found = [
            Item(
                (topic.topic_id, part.partition),
                part.current_leader_epoch,
                part.fetch_offset,
                part.last_fetched_epoch,
                part.log_start_offset,
                part.high_watermark,
            )
            for topic in request.topics
            for part in topic.partitions
        ]
        assert found == items
        assert [
            (topic.topic_id, index) for topic in request.forgotten_topics_data for index in topic.partitions
        ] == forgotten

    def test_from_a_broker_that_has_no_cluster_yet(self) -> None:
        newcomer = follower_fetch.asker("tidelog-peer-2", None)
        frame = follower_fetch.encode_ask(newcomer, 5, ASK, [sample_item()], [])
        assert decode_ask(frame) == (ASK, [sample_item()], [], None)
        assert follower_fetch.is_ask(memoryview(frame), 18)
        assert read_by_kio(load_request_schema(1, 18), frame, HEADER_SIZE).cluster_id is None

    def test_header(self) -> None:
        frame = follower_fetch.encode_ask(CLIENT, 5, ASK, [], [])
        schema = load_request_schema(1, 18).__header_schema__
        header, size = entity_reader(schema)(bytes(frame), 4)
        assert 4 + size == HEADER_SIZE
        assert (header.request_api_key, header.request_api_version, header.correlation_id) == (1, 18, 5)
        assert header.client_id == "tidelog-peer-2"

    @given(ASKS, ITEMS)
    def test_of_another_origin(self, ask: Ask, items: list[Item]) -> None:
        """Written by kio: tagged fields that hold a default are left out, and ours are unknown."""
        topics = [
            {
                "topic_id": item.key[0],
                "partitions": [
                    {
                        "partition": item.key[1],
                        "current_leader_epoch": item.epoch,
                        "fetch_offset": item.offset,
                        "last_fetched_epoch": item.last_epoch,
                        "log_start_offset": item.log_start_offset,
                        "partition_max_bytes": 1,
                        "high_watermark": item.high_watermark,
                        "replica_directory_id": UUID(int=place + 1) if place % 2 else None,
                    }
                ],
            }
            for place, item in enumerate(items)
        ]
        replica = {"replica_id": ask.sender, "replica_epoch": ask.broker_epoch}
        body = request_body(
            1,
            18,
            {
                "topics": topics,
                "replica_state": replica,
                "max_wait": ask.max_wait_ms,
                "max_bytes": ask.max_bytes,
                "rack_id": "räck",
            },
        )
        found = follower_fetch.decode_ask(memoryview(body), 0, Item)
        without_ours = ask._replace(generation=0, since=0, directory=None, heard=-1, others=())
        assert found == (without_ours, items, [], None)

    def test_an_unknown_watermark_is_told_as_such(self) -> None:
        body = request_body(
            1, 18, {"topics": [{"topic_id": UUID(int=1), "partitions": [{"partition": 4}]}], "rack_id": ""}
        )
        (_, (item,), _, _) = follower_fetch.decode_ask(memoryview(body), 0, Item)
        assert (item.key[1], item.high_watermark) == (4, NOT_TOLD)

    def test_consumers_are_told_apart(self) -> None:
        body = request_body(1, 18, {"topics": [], "rack_id": "\x01\x0d"})
        assert not follower_fetch.is_ask(memoryview(body), 18)
        assert not follower_fetch.is_ask(memoryview(b""), 18)
        frame = follower_fetch.encode_ask(CLIENT, 5, ASK, [sample_item()], [])
        assert not follower_fetch.is_ask(memoryview(frame), 17)

    def test_cut_short_anywhere(self) -> None:
        frame = follower_fetch.encode_ask(
            CLIENT, 5, ASK, [sample_item(0), sample_item(1), sample_item(0, 2)], [(UUID(int=9), 3)]
        )
        for size in range(HEADER_SIZE, len(frame) - 1):
            with pytest.raises(Malformed):
                decode_ask(frame[:size])

    @given(st.binary(max_size=200))
    def test_garbage(self, garbage: bytes) -> None:
        """Understood or refused, nothing else."""
        try:
            follower_fetch.decode_ask(memoryview(garbage), 0, Item)
        except Malformed:
            return


class TestAnswers:
    @given(CODES, PARTS)
    def test_come_back_as_they_were(self, error: ErrorCode, parts: list[Part]) -> None:
        pieces = follower_fetch.encode_response(6, error, parts)
        frame = flat(pieces)
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4
        found_error, found = decode_response(frame)
        assert (found_error, copied(found)) == (error, parts)

    @given(CODES, PARTS)
    def test_are_kafka_answers(self, error: ErrorCode, parts: list[Part]) -> None:
        frame = flat(follower_fetch.encode_response(6, error, parts))
        schema = load_response_schema(1, 18)
        header, size = entity_reader(schema.__header_schema__)(frame, 4)
        assert (header.correlation_id, size) == (6, 5)
        answer = read_by_kio(schema, frame, 9)
        assert answer.error_code == error
        found = [(topic.topic_id, part) for topic in answer.responses for part in topic.partitions]
        assert len(found) == len(parts)
        for (topic_id, one), part in zip(found, parts, strict=True):
            assert (topic_id, one.partition_index) == part.key
            assert (one.error_code, one.high_watermark) == (part.error, part.high_watermark)
            assert one.log_start_offset == part.log_start_offset
            leader = one.current_leader
            assert (leader.leader_id, leader.leader_epoch) == (part.leader, part.epoch)
            diverging = (one.diverging_epoch.epoch, one.diverging_epoch.end_offset)
            assert diverging == (part.diverging or (-1, -1))
            assert (one.snapshot_id.end_offset, one.snapshot_id.epoch) == (part.snapshot or (-1, -1))
            assert bytes(one.records or b"") == (part.records.data if part.records else b"")

    @given(PARTS)
    def test_of_another_origin(self, parts: list[Part]) -> None:
        """Without the offset that was asked for, which only we tell."""
        schema = load_response_schema(1, 18)
        values = [
            {
                "topic_id": part.key[0],
                "partitions": [
                    {
                        "partition_index": part.key[1],
                        "error_code": part.error,
                        "high_watermark": part.high_watermark,
                        "log_start_offset": part.log_start_offset,
                        "aborted_transactions": () if place % 2 else None,
                        "records": part.records and part.records.data,
                        "current_leader": {"leader_id": part.leader, "leader_epoch": part.epoch},
                        "diverging_epoch": {
                            "epoch": (part.diverging or (-1, -1))[0],
                            "end_offset": (part.diverging or (-1, -1))[1],
                        },
                        "snapshot_id": {
                            "end_offset": (part.snapshot or (-1, -1))[0],
                            "epoch": (part.snapshot or (-1, -1))[1],
                        },
                    }
                ],
            }
            for place, part in enumerate(parts)
        ]
        out: list[bytes] = []

        class Sink:
            write = staticmethod(out.append)

        entity_writer(schema)(Sink, build(schema, {"error_code": ErrorCode.NONE, "responses": values}))  # type: ignore[arg-type]
        _, found = follower_fetch.decode_response(memoryview(b"".join(out)), 0, Part)
        expected = [
            part._replace(
                offset=-1,
                diverging=None if part.diverging == (-1, -1) else part.diverging,
                snapshot=None if part.snapshot == (-1, -1) else part.snapshot,
            )
            for part in parts
        ]
        assert copied(found) == expected

    def test_records_are_not_copied(self) -> None:
        records = Bytes(b"r" * 100)
        pieces = follower_fetch.encode_response(6, ErrorCode.NONE, [sample_part(0, records), sample_part(1)])
        assert pieces[1] is records
        frame = bytearray(flat(pieces))
        _, (first, _) = follower_fetch.decode_response(memoryview(frame), 9, Part)
        frame[frame.index(b"rrr")] = ord("x")
        assert bytes(first.records[:2]) == b"xr"

    def test_cut_short_anywhere(self) -> None:
        parts = [
            sample_part(0, Bytes(b"abc")),
            sample_part(1),
            sample_part(2)._replace(diverging=(1, 2), snapshot=(3, 4)),
        ]
        frame = flat(follower_fetch.encode_response(6, ErrorCode.NONE, parts))
        for size in range(9, len(frame) - 1):
            with pytest.raises(Malformed):
                decode_response(frame[:size])

    def test_aborted_transactions_are_refused(self) -> None:
        frame = bytearray(flat(follower_fetch.encode_response(6, ErrorCode.NONE, [sample_part()])))
        place = frame.index(b"\x00\xff\xff\xff\xff")
        frame[place] = 3
        with pytest.raises(Malformed):
            decode_response(bytes(frame))

    def test_an_unknown_error_code_is_an_error(self) -> None:
        frame = bytearray(flat(follower_fetch.encode_response(6, ErrorCode.NONE, [])))
        frame[13:15] = (9999).to_bytes(2, "big")
        assert decode_response(bytes(frame)) == (ErrorCode.UNKNOWN_SERVER_ERROR, [])

    @given(st.binary(max_size=200))
    def test_garbage(self, garbage: bytes) -> None:
        try:
            follower_fetch.decode_response(memoryview(garbage), 0, Part)
        except Malformed:
            return
