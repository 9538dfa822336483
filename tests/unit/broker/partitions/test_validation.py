"""What may enter a log: every refusal with the code that Kafka's clients expect."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interop.records import CODECS, reseal
from tidelog.broker.partitions.validation import (
    AppendRules,
    MustOpen,
    check_batch,
    check_opened,
    recompressed,
)
from tidelog.config import BrokerConfig, TopicConfig
from tidelog.errors import ErrorCode, TidelogError
from tidelog.protocol import batch as batches
from tidelog.protocol.records import Record, decode_batch, encode_batch
from unit.broker.fakes import NOW_MS, records

VERSION = 9
HOUR_MS = 3_600_000


def rules(**overrides: object) -> AppendRules:
    values = {name.replace("_", "."): str(value) for name, value in overrides.items()}
    return AppendRules.of(TopicConfig.resolve(values, BrokerConfig.parse({})))


PLAIN = rules()


def check(data: bytes | bytearray, given: AppendRules = PLAIN, version: int = VERSION) -> Any:
    return check_batch(memoryview(bytearray(data)), given, NOW_MS, version)


def refused(data: bytes | bytearray, given: AppendRules = PLAIN, version: int = VERSION) -> ErrorCode:
    with pytest.raises(TidelogError) as refusal:
        check(data, given, version)
    assert refusal.value.message
    return refusal.value.code


def changed(at: int, value: bytes) -> bytearray:
    """A batch of two records with other bytes at a place of its header, and a CRC that fits."""
    data = bytearray(records(b"a", b"b"))
    data[at : at + len(value)] = value
    return reseal(data)


class TestForm:
    @pytest.mark.parametrize("codec", CODECS)
    def test_a_valid_batch(self, codec: str) -> None:
        header = check(records(b"a", b"b", codec=codec))
        assert (header.count, header.last_offset_delta, header.codec) == (2, 1, CODECS[codec])

    @pytest.mark.parametrize("codec", ["gzip", "lz4", "zstd"])
    def test_records_that_are_not_compressed_as_the_header_says(self, codec: str) -> None:
        plain = changed(22, bytes([CODECS[codec]]))
        assert refused(plain) is ErrorCode.INVALID_RECORD
        other = bytearray(records(b"a" * 50, codec="gzip" if codec == "zstd" else "zstd"))
        other[22] = CODECS[codec]
        assert refused(reseal(other)) is ErrorCode.INVALID_RECORD

    def test_nothing_at_all(self) -> None:
        """Not a damaged batch: the client must not send it again."""
        assert refused(b"") is ErrorCode.INVALID_RECORD

    @pytest.mark.parametrize("size", [1, 16, 17, 60])
    def test_less_than_a_header(self, size: int) -> None:
        assert refused(records(b"a")[:size]) is ErrorCode.CORRUPT_MESSAGE

    def test_cut_at_every_byte(self) -> None:
        data = records(b"abc", b"defg")
        for cut in range(1, len(data)):
            assert refused(data[:cut]) is ErrorCode.CORRUPT_MESSAGE

    @pytest.mark.slow
    @given(data=st.data())
    def test_any_bit_flipped(self, data: st.DataObject) -> None:
        """Of all that the CRC covers; the fields in front of it are the broker's to write."""
        broken = bytearray(records(b"abc", b"defg"))
        at = data.draw(st.integers(16, len(broken) - 1))
        broken[at] ^= 1 << data.draw(st.integers(0, 7))
        assert refused(broken) in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD)

    @pytest.mark.parametrize("magic", [0, 1, 3, 255])
    def test_other_formats(self, magic: int) -> None:
        assert refused(changed(16, bytes([magic]))) is ErrorCode.INVALID_RECORD

    @pytest.mark.parametrize("length", [-1, 0, 48, 1 << 30, -(1 << 31)])
    def test_false_lengths(self, length: int) -> None:
        data = changed(8, length.to_bytes(4, "big", signed=True))
        assert refused(data) is ErrorCode.CORRUPT_MESSAGE

    def test_two_batches(self) -> None:
        assert refused(records(b"a") + records(b"b")) is ErrorCode.INVALID_RECORD

    def test_something_behind_the_batch(self) -> None:
        assert refused(records(b"a") + b"x") is ErrorCode.INVALID_RECORD

    @pytest.mark.parametrize(
        ("last_offset_delta", "count"), [(0, 2), (2, 2), (-1, 0), (1, 0), (1, -1), (1, 3), (-5, -4)]
    )
    def test_false_counts(self, last_offset_delta: int, count: int) -> None:
        data = changed(23, last_offset_delta.to_bytes(4, "big", signed=True))
        data[57:61] = count.to_bytes(4, "big", signed=True)
        assert refused(reseal(data)) is ErrorCode.INVALID_RECORD

    def test_control_records_are_the_brokers_own(self) -> None:
        assert refused(changed(21, b"\x00\x20")) is ErrorCode.INVALID_RECORD

    @pytest.mark.parametrize("codec", [5, 6, 7])
    def test_unknown_codecs(self, codec: int) -> None:
        assert refused(changed(21, bytes([0, codec]))) is ErrorCode.INVALID_RECORD

    def test_zstd_needs_a_client_that_knows_it(self) -> None:
        data = records(b"a", codec="zstd")
        assert refused(data, version=6) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        check(data, version=7)


class TestSize:
    def test_the_limit_counts_the_whole_batch(self) -> None:
        data = records(b"x" * 100)
        check(data, rules(max_message_bytes=len(data)))
        assert refused(data, rules(max_message_bytes=len(data) - 1)) is ErrorCode.MESSAGE_TOO_LARGE

    def test_a_batch_that_is_too_large_when_recompressed(self) -> None:
        """A few bytes of gzip can be megabytes: what is stored must fit the limit, too."""
        data = records(b"x" * 100_000, codec="gzip")
        limited = rules(max_message_bytes=5000, compression_type="uncompressed")
        assert len(data) < 5000
        check(data, limited)
        with pytest.raises(TidelogError) as refusal:
            recompressed(memoryview(bytearray(data)), batches.parse_header(data), limited)
        assert refusal.value.code is ErrorCode.MESSAGE_TOO_LARGE


class TestTimestamps:
    @pytest.mark.parametrize("ahead_ms", [-(10**12), 0, HOUR_MS])
    def test_within_the_limits(self, ahead_ms: int) -> None:
        check(records(b"a", at_ms=NOW_MS + ahead_ms))

    def test_too_far_ahead(self) -> None:
        assert refused(records(b"a", at_ms=NOW_MS + HOUR_MS + 1)) is ErrorCode.INVALID_TIMESTAMP

    def test_too_long_ago(self) -> None:
        limited = rules(message_timestamp_before_max_ms=1000)
        check(records(b"a", at_ms=NOW_MS - 1000), limited)
        assert refused(records(b"a", at_ms=NOW_MS - 1001), limited) is ErrorCode.INVALID_TIMESTAMP

    @pytest.mark.parametrize("codec", ["gzip", "zstd"])
    def test_a_compressed_batch_is_opened_before_it_is_refused(self, codec: str) -> None:
        """In a thread: it may expand to any size."""
        data = memoryview(bytearray(records(b"a", at_ms=NOW_MS + HOUR_MS + 1, codec=codec)))
        with pytest.raises(MustOpen):
            check_batch(data, PLAIN, NOW_MS, VERSION)
        found = check_opened(data, PLAIN, NOW_MS, VERSION, lambda: None)
        assert isinstance(found, TidelogError)
        assert (found.code, [each.number for each in found.records]) == (ErrorCode.INVALID_TIMESTAMP, [0])

    def test_a_header_alone_that_is_too_far_ahead_is_corrected(self) -> None:
        data = bytearray(records(b"a", codec="gzip"))
        data[35:43] = (NOW_MS + 2 * HOUR_MS).to_bytes(8, "big")
        found = check_opened(memoryview(reseal(data)), PLAIN, NOW_MS, VERSION, lambda: None)
        assert not isinstance(found, TidelogError)
        assert found.header.max_timestamp == NOW_MS

    def test_an_old_record_beside_one_without_a_timestamp(self) -> None:
        limited = rules(message_timestamp_before_max_ms=1000)
        rows = [
            Record(0, -1, None, b"a"),
            Record(1, NOW_MS - 1001, None, b"b"),
            Record(2, NOW_MS, None, b"c"),
        ]
        with pytest.raises(TidelogError) as refusal:
            check(encode_batch(rows), limited)
        assert [each.number for each in refusal.value.records] == [1]

    def test_no_timestamp_is_no_old_one(self) -> None:
        check(records(b"a", at_ms=-1), rules(message_timestamp_before_max_ms=1000))

    def test_producers_may_not_stamp_for_the_broker(self) -> None:
        assert refused(changed(21, b"\x00\x08")) is ErrorCode.INVALID_TIMESTAMP

    def test_where_the_broker_stamps_the_producers_times_do_not_matter(self) -> None:
        stamped = rules(message_timestamp_type="LogAppendTime", message_timestamp_before_max_ms=0)
        check(records(b"a", at_ms=NOW_MS + 10 * HOUR_MS), stamped)
        check(records(b"a", at_ms=5), stamped)


class TestKeys:
    compacted = rules(cleanup_policy="compact")

    @pytest.mark.parametrize("codec", CODECS)
    def test_a_compacted_topic_needs_keys(self, codec: str) -> None:
        check(records(b"a", keys=[b"k"], codec=codec), self.compacted)
        check(records(b"a", keys=[b""], codec=codec), self.compacted)
        assert refused(records(b"a", b"b", keys=[b"k", None], codec=codec), self.compacted) is (
            ErrorCode.INVALID_RECORD
        )

    @pytest.mark.parametrize("codec", CODECS)
    def test_every_record_without_a_key_is_named(self, codec: str) -> None:
        keys = [None if number % 10 == 3 else b"k" for number in range(100)]
        data = memoryview(bytearray(records(*[b"v"] * 100, keys=keys, codec=codec)))
        found = check_opened(data, self.compacted, NOW_MS, VERSION, lambda: None)
        assert isinstance(found, TidelogError)
        assert [each.number for each in found.records] == list(range(3, 100, 10))
        assert {each.message for each in found.records} == {"a compacted topic needs a key"}

    def test_the_producers_times_do_not_matter_where_the_broker_stamps(self) -> None:
        stamped = rules(cleanup_policy="compact", message_timestamp_type="LogAppendTime")
        rows = [Record(0, NOW_MS + 9 * HOUR_MS, b"k", b"a"), Record(1, NOW_MS, None, b"b")]
        with pytest.raises(TidelogError) as refusal:
            check(encode_batch(rows), stamped)
        assert refusal.value.code is ErrorCode.INVALID_RECORD
        assert [each.number for each in refusal.value.records] == [1]

    def test_also_with_retention(self) -> None:
        assert refused(records(b"a"), rules(cleanup_policy="compact,delete")) is ErrorCode.INVALID_RECORD

    def test_a_payload_that_is_no_gzip(self) -> None:
        data = bytearray(records(b"a", keys=[b"k"], codec="gzip"))
        data[61:] = b"\xff" * (len(data) - 61)
        assert refused(reseal(data), self.compacted) in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD)


class TestRules:
    def test_defaults(self) -> None:
        size_max = (1 << 20) + 12
        wanted = AppendRules(size_max, 1 << 30, False, (1 << 63) - 1, HOUR_MS, -1, False, size_max=size_max)
        assert wanted == PLAIN

    @pytest.mark.parametrize(("name", "codec"), [("producer", -1), ("uncompressed", 0), ("zstd", 4)])
    def test_codecs(self, name: str, codec: int) -> None:
        assert rules(compression_type=name).codec == codec


@pytest.mark.parametrize("source", CODECS)
@pytest.mark.parametrize("target", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_recompression_keeps_the_records(source: str, target: str) -> None:
    data = records(b"a" * 50, b"b" * 50, keys=[b"k", None], codec=source)
    wanted = rules(compression_type=target)
    found = recompressed(memoryview(bytearray(data)), batches.parse_header(data), wanted)
    assert batches.check(found).codec == wanted.codec
    assert list(decode_batch(found)) == list(decode_batch(data))
