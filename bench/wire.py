"""The few Kafka frames that the sink and the raw client need, in versions that need no tagged fields.

Deliberately not Tidelog's own codec: a mistake there must not be able to hide behind the same mistake here.
Built once before the clock starts, so nothing in this module is on a measured path.
"""

from collections.abc import Iterable
from struct import Struct, pack, unpack_from

import crc32c

PRODUCE, FETCH, LIST_OFFSETS, METADATA, API_VERSIONS, DESCRIBE_CONFIGS = 0, 1, 2, 3, 18, 32
PRODUCE_VERSION, FETCH_VERSION, METADATA_VERSION = 7, 11, 4

NOT_READY_YET = (3, 5, 6)  # unknown topic or partition, leader not available, not leader

BATCH_HEADER = Struct(">qiibIhiqqqhii")
BATCH_HEADER_SIZE = 61
CRC_FROM = 21
LENGTH_PREFIX_SIZE = 12  # base offset and batch length come before the bytes that the length counts
RECORD_COUNT_AT = 57
PARTITION_ANSWER_SIZE = 4 + 2 + 8 + 8 + 8  # index, error, base offset, append time, start offset


def string(text: str | None) -> bytes:
    """A protocol string; ``None`` is the null string."""
    if text is None:
        return pack(">h", -1)
    raw = text.encode()
    return pack(">h", len(raw)) + raw


def array(items: Iterable[bytes]) -> bytes:
    parts = list(items)
    return pack(">i", len(parts)) + b"".join(parts)


def varint(value: int) -> bytes:
    """Zigzag varint, the integer inside a record."""
    bits = (value << 1) ^ (value >> 63)
    out = bytearray()
    while bits > 0x7F:
        out.append(bits & 0x7F | 0x80)
        bits >>= 7
    out.append(bits)
    return bytes(out)


def frame(payload: bytes) -> bytes:
    return pack(">i", len(payload)) + payload


def request(api_key: int, version: int, correlation_id: int, body: bytes) -> bytes:
    """A whole request frame with header version 1."""
    return frame(pack(">hhi", api_key, version, correlation_id) + string("bench") + body)


def record_batch(
    records: bytes, count: int, timestamp_ms: int, base_offset: int = 0, attributes: int = 0
) -> bytes:
    """A version 2 batch around ready ``records``, without a producer id; ``attributes`` tell the codec."""
    tail = pack(">hiqqqhii", attributes, count - 1, timestamp_ms, timestamp_ms, -1, -1, -1, count) + records
    length = BATCH_HEADER_SIZE - LENGTH_PREFIX_SIZE - (BATCH_HEADER_SIZE - CRC_FROM) + len(tail)
    return pack(">qiibI", base_offset, length, -1, 2, crc32c.crc32c(tail)) + tail


def records_of(value: bytes, count: int) -> bytes:
    """``count`` records without key and headers, all with the same value."""
    out = bytearray()
    value_part = varint(-1) + varint(len(value)) + value + varint(0)
    for delta in range(count):
        body = b"\x00" + varint(0) + varint(delta) + value_part
        out += varint(len(body)) + body
    return bytes(out)


def batch_of(value: bytes, count: int, timestamp_ms: int) -> bytes:
    return record_batch(records_of(value, count), count, timestamp_ms)


def produce_request(topic: str, partition: int, batch: bytes, acks: int, correlation_id: int = 0) -> bytes:
    return produce_request_to_many(topic, [partition], batch, acks, correlation_id)


def produce_request_to_many(
    topic: str, partitions: Iterable[int], batch: bytes, acks: int, correlation_id: int = 0
) -> bytes:
    """The same batch to each of these partitions."""
    data = array(pack(">ii", partition, len(batch)) + batch for partition in partitions)
    body = string(None) + pack(">hi", acks, 30_000) + array([string(topic) + data])
    return request(PRODUCE, PRODUCE_VERSION, correlation_id, body)


def produce_response(correlation_id: int, topic: str, partition: int, base_offset: int) -> bytes:
    answer = pack(">ihqqq", partition, 0, base_offset, -1, 0)
    return frame(pack(">i", correlation_id) + array([string(topic) + array([answer])]) + pack(">i", 0))


def end_offset(records: memoryview) -> int:
    """Exclusive end offset of the last whole batch; a fetch answer may end in the middle of one."""
    at, end = 0, -1
    while len(records) - at >= BATCH_HEADER_SIZE:
        base_offset, length, _, _, _, _, last_delta, *_ = BATCH_HEADER.unpack_from(records, at)
        at += LENGTH_PREFIX_SIZE + length
        if at > len(records):
            break
        end = base_offset + last_delta + 1
    return end


def produce_error(response: bytes) -> int:
    """The error code of the only partition in a produce answer, length prefix included."""
    topic_size = int.from_bytes(response[12:14], "big")
    error_at = 14 + topic_size + 4 + 4
    return int.from_bytes(response[error_at : error_at + 2], "big", signed=True)


def produce_errors(response: bytes) -> dict[int, int]:
    """The error code of every partition in a produce answer about one topic, length prefix included."""
    topic_size = int.from_bytes(response[12:14], "big")
    at = 14 + topic_size
    (count,) = unpack_from(">i", response, at)
    answers = (
        unpack_from(">ih", response, at + 4 + number * PARTITION_ANSWER_SIZE) for number in range(count)
    )
    return dict(answers)


def fetch_request(topic: str, partition: int, offset: int, max_bytes: int, correlation_id: int = 0) -> bytes:
    """A fetch outside any session that is answered at once with whatever is there."""
    wanted = pack(">iiqqi", partition, -1, offset, -1, max_bytes)
    body = pack(">iiiibii", -1, 500, 1, max_bytes, 0, 0, -1)
    body += array([string(topic) + array([wanted])]) + array([]) + string("")
    return request(FETCH, FETCH_VERSION, correlation_id, body)


def fetch_partition_head(
    correlation_id: int, topic: bytes, partition: int, high_watermark: int, records_size: int
) -> bytes:
    """Everything of a one-partition fetch answer that stands before its records, length prefix included."""
    head = pack(">iihi", correlation_id, 0, 0, 0)  # no throttling, no error, no session
    head += pack(">ih", 1, len(topic)) + topic
    head += pack(">iihqqqiii", 1, partition, 0, high_watermark, high_watermark, 0, -1, -1, records_size)
    return pack(">i", len(head) + records_size) + head


def fetch_records(response: bytes | memoryview) -> tuple[int, int, int]:
    """(error code, high watermark, size of the records) of a one-partition fetch answer, length prefix
    included.
    """
    at = 4 + 4 + 4 + 2 + 4 + 4  # length, correlation id, throttle time, error, session id, topic count
    at += 2 + int.from_bytes(response[at : at + 2], "big") + 4 + 4
    error = int.from_bytes(response[at : at + 2], "big", signed=True)
    high_watermark = int.from_bytes(response[at + 2 : at + 10], "big", signed=True)
    at += 2 + 8 + 8 + 8
    aborted = int.from_bytes(response[at : at + 4], "big", signed=True)
    at += 4 + 16 * max(aborted, 0) + 4
    return error, high_watermark, int.from_bytes(response[at : at + 4], "big", signed=True)


def list_offsets_request(topic: str, partitions: Iterable[int]) -> bytes:
    """The end of each."""
    wanted = array(pack(">iq", partition, -1) for partition in partitions)
    return request(LIST_OFFSETS, 1, 0, pack(">i", -1) + array([string(topic) + wanted]))


def describe_configs_request(topics: Iterable[str]) -> bytes:
    resources = array(b"\x02" + string(topic) + pack(">i", -1) for topic in topics)
    return request(DESCRIBE_CONFIGS, 1, 0, resources + b"\0")


def metadata_request(topic: str, create: bool = False) -> bytes:
    return request(METADATA, METADATA_VERSION, 0, array([string(topic)]) + pack(">?", create))


def metadata_response(
    correlation_id: int, host: str, port: int, topics: Iterable[str], partitions: int
) -> bytes:
    """One broker, number 1, that leads every partition of every topic that anyone asks for."""
    broker = pack(">i", 1) + string(host) + pack(">i", port) + string(None)
    only_me = array([pack(">i", 1)])
    partition_list = array(pack(">hii", 0, index, 1) + only_me + only_me for index in range(partitions))
    topic_list = array(pack(">h", 0) + string(topic) + b"\x00" + partition_list for topic in topics)
    head = pack(">ii", correlation_id, 0) + array([broker]) + string("bench") + pack(">i", 1)
    return frame(head + topic_list)


def api_versions_response(correlation_id: int, version: int) -> bytes:
    """The APIs above and nothing else, in the layout of ``version`` (3 has tagged fields, 0 has not)."""
    ranges = [
        (PRODUCE, PRODUCE_VERSION, PRODUCE_VERSION),
        (FETCH, FETCH_VERSION, FETCH_VERSION),
        (METADATA, METADATA_VERSION, METADATA_VERSION),
        (API_VERSIONS, 0, 3),
    ]
    if version >= 3:
        entries = b"".join(pack(">hhhb", *entry, 0) for entry in ranges)
        return frame(pack(">ihb", correlation_id, 0, len(ranges) + 1) + entries + pack(">ib", 0, 0))
    entries = array(pack(">hhh", *entry) for entry in ranges)
    throttle = pack(">i", 0) if version >= 1 else b""
    return frame(pack(">ih", correlation_id, 0) + entries + throttle)
