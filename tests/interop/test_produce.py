"""Produce at the wire: acknowledgements, order of pipelined requests, and batches that must be refused."""

import struct

import pytest
from kio.schema.errors import ErrorCode

from . import calls
from .conftest import CreateTopic
from .records import batch, batches, reseal, values
from .wire import Wire, parse_response

pytestmark = pytest.mark.interop


def assert_refused(wire: Wire, topic: str, data: bytes | bytearray, *errors: ErrorCode) -> None:
    """The batch is refused, nothing of it is stored, and the connection goes on."""
    before = calls.end_offset(wire, topic)
    assert calls.produce(wire, topic, bytes(data)).error_code in errors
    assert calls.end_offset(wire, topic) == before


@pytest.mark.parametrize("acks", [1, -1])
def test_the_answer_says_where_the_batch_went(wire: Wire, topic: str, acks: int) -> None:
    for base_offset in (0, 3, 6):
        answer = calls.produce(wire, topic, bytes(batch(b"a", b"b", b"c")), acks=acks)
        assert answer.error_code is ErrorCode.none
        assert answer.base_offset == base_offset
        assert answer.log_start_offset == 0
        assert answer.log_append_time is None  # CreateTime: the producer's timestamps stand


def test_acks_0_gets_no_answer(wire: Wire, topic: str) -> None:
    wire.send("produce", 12, **calls.produce_request(topic, bytes(batch(b"quiet")), 0, acks=0))
    # The next answer on the connection is already the one to the next request; and it sees the record.
    assert calls.end_offset(wire, topic) == 1


def test_acks_0_that_fails_closes_the_connection(wire: Wire) -> None:
    # No answer can say what is wrong, so the producer learns it this way and asks for metadata.
    wire.send("produce", 12, **calls.produce_request("no-such-topic", bytes(batch(b"lost")), 0, acks=0))
    assert wire.wait_until_closed() == b""


@pytest.mark.parametrize("acks", [2, -2, 100])
def test_other_acks_are_refused(wire: Wire, topic: str, acks: int) -> None:
    answer = calls.produce(wire, topic, bytes(batch(b"x")), acks=acks)
    assert answer.error_code is ErrorCode.invalid_required_acks


def test_pipelined_requests_are_answered_in_order(wire: Wire, create_topic: CreateTopic) -> None:
    topic = create_topic(partitions=4)
    sent: list[tuple[str, int, int]] = []
    for number in range(200):
        # Quick and slow requests, alternating: an answer must never overtake an earlier one.
        if number % 50 == 49:
            waiting = calls.fetch_request(
                [{"topic": topic, "partitions": [calls.fetch_partition(0, 1000)]}], max_wait=100
            )
            waiting["topics"][0]["partitions"][0]["fetch_offset"] = calls_so_far(sent, 0)
            sent.append(("fetch", 12, wire.send("fetch", 12, **waiting)))
        elif number % 10 == 9:
            sent.append(("metadata", 12, wire.send("metadata", 12, topics=[])))
        else:
            request = calls.produce_request(topic, bytes(batch(b"x")), number % 4, acks=-1)
            sent.append(("produce", 12, wire.send("produce", 12, **request)))
    stored = [0] * 4
    for number, (api, version, correlation_id) in enumerate(sent):
        answer = parse_response(wire.receive_frame(), api, version, correlation_id)
        if api == "produce":
            part = answer.responses[0].partition_responses[0]
            assert (part.error_code, part.base_offset) == (ErrorCode.none, stored[number % 4])
            stored[number % 4] += 1
    assert stored == [calls_so_far(sent, partition) for partition in range(4)]


def calls_so_far(sent: list[tuple[str, int, int]], partition: int) -> int:
    """The end offset of the partition once everything sent so far is stored."""
    return sum(1 for number, (api, _, _) in enumerate(sent) if api == "produce" and number % 4 == partition)


def test_pipelined_batches_keep_their_order(wire: Wire, topic: str) -> None:
    ids = [
        wire.send("produce", 12, **calls.produce_request(topic, bytes(batch(str(n).encode())), 0, acks=1))
        for n in range(300)
    ]
    offsets = [
        wire.receive("produce", 12, each).responses[0].partition_responses[0].base_offset for each in ids
    ]
    assert offsets == list(range(300))
    assert values(calls.fetch(wire, topic, 0).records) == [str(n).encode() for n in range(300)]


def test_many_partitions_in_one_request(wire: Wire, create_topic: CreateTopic) -> None:
    topic = create_topic(partitions=8)
    parts = [{"index": n, "records": bytes(batch(f"p{n}".encode()))} for n in range(8)]
    answer = wire.call(
        "produce", 12, acks=-1, timeout=30_000, topic_data=[{"name": topic, "partition_data": parts}]
    )
    codes = {result.index: result.error_code for result in answer.responses[0].partition_responses}
    assert codes == dict.fromkeys(range(8), ErrorCode.none)
    for n in range(8):
        assert values(calls.fetch(wire, topic, 0, partition=n).records) == [f"p{n}".encode()]


def test_one_bad_partition_does_not_hold_back_the_others(wire: Wire, create_topic: CreateTopic) -> None:
    topic = create_topic(partitions=2)
    broken = batch(b"broken")
    broken[-1] ^= 0xFF
    parts = [{"index": 0, "records": bytes(broken)}, {"index": 1, "records": bytes(batch(b"fine"))}]
    answer = wire.call(
        "produce", 12, acks=-1, timeout=30_000, topic_data=[{"name": topic, "partition_data": parts}]
    )
    codes = {result.index: result.error_code for result in answer.responses[0].partition_responses}
    assert codes == {0: ErrorCode.corrupt_message, 1: ErrorCode.none}
    assert values(calls.fetch(wire, topic, 0, partition=1).records) == [b"fine"]


def test_the_leader_epoch_is_written_into_the_batch(wire: Wire, topic: str) -> None:
    epoch = calls.metadata(wire, topic).partitions[0].leader_epoch
    calls.produce(wire, topic, bytes(batch(b"x")))
    (stored,) = batches(calls.fetch(wire, topic, 0).records)
    assert stored.leader_epoch == epoch


def test_bytes_after_the_batch_never_reach_the_log(wire: Wire, topic: str) -> None:
    # Kafka takes the batch and drops the tail; refusing both would do as well.
    calls.produce(wire, topic, bytes(batch(b"one") + b"tail"))
    calls.produce(wire, topic, bytes(batch(b"two")))
    stored = calls.fetch(wire, topic, 0).records
    assert sum(each.size_in_bytes for each in batches(stored)) == len(stored)
    assert values(stored)[-1] == b"two"


class TestRefused:
    def test_wrong_crc(self, wire: Wire, topic: str) -> None:
        data = batch(b"value")
        data[-1] ^= 0x01
        assert_refused(wire, topic, data, ErrorCode.corrupt_message)

    @pytest.mark.parametrize("magic", [3, 127, -1])
    def test_unknown_magic(self, wire: Wire, topic: str, magic: int) -> None:
        data = batch(b"value")
        struct.pack_into(">b", data, 16, magic)
        assert_refused(
            wire, topic, reseal(data), ErrorCode.corrupt_message, ErrorCode.invalid_record,
            ErrorCode.unsupported_for_message_format,
        )  # fmt: skip

    @pytest.mark.parametrize("magic", [0, 1])
    def test_old_magic(self, wire: Wire, topic: str, magic: int) -> None:
        data = batch(b"value")
        struct.pack_into(">b", data, 16, magic)
        assert_refused(
            wire, topic, data, ErrorCode.unsupported_for_message_format, ErrorCode.invalid_record,
            ErrorCode.corrupt_message,
        )  # fmt: skip

    @pytest.mark.parametrize("cut", [1, 10, 40, 65])
    def test_truncated_batch(self, wire: Wire, topic: str, cut: int) -> None:
        data = batch(b"value")
        assert_refused(wire, topic, data[:-cut], ErrorCode.corrupt_message, ErrorCode.invalid_record)

    @pytest.mark.parametrize("length", [-1, 0, 10, 48, 2**30])
    def test_wrong_batch_length(self, wire: Wire, topic: str, length: int) -> None:
        data = batch(b"value")
        struct.pack_into(">i", data, 8, length)
        assert_refused(wire, topic, data, ErrorCode.corrupt_message, ErrorCode.invalid_record)

    def test_two_batches_for_one_partition(self, wire: Wire, topic: str) -> None:
        assert_refused(wire, topic, batch(b"one") + batch(b"two"), ErrorCode.invalid_record)

    def test_no_records_at_all(self, wire: Wire, topic: str) -> None:
        assert_refused(wire, topic, b"", ErrorCode.invalid_record, ErrorCode.corrupt_message)

    @pytest.mark.parametrize("count", [0, 2, -1, 1_000_000])
    def test_count_that_does_not_fit(self, wire: Wire, topic: str, count: int) -> None:
        data = batch(b"value")
        struct.pack_into(">i", data, 57, count)
        assert_refused(wire, topic, reseal(data), ErrorCode.invalid_record, ErrorCode.corrupt_message)

    @pytest.mark.parametrize("delta", [-1, 1, 7, 2**31 - 1])
    def test_last_offset_delta_that_does_not_fit(self, wire: Wire, topic: str, delta: int) -> None:
        data = batch(b"value")
        struct.pack_into(">i", data, 23, delta)
        assert_refused(wire, topic, reseal(data), ErrorCode.invalid_record, ErrorCode.corrupt_message)

    def test_control_batch(self, wire: Wire, topic: str) -> None:
        data = batch(b"value")
        struct.pack_into(">h", data, 21, 0x20)
        assert_refused(wire, topic, reseal(data), ErrorCode.invalid_record)

    @pytest.mark.parametrize("codec", [5, 6, 7])
    def test_unknown_codec(self, wire: Wire, topic: str, codec: int) -> None:
        data = batch(b"value")
        struct.pack_into(">h", data, 21, codec)
        assert_refused(
            wire, topic, reseal(data), ErrorCode.corrupt_message, ErrorCode.invalid_record,
            ErrorCode.unsupported_compression_type, ErrorCode.unknown_server_error,
        )  # fmt: skip

    def test_unknown_topic(self, wire: Wire) -> None:
        answer = calls.produce(wire, "no-such-topic", bytes(batch(b"x")))
        assert answer.error_code is ErrorCode.unknown_topic_or_partition
        assert calls.metadata(wire, "no-such-topic").error_code is ErrorCode.unknown_topic_or_partition

    @pytest.mark.parametrize("partition", [1, -1, 2**31 - 1])
    def test_unknown_partition(self, wire: Wire, topic: str, partition: int) -> None:
        answer = calls.produce(wire, topic, bytes(batch(b"x")), partition=partition)
        assert answer.error_code is ErrorCode.unknown_topic_or_partition

    def test_null_key_in_a_compacted_topic(self, wire: Wire, create_topic: CreateTopic) -> None:
        topic = create_topic(cleanup_policy="compact")
        assert_refused(wire, topic, batch(b"no key"), ErrorCode.invalid_record)
        assert calls.produce(wire, topic, bytes(batch(b"v", keys=[b"k"]))).error_code is ErrorCode.none


def test_topic_compression_setting_recompresses(wire: Wire, create_topic: CreateTopic) -> None:
    topic = create_topic(compression_type="gzip")
    sent = [b"plain" * 100, b"text" * 100]
    calls.produce(wire, topic, bytes(batch(*sent)))
    calls.produce(wire, topic, bytes(batch(*sent, codec="zstd")))
    stored = calls.fetch(wire, topic, 0).records
    assert [each.attributes & 7 for each in batches(stored)] == [1, 1]
    assert values(stored) == sent * 2


def test_topic_compression_setting_uncompressed(wire: Wire, create_topic: CreateTopic) -> None:
    topic = create_topic(compression_type="uncompressed")
    sent = [b"plain" * 100, b"text" * 100]
    calls.produce(wire, topic, bytes(batch(*sent, codec="lz4")))
    stored = calls.fetch(wire, topic, 0).records
    assert [each.attributes & 7 for each in batches(stored)] == [0]
    assert values(stored) == sent
