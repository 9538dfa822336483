"""Produce from frame to frame: acks, several partitions, names and ids."""

import struct
from typing import Any

import pytest

from tidelog.broker.handlers.produce import SHAPE_BYTES_MAX
from tidelog.broker.producing import responses
from tidelog.broker.requests.request import HangUp
from tidelog.errors import ErrorCode
from tidelog.protocol import produce
from tidelog.protocol.wire import Malformed, write_array_size, write_string, write_uvarint
from unit.broker.fakes import NOW_MS, FakeBroker, records

OLDEST, NEWEST = produce.VERSIONS
every_version = pytest.mark.parametrize("version", range(OLDEST, NEWEST + 1))


def partitions(sent: list[Any]) -> list[Any]:
    (answer,) = sent
    return [partition for topic in answer.responses for partition in topic.partition_responses]


def outcome(sent: list[Any]) -> tuple[int, int]:
    (partition,) = partitions(sent)
    return partition.error_code, partition.base_offset


class TestOnePartition:
    @every_version
    @pytest.mark.parametrize("acks", [1, -1])
    def test_offsets_go_up(self, broker: FakeBroker, version: int, acks: int) -> None:
        broker.create("orders")
        found = [
            outcome(broker.produce(("orders", 0, data), version=version, acks=acks))
            for data in (records(b"a", b"b"), records(b"c"), records(b"d"))
        ]
        assert found == [(0, 0), (0, 2), (0, 3)]
        assert broker.partition("orders").log.end_offset == 4

    @every_version
    def test_the_log_start_is_told(self, broker: FakeBroker, version: int) -> None:
        broker.create("orders")
        broker.append("orders", b"a", b"b")
        broker.partition("orders").delete_records(2)
        (answer,) = partitions(broker.produce(("orders", 0, records(b"c")), version=version))
        assert getattr(answer, "log_start_offset", 2) == 2

    @every_version
    def test_append_time_is_told(self, broker: FakeBroker, version: int) -> None:
        broker.create("orders", message_timestamp_type="LogAppendTime")
        (answer,) = partitions(broker.produce(("orders", 0, records(b"a")), version=version))
        assert answer.log_append_time.timestamp() * 1000 == NOW_MS

    @every_version
    def test_an_unknown_topic(self, broker: FakeBroker, version: int) -> None:
        code = (
            ErrorCode.UNKNOWN_TOPIC_ID
            if version >= produce.TOPIC_ID_FROM
            else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )
        assert outcome(broker.produce(("orders", 0, records(b"a")), version=version)) == (code, -1)

    @every_version
    def test_an_unknown_partition(self, broker: FakeBroker, version: int) -> None:
        broker.create("orders")
        for index in (1, -1):
            found = outcome(broker.produce(("orders", index, records(b"a")), version=version))
            assert found == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)

    @every_version
    @pytest.mark.parametrize("data", [None, b""])
    def test_no_records(self, broker: FakeBroker, version: int, data: bytes | None) -> None:
        broker.create("orders")
        assert outcome(broker.produce(("orders", 0, data), version=version)) == (ErrorCode.INVALID_RECORD, -1)

    def test_a_refusal_says_why(self, broker: FakeBroker) -> None:
        broker.create("orders", max_message_bytes=100)
        (refused,) = partitions(broker.produce(("orders", 0, records(b"x" * 200))))
        assert refused.error_code == ErrorCode.MESSAGE_TOO_LARGE
        assert "max.message.bytes allows 100" in refused.error_message

    def test_a_name_of_old_and_its_new_id(self, broker: FakeBroker) -> None:
        old = broker.create("orders")
        broker.call("delete_topics", 6, topics=[{"name": "orders"}])
        new = broker.create("orders")
        assert old != new
        assert outcome(broker.produce(("orders", 0, records(b"a")), version=13)) == (0, 0)


class TestAcks:
    @every_version
    def test_no_answer_where_none_is_wanted(self, broker: FakeBroker, version: int) -> None:
        broker.create("orders")
        assert broker.produce(("orders", 0, records(b"a")), acks=0, version=version) == [None]
        assert broker.partition("orders").log.end_offset == 1

    @every_version
    def test_a_client_that_wants_no_answer_notices_a_refusal_all_the_same(
        self, broker: FakeBroker, version: int
    ) -> None:
        with pytest.raises(HangUp, match="UNKNOWN_TOPIC"):
            broker.produce(("bills", 0, records(b"a")), acks=0, version=version)

    @pytest.mark.parametrize("acks", [2, -2, 7, 32767])
    def test_no_other_numbers(self, broker: FakeBroker, acks: int) -> None:
        broker.create("orders", 2)
        sent = broker.produce(("orders", 0, records(b"a")), ("orders", 1, records(b"a")), acks=acks)
        assert [each.error_code for each in partitions(sent)] == [ErrorCode.INVALID_REQUIRED_ACKS] * 2
        assert broker.partition("orders").log.end_offset == 0

    def test_with_acks_0_nobody_waits_for_the_disk(self, broker: FakeBroker) -> None:
        broker.create("orders", flush_messages=1)
        broker.services.held = True
        assert broker.produce(("orders", 0, records(b"a")), acks=0) == [None]

    @pytest.mark.parametrize("acks", [1, -1])
    def test_the_answer_waits_for_the_sync(self, broker: FakeBroker, acks: int) -> None:
        broker.create("orders", flush_messages=1)
        broker.services.held = True
        sent = broker.produce(("orders", 0, records(b"a")), acks=acks)
        broker.services.settle()
        assert sent == []
        broker.services.held = False
        broker.services.settle()
        assert outcome(sent) == (0, 0)


class TestManyPartitions:
    @every_version
    def test_each_has_its_own_outcome(self, broker: FakeBroker, version: int) -> None:
        broker.create("orders", 2)
        broker.create("bills")
        broken = bytes(61)
        sent = broker.produce(
            ("orders", 0, records(b"a")),
            ("orders", 1, broken),
            ("orders", 5, records(b"a")),
            ("bills", 0, records(b"a", b"b")),
            version=version,
        )
        assert [(each.index, each.error_code, each.base_offset) for each in partitions(sent)] == [
            (0, 0, 0),
            (1, ErrorCode.INVALID_RECORD, -1),
            (5, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
            (0, 0, 0),
        ]

    def test_the_slowest_decides_when(self, broker: FakeBroker) -> None:
        broker.create("fast")
        broker.create("slow", flush_messages=1)
        broker.services.held = True
        sent = broker.produce(("fast", 0, records(b"a")), ("slow", 0, records(b"a")))
        broker.services.settle()
        assert sent == []
        assert broker.partition("fast").high_watermark == 1
        broker.services.held = False
        broker.services.settle()
        assert [each.error_code for each in partitions(sent)] == [0, 0]

    def test_the_same_partition_twice(self, broker: FakeBroker) -> None:
        broker.create("orders")
        sent = broker.produce(("orders", 0, records(b"a")), ("orders", 0, records(b"b")))
        assert [each.base_offset for each in partitions(sent)] == [0, 1]

    @every_version
    def test_nothing_at_all(self, broker: FakeBroker, version: int) -> None:
        (answer,) = broker.produce(version=version)
        assert answer.responses == ()


def test_answer_templates_are_bounded(broker: FakeBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(responses, "MAX_TEMPLATES", 2)
    broker.create("orders", 3)
    for _ in range(2):
        for index in range(3):
            (answer,) = partitions(broker.produce(("orders", index, records(b"a"))))
            assert (answer.index, answer.error_code) == (index, 0)
    assert len(broker.producing._responses._templates) <= 2


def test_a_frame_that_is_none(broker: FakeBroker) -> None:
    from tidelog.broker.requests.request import RequestContext

    with pytest.raises(Malformed):
        broker.producing.handle(
            memoryview(b"\x00"), 0, RequestContext(0, 9, 7, None, "peer"), lambda frame: None
        )


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state"])
def test_clients_do_not_write_what_coordinators_rely_on(broker: FakeBroker, name: str) -> None:
    broker.create(name, cleanup_policy="compact")
    assert broker.append(name, b"forged", keys=[b"key"]).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert broker.partition(name).log.end_offset == 0


@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize("size", [10, 30_000])
def test_a_request_with_much_around_its_records_has_no_shape(
    broker: FakeBroker, version: int, size: int
) -> None:
    """A connection keeps 64 shapes. A stranger could make each as large as a request."""
    batch = bytes(records(b"v"))
    flexible = version >= 9
    body = write_string("x" * size, False) + (b"\x00" if flexible else b"") + write_string(None, flexible)
    body += struct.pack(">hi", 1, 1000) + write_array_size(1, flexible) + write_string("orders", flexible)
    body += write_array_size(1, flexible) + struct.pack(">i", 0)
    body += (write_uvarint(len(batch) + 1) if flexible else struct.pack(">i", len(batch))) + batch
    frame = memoryview(bytearray(struct.pack(">hhi", 0, version, 1) + body + b"\0\0\0" * flexible))
    position = 8 + 2 + size + flexible
    shape = broker.producing.handle(frame, position, broker.context(0, version), lambda response: None)
    assert (shape is not None) == (size < SHAPE_BYTES_MAX)
