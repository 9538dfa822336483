"""Records: round trips, agreement with the clients' own encoders, and refusal of everything malformed."""

import random
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AioBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AioBuilder
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch as PythonBatch
from kafka.record.default_records import DefaultRecordBatchBuilder as PythonBuilder

from tidelog.errors import CorruptBatch, ErrorCode, InvariantViolation
from tidelog.protocol import batch as batches
from tidelog.protocol.codecs import Codec, compress
from tidelog.protocol.records import (
    ControlType,
    Record,
    append_varint,
    control_key,
    control_type,
    decode_batch,
    encode_batch,
    first_missing_key,
    has_null_key,
    recompress,
    scan,
    validate_records,
    varint_size,
)

maybe_bytes = st.none() | st.binary(max_size=40)
header_lists = st.lists(st.tuples(st.text(max_size=8), maybe_bytes), max_size=3).map(tuple)
timestamps = st.integers(0, 1 << 45)
payloads = st.tuples(timestamps, maybe_bytes, maybe_bytes, header_lists)
codecs = st.sampled_from(list(Codec))

# kafka-python reads snappy and zstd only with libraries that Tidelog has no other use for.
CLIENTS = [(AioBatch, AioBuilder, codec) for codec in Codec] + [
    (PythonBatch, PythonBuilder, codec) for codec in (Codec.NONE, Codec.GZIP, Codec.LZ4)
]
by_client = pytest.mark.parametrize(("read", "build", "codec"), CLIENTS)


@st.composite
def record_lists(draw: st.DrawFn, *, dense: bool = False) -> list[Record]:
    offset = draw(st.integers(0, 1 << 40))
    records = []
    for payload in draw(st.lists(payloads, min_size=1, max_size=8)):
        records.append(Record(offset, *payload))
        offset += 1 if dense else draw(st.integers(1, 1000))
    return records


def produced(codec: Codec = Codec.NONE) -> bytearray:
    records = [Record(i, 1_000 + i, b"k%d" % i, b"v" * i, (("h", b"x"), ("n", None))) for i in range(5)]
    return encode_batch(records, codec=codec)


class TestRoundTrip:
    @given(records=record_lists(), codec=codecs)
    def test_what_is_encoded_is_decoded(self, records: list[Record], codec: Codec) -> None:
        batch = encode_batch(records, codec=codec)
        assert list(decode_batch(batch)) == records
        assert list(decode_batch(memoryview(bytes(batch)))) == records

    @given(value=st.integers(-(1 << 63), (1 << 63) - 1))
    def test_numbers(self, value: int) -> None:
        encoded = bytearray()
        append_varint(encoded, value)
        assert len(encoded) == varint_size(value) <= 10
        record = Record(0, 0, None, None)
        later = Record(1, value, None, None)
        assert [found.timestamp for found in decode_batch(encode_batch([record, later]))] == [0, value]

    def test_header_keys_that_are_not_utf8_come_out_as_they_went_in(self) -> None:
        record = Record(0, 0, None, None, ((b"\xff\xfe".decode("utf-8", "surrogateescape"), b"x"),))
        batch = encode_batch([record])
        assert b"\xff\xfe" in batch
        assert encode_batch(list(decode_batch(batch))) == batch

    def test_offsets_must_ascend_and_there_must_be_some(self) -> None:
        twice = Record(4, 0, None, None)
        with pytest.raises(InvariantViolation):
            encode_batch([twice, twice])
        with pytest.raises(InvariantViolation):
            encode_batch([])

    def test_an_empty_batch_has_no_records_whatever_its_codec(self) -> None:
        header = batches.check(produced(Codec.ZSTD))
        assert list(decode_batch(batches.rebuild(header, b"", count=0))) == []

    def test_control_records(self) -> None:
        batch = encode_batch([Record(8, 0, control_key(ControlType.COMMIT), b"")], control=True)
        (record,) = decode_batch(batch)
        assert control_type(record.key) is ControlType.COMMIT
        assert control_type(b"\x00\x00\x00\x63") == 0x63
        for key in (None, b"\x00\x00\x00"):
            with pytest.raises(CorruptBatch):
                control_type(key)


class TestAgreementWithClients:
    @by_client
    @settings(max_examples=25)
    @given(records=st.lists(payloads, min_size=1, max_size=6))
    def test_we_read_what_they_write(self, read: type, build: type, codec: Codec, records: list[Any]) -> None:
        builder = build(2, int(codec), 0, 5, 1, 40, 1 << 20)
        for offset, (timestamp, key, value, headers) in enumerate(records):
            builder.append(offset, timestamp, key, value, list(headers))
        batch = bytes(builder.build())
        header = batches.check(batch)
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (5, 1, 40)
        assert list(decode_batch(batch)) == [Record(i, *payload) for i, payload in enumerate(records)]
        validate_records(batch)

    @by_client
    @settings(max_examples=25)
    @given(records=record_lists())
    def test_they_read_what_we_write(
        self, read: type, build: type, codec: Codec, records: list[Record]
    ) -> None:
        theirs = read(bytes(encode_batch(records, codec=codec)))
        assert theirs.validate_crc()
        found = [(r.offset, r.timestamp, r.key, r.value, tuple(map(tuple, r.headers))) for r in theirs]
        assert found == [tuple(record) for record in records]


class TestRecompress:
    @given(records=record_lists(), before=codecs, after=codecs)
    def test_only_the_codec_changes(self, records: list[Record], before: Codec, after: Codec) -> None:
        batch = encode_batch(
            records, codec=before, leader_epoch=3, producer_id=8, producer_epoch=2, base_sequence=1
        )
        changed = recompress(memoryview(batch), after)
        assert list(decode_batch(changed)) == records
        old, new = batches.check(batch), batches.check(changed)
        assert new.codec == after
        assert new._replace(length=0, crc=0, attributes=0) == old._replace(length=0, crc=0, attributes=0)

    def test_flags_beside_the_codec_stay(self) -> None:
        batch = encode_batch([Record(0, 0, b"k", b"v")], transactional=True)
        batches.set_append_time(batch, 0, len(batch), 99)
        header = batches.check(recompress(batch, Codec.GZIP))
        assert header.is_transactional
        assert header.is_log_append_time
        assert header.max_timestamp == 99

    def test_a_bomb_is_refused(self) -> None:
        batch = encode_batch([Record(0, 0, b"k", bytes(1 << 20))], codec=Codec.ZSTD)
        with pytest.raises(CorruptBatch, match="expand"):
            recompress(batch, Codec.NONE, limit=1 << 16)


class TestValidation:
    @pytest.mark.parametrize("codec", list(Codec))
    def test_a_good_batch_is_summed_up(self, codec: Codec) -> None:
        records = [Record(0, 50, b"a", None), Record(1, 20, None, b"x"), Record(2, 90, None, b"y")]
        summary = validate_records(encode_batch(records, codec=codec))
        assert (summary.min_timestamp, summary.max_timestamp, summary.first_missing_key) == (20, 90, 1)

    @given(records=record_lists(dense=True))
    def test_summary_agrees_with_the_records(self, records: list[Record]) -> None:
        batch = encode_batch(records)
        missing = [i for i, record in enumerate(records) if record.key is None]
        times = [record.timestamp for record in records]
        assert validate_records(batch) == (min(times), max(times), missing[0] if missing else None)
        assert first_missing_key(batch) == (missing[0] if missing else None)
        assert has_null_key(batch) is bool(missing)

    def test_gaps_between_offsets_are_refused(self) -> None:
        for offsets in ([0, 2], [0, 1, 3]):
            with pytest.raises(CorruptBatch) as caught:
                validate_records(encode_batch([Record(i, 0, b"k", b"v") for i in offsets]))
            assert caught.value.code is ErrorCode.INVALID_RECORD

    def test_inner_offsets_must_be_0_1_2(self) -> None:
        batch = bytearray(encode_batch([Record(i, 0, b"k", b"v") for i in (0, 2, 3)]))
        header = batches.parse_header(batch)._replace(last_offset_delta=2)
        with pytest.raises(CorruptBatch, match="record 1 of the batch has the offset delta 2"):
            validate_records(batches.rebuild(header, batch[batches.HEADER_SIZE :]))

    @pytest.mark.parametrize("claimed", [4, 6])
    @pytest.mark.parametrize("codec", list(Codec))
    def test_a_count_that_is_not_the_number_of_records_is_refused(self, claimed: int, codec: Codec) -> None:
        batch = produced(codec)
        header = batches.parse_header(batch)._replace(last_offset_delta=claimed - 1, count=claimed)
        lying = batches.rebuild(header, batch[batches.HEADER_SIZE :])
        batches.check(lying)
        with pytest.raises(CorruptBatch, match=r"left over|end inside"):
            validate_records(lying)

    def test_a_batch_without_records_is_no_producers_batch(self) -> None:
        header = batches.parse_header(produced())
        with pytest.raises(CorruptBatch):
            validate_records(batches.rebuild(header, b"", count=0))


class TestMalformed:
    """Every hole a hostile batch with a right CRC may have."""

    @pytest.mark.parametrize(
        ("payload", "reason"),
        [
            ("", "end inside a record"),
            ("7f", "claims -64 bytes"),
            ("80", "end inside a record"),
            ("ffffffffffffff01", "longer than 32 bits"),
            ("ffffffff7f", "longer than 32 bits"),
            ("7e00", "claims 63 bytes, 1 are there"),
            ("0c 00 00 00 03 01 00", "a key claims -2 bytes"),
            ("0c 00 00 00 20 01 00", "a key claims 16 bytes"),
            ("0c 00 00 00 01 03 00", "a value claims -2 bytes"),
            ("0c 00 00 00 01 20 00", "a value claims 16 bytes"),
            ("0c 00 00 00 01 01 01", "impossible number of headers: -1"),
            ("0c 00 00 00 01 01 7e", "impossible number of headers: 63"),
            ("0c 00 00 00 01 01 02", "end inside a record"),
            ("10 00 00 00 01 01 02 01 00", "a header's key claims -1 bytes"),
            ("10 00 00 00 01 01 02 10 00", "a header's key claims 8 bytes"),
            ("10 00 00 00 01 01 02 00 03", "a header's value claims -2 bytes"),
            ("10 00 00 00 01 01 02 00 10", "a header's value claims 8 bytes"),
            ("0e 00 00 00 01 01 00 00", "content ends -1 bytes from"),
            ("0a 00 00 00 01 01 00", "content ends \\+1 bytes from"),
            ("0c 00 00 00 01 01 00 aa", "1 bytes are left over after 1 records"),
        ],
    )
    def test_is_refused_in_words(self, payload: str, reason: str) -> None:
        with pytest.raises(CorruptBatch, match=reason) as caught:
            list(scan(bytes.fromhex(payload), 1))
        assert caught.value.code is ErrorCode.INVALID_RECORD

    def test_the_smallest_record_is_fine(self) -> None:
        (record,) = scan(bytes.fromhex("0c 00 00 00 01 01 00"), 1)
        assert (record.key_size, record.value_size, record.end) == (-1, -1, 7)

    @settings(max_examples=400)
    @given(seed=st.integers(0, 1 << 32), codec=codecs, changes=st.integers(1, 4))
    @pytest.mark.slow
    def test_mutated_records_under_a_right_crc(self, seed: int, codec: Codec, changes: int) -> None:
        chance = random.Random(seed)
        payload = produced()[batches.HEADER_SIZE :]
        for _ in range(changes):
            where = chance.randrange(len(payload) + 1)
            kind = chance.randrange(3)
            if kind == 0 and where < len(payload):
                payload[where] = chance.choice([0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)])
            elif kind == 1:
                payload[where:where] = chance.randbytes(chance.randrange(1, 6))
            else:
                del payload[where : where + chance.randrange(1, 6)]
        header = batches.parse_header(produced(codec))
        survives_only_a_refusal(batches.rebuild(header, compress(codec, payload)))

    @settings(max_examples=400)
    @given(
        position=st.integers(min_value=0),
        junk=st.binary(min_size=1, max_size=8),
        codec=codecs,
        reseal=st.booleans(),
    )
    @pytest.mark.slow
    def test_mutated_batches(self, position: int, junk: bytes, codec: Codec, reseal: bool) -> None:
        batch = produced(codec)
        position %= len(batch)
        batch[position : position + len(junk)] = junk
        if reseal and batches.parse_prefix(batch)[1] == len(batch):
            batches.write_crc(batch, 0, len(batch))
        survives_only_a_refusal(batch)

    @given(payload=st.binary(max_size=60), count=st.integers(0, 4), codec=codecs)
    def test_arbitrary_payloads(self, payload: bytes, count: int, codec: Codec) -> None:
        header = batches.parse_header(produced())._replace(count=count, attributes=int(codec))
        survives_only_a_refusal(batches.rebuild(header, payload))


def survives_only_a_refusal(batch: bytearray) -> None:
    for look in (
        lambda: list(decode_batch(batch, limit=1 << 20)),
        lambda: validate_records(batch, limit=1 << 20),
        lambda: recompress(batch, Codec.LZ4, limit=1 << 20) if batches.check(batch) else None,
        lambda: has_null_key(batch),
    ):
        try:
            look()
        except CorruptBatch:
            continue
