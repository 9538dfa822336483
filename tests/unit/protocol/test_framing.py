"""What a header says of its records: true batches pass, and no lie that the broker looks for does."""

import mmap
import struct
from collections.abc import Callable
from functools import cache

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AioBuilder
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatchBuilder as PythonBuilder

from tidelog.errors import CorruptBatch, ErrorCode
from tidelog.protocol import batch as batches
from tidelog.protocol import framing
from tidelog.protocol.batch import HEADER_SIZE, BatchHeader
from tidelog.protocol.codecs import Codec, compress
from tidelog.protocol.records import Record, append_varint, encode_batch, read_varint, validate_records

NOW_MS = 1_700_000_000_000
ENDLESS = 1 << 60
Group = tuple[int, int | None, int | None, int, tuple[tuple[str, bytes | None], ...]]

small = st.none() | st.binary(max_size=12)
headers = st.lists(st.tuples(st.text(max_size=4), small), max_size=2).map(tuple)
groups = st.lists(
    st.tuples(
        st.integers(1, 90),  # so many records
        st.none() | st.integers(0, 70),  # bytes of the key
        st.none() | st.sampled_from([0, 1, 40, 60, 100, 127, 128, 300]),  # bytes of the value
        st.sampled_from([0, 0, 1, 3, -1]),  # milliseconds from record to record
        headers,
    ),
    min_size=1,
    max_size=4,
)


def of_groups(
    drawn: list[Group],
) -> bytearray:
    """Stretches of records with the same lengths, as producers write them."""
    records: list[Record] = []
    now_ms = NOW_MS
    for count, key, value, step_ms, more in drawn:
        for _ in range(count):
            number = len(records)
            records.append(
                Record(
                    number,
                    now_ms,
                    None if key is None else (b"%d" % number).rjust(key, b"k")[:key],
                    None if value is None else (b"%d" % number).rjust(value, b"v")[:value],
                    more,
                )
            )
            now_ms += step_ms
    return encode_batch(records)


def of_sizes(count: int, *sizes: int) -> bytearray:
    """Records whose values have these sizes, in turn."""
    return bytearray(_of_sizes(count, sizes))


@cache
def _of_sizes(count: int, sizes: tuple[int, ...]) -> bytes:
    records = [Record(n, NOW_MS, None, b"v" * sizes[n % len(sizes)]) for n in range(count)]
    return bytes(encode_batch(records))


def agrees(batch: bytearray | bytes) -> bool:
    """As it comes from a connection: within a larger buffer."""
    whole = bytearray(7) + batch + b"\x00\x00\x00"
    return framing.agrees(memoryview(whole)[7:-3], batches.check(bytes(batch)))


def lengths_lead_to_the_end(batch: bytearray) -> bool:
    """The chain of lengths, followed one by one."""
    header = batches.parse_header(batch)
    data, position = bytes(batch[HEADER_SIZE:]), 0
    try:
        for _ in range(header.count):
            size, position = read_varint(data, position)
            if size < 0:
                return False
            position += size
    except (IndexError, CorruptBatch):
        return False
    return position == len(data)


def resealed(batch: bytearray) -> bytearray:
    batches.write_crc(batch, 0, len(batch))
    return batch


def with_counts(batch: bytearray, count: int) -> bytearray:
    struct.pack_into(">i", batch, 57, count)
    struct.pack_into(">i", batch, 23, count - 1)
    return resealed(batch)


def forget_what_was_learned(patch: pytest.MonkeyPatch) -> None:
    """Another batch must not decide how this one is looked at."""
    patch.setattr(framing, "_layouts", {})
    patch.setattr(framing, "_ones", {})


def look_at_everything(patch: pytest.MonkeyPatch) -> None:
    for limit in ("STEPS", "STEPS_MAX", "WHOLE_MAX", "FOLLOWED_MAX"):
        patch.setattr(framing, limit, ENDLESS)


@pytest.fixture(params=[framing.STEPS, ENDLESS], ids=["in passing", "everything"])
def steps(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    if request.param == ENDLESS:
        look_at_everything(monkeypatch)
    return int(request.param)


class TestTrueBatches:
    @settings(deadline=None)
    @given(drawn=groups)
    def test_of_any_lengths(self, drawn: list[Group]) -> None:
        assert agrees(of_groups(drawn))

    @pytest.mark.parametrize("builder", [AioBuilder, PythonBuilder])
    @pytest.mark.parametrize("size", [0, 1, 50, 58, 60, 64, 120, 1000, 10_000])
    @pytest.mark.parametrize("count", [1, 2, 3, 63, 64, 65, 300])
    def test_of_clients(self, builder: type[AioBuilder], size: int, count: int) -> None:
        made = builder(2, 0, False, -1, -1, -1, 1 << 30)
        for number in range(count):
            assert made.append(number, NOW_MS + number // 7, b"key", b"v" * size, [("h", b"x")])
        assert agrees(bytearray(made.build()))

    @pytest.mark.parametrize("count", [8191, 8192, 8193, 8200, 20_000])
    @pytest.mark.parametrize("step_ms", [0.0, 0.001, 0.01, 0.1, 1.0])
    @pytest.mark.slow
    def test_of_many_records(self, steps: int, count: int, step_ms: float) -> None:
        assert agrees(
            encode_batch([Record(n, NOW_MS + int(n * step_ms), None, b"v" * 10) for n in range(count)])
        )

    @pytest.mark.parametrize("make", [bytearray, bytes, lambda data: data])
    def test_in_any_kind_of_memory(self, make: type) -> None:
        batch = encode_batch([Record(n, NOW_MS, None, b"v" * 1000) for n in range(100)])
        header = batches.check(batch)
        assert framing.agrees(memoryview(make(batch)), header)
        with mmap.mmap(-1, len(batch) + 100) as memory:
            memory[50 : 50 + len(batch)] = bytes(batch)
            view = memoryview(memory)
            assert framing.agrees(view[50 : 50 + len(batch)], header)
            assert not framing.agrees(view[51 : 51 + len(batch)], header)
            view.release()


class TestLies:
    @pytest.mark.slow
    @settings(deadline=None, max_examples=300)
    @given(drawn=groups, data=st.data())
    def test_any_byte_changed(self, drawn: list[Group], data: st.DataObject) -> None:
        """The quick look never takes what opening every record refuses, as far as it looks; and it never
        takes lengths that do not lead to the end, where it follows them.
        """
        batch = of_groups(drawn)
        for _ in range(data.draw(st.integers(1, 3))):
            at = data.draw(st.integers(HEADER_SIZE, len(batch) - 1))
            batch[at] = data.draw(st.integers(0, 255))
        resealed(batch)
        with pytest.MonkeyPatch.context() as patch:
            forget_what_was_learned(patch)
            patch.setattr(framing, "FOLLOWED_MAX", ENDLESS)
            patch.setattr(framing, "WHOLE_MAX", ENDLESS)
            if agrees(batch):
                assert lengths_lead_to_the_end(batch)
        with pytest.MonkeyPatch.context() as patch:
            look_at_everything(patch)
            if agrees(batch):
                assert validate_records(batch).max_timestamp == batches.parse_header(batch).max_timestamp

    @pytest.mark.slow
    def test_each_byte_of_the_framing_changed(self, steps: int) -> None:
        """Of a run, whose first and last records alone are never opened."""
        records = [Record(n, NOW_MS + n // 60, b"k%04d" % n, b"v" * 80, (("h", b"x"),)) for n in range(200)]
        good = encode_batch(records)
        assert agrees(good)
        stride = (len(good) - HEADER_SIZE) // 200
        begin = len(good) - 60 * stride
        for at in range(begin, begin + stride):
            for bit in (0, 1, 6, 7):
                bad = bytearray(good)
                bad[at] ^= 1 << bit
                resealed(bad)
                try:
                    true = validate_records(bad).max_timestamp == batches.parse_header(bad).max_timestamp
                except CorruptBatch:
                    true = False
                assert agrees(bad) == true, (at - begin, bit)

    @pytest.mark.parametrize("sizes", [[100], [99, 100, 101], [5, 6]])
    @pytest.mark.parametrize("count", [1, 2, 5, 100, 5000])
    @pytest.mark.parametrize("wrong_by", [-1, 1, 1 << 20])
    def test_another_number_of_records(self, steps: int, sizes: list[int], count: int, wrong_by: int) -> None:
        batch = of_sizes(count, *sizes)
        assert agrees(batch)
        if count + wrong_by > 0:
            assert not agrees(with_counts(batch, count + wrong_by))

    @pytest.mark.parametrize("size", [1, 40, 1000, 100_000])
    @pytest.mark.parametrize("byte", [0xFF, 0x00, 0x7F, 0x80, 0x01])
    @pytest.mark.parametrize("count", [1, 2, 7, 1000, 2**31 - 1])
    def test_a_body_of_one_byte(self, steps: int, size: int, byte: int, count: int) -> None:
        batch = batches.build(
            bytes([byte]) * size,
            base_offset=0,
            last_offset_delta=count - 1,
            count=count,
            base_timestamp=NOW_MS,
            max_timestamp=NOW_MS,
        )
        assert not agrees(batch)
        with pytest.raises(CorruptBatch) as refusal:
            validate_records(batch)
        assert refusal.value.code is ErrorCode.INVALID_RECORD

    @pytest.mark.parametrize("sizes", [[100], [99, 100, 101]])
    @pytest.mark.parametrize("lie_ms", [-1, 1, -(1 << 40), 1 << 40])
    def test_another_largest_timestamp(self, sizes: list[int], lie_ms: int) -> None:
        """Of a batch that is followed as a chain, the last record's would have to be larger."""
        batch = encode_batch([Record(n, NOW_MS + n, None, b"v" * sizes[n % len(sizes)]) for n in range(100)])
        assert agrees(batch)
        struct.pack_into(">q", batch, 35, NOW_MS + 99 + lie_ms)
        if len(sizes) == 1 or lie_ms < 0:
            assert not agrees(resealed(batch))

    @pytest.mark.parametrize("sizes", [[100], [99, 100, 101]])
    @pytest.mark.parametrize("count", [300, 9000])
    @pytest.mark.parametrize("which", [0, -1])
    def test_first_and_last_of_many(self, sizes: list[int], count: int, which: int) -> None:
        """They are looked at in batches of any size: each byte of their framing."""
        records = [Record(n, NOW_MS, None, b"v" * sizes[n % len(sizes)]) for n in range(count)]
        good = encode_batch(records)
        own = len(encode_batch(records[which:][:1])) - HEADER_SIZE
        begin = HEADER_SIZE if which == 0 else good.rindex(b"v\x00", 0, -2) + 2
        framing_bytes = good[begin : begin + own].index(b"v")
        attributes = 2
        for at in [place for place in range(framing_bytes) if place != attributes]:
            bad = bytearray(good)
            bad[begin + at] ^= 2
            assert not agrees(resealed(bad)), at

    def test_everything_between_is_sampled(self) -> None:
        """A stretch of rubbish is met, wherever it lies."""
        good = encode_batch([Record(n, NOW_MS, None, b"v" * 100) for n in range(9000)])
        for begin in range(HEADER_SIZE, len(good) - 80_000, 30_000):
            bad = bytearray(good)
            bad[begin : begin + 80_000] = b"\xff" * 80_000
            assert not agrees(resealed(bad)), begin

    @pytest.mark.parametrize("sizes", [[0], [0, 1], [0] * 40 + [1] * 40, [0, 0, 0, 1]])
    @pytest.mark.slow
    def test_few_records_are_looked_at_whatever_comes(
        self, monkeypatch: pytest.MonkeyPatch, sizes: list[int]
    ) -> None:
        """A batch that was made to cost much costs little: this is done on the event loop."""
        looks = 0

        def counted(look: Callable[..., object]) -> Callable[..., object]:
            def call(*given: object) -> object:
                nonlocal looks
                looks += 1
                return look(*given)

            return call

        count = 100_000
        batch = encode_batch([Record(n, NOW_MS, None, b"v" * sizes[n % len(sizes)]) for n in range(count)])
        for name in ("outline", "_compare"):
            monkeypatch.setattr(framing, name, counted(getattr(framing, name)))
        assert agrees(batch)
        assert not agrees(with_counts(batch, count - 1))
        assert looks < 400

    def test_a_timestamp_out_of_order_has_all_looked_at(self) -> None:
        """The largest may be anywhere then."""
        times = [n * 7 % 50 for n in range(5000)]
        batch = encode_batch([Record(n, NOW_MS + ms, None, b"v" * 100) for n, ms in enumerate(times)])
        assert agrees(batch)
        struct.pack_into(">q", batch, 35, batches.parse_header(batch).max_timestamp - 1)
        assert not agrees(resealed(batch))

    @pytest.mark.parametrize("size", [2, 3])
    def test_offset_deltas_written_with_more_bytes_than_they_need(self, steps: int, size: int) -> None:
        """They count, but must not be mistaken for the start of the key."""
        payload = bytearray()
        for index in range(20):
            delta = bytearray([2 * index | 0x80] + [0x80] * (size - 2) + [0])
            body = b"\x00\x00" + delta + b"\x01\x14" + b"v" * 10 + b"\x00"
            append_varint(payload, len(body))
            payload += body
        fields = {"base_offset": 0, "base_timestamp": NOW_MS, "max_timestamp": NOW_MS}
        batch = batches.build(payload, last_offset_delta=19, count=20, **fields)
        assert validate_records(batch)
        wrong = bytearray(batch)
        at = wrong.index(b"\x86" + b"\x80" * (size - 2) + b"\x00")
        wrong[at] = 0x88
        assert not agrees(resealed(wrong)) or steps == framing.STEPS


class TestCompressed:
    @pytest.mark.slow
    @pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
    def test_the_emptiest_records_there_are(self, codec: Codec) -> None:
        records = [Record(n, NOW_MS, None, None) for n in range(100_000)]
        assert framing.records_max(batches.check(encode_batch(records, codec=codec))) >= len(records)

    @pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
    def test_zeros_expand_less_than_is_allowed_for(self, codec: Codec) -> None:
        size = 64 << 20
        packed = len(compress(codec, bytes(size)))
        assert framing.records_max(_claim(codec, packed, 1)) >= size // framing.RECORD_BYTES_MIN

    @pytest.mark.slow
    @pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
    def test_more_than_can_be(self, codec: Codec) -> None:
        assert framing.records_max(_claim(codec, 40, 1)) < 200_000
        assert framing.records_max(_claim(codec, 1 << 30, 1)) < 20_000_000

    @pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
    def test_once_opened_as_any_other(self, codec: Codec) -> None:
        payload = bytes(encode_batch([Record(n, NOW_MS, None, b"v") for n in range(50)])[HEADER_SIZE:])
        assert framing.payload_agrees(payload, _claim(codec, 40, 50))
        assert not framing.payload_agrees(payload, _claim(codec, 40, 51))


def _claim(codec: Codec, packed_bytes: int, count: int) -> BatchHeader:
    fields = {"base_offset": 0, "base_timestamp": NOW_MS, "max_timestamp": NOW_MS, "attributes": int(codec)}
    return batches.parse_header(
        batches.build(bytes(packed_bytes), last_offset_delta=count - 1, count=count, **fields)
    )
