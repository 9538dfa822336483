"""The compiled loops against the decoder written in Python, on what is right and on what is not."""

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from tidelog.client.connection import PADDING_BYTES
from tidelog.client.messages import FetchedPartition
from tidelog.protocol import batch as layout
from tidelog.protocol.records import Record, encode_batch
from tidelog.spark.kernel import columns, native
from tidelog.spark.reading.batches import BatchDecoder, CorruptRecords
from tidelog.spark.reading.columns import default_schema
from tidelog.spark.reading.ranges import JoinedRanges, TopicRange, join, join_small, split

SCHEMA: pa.Schema = to_arrow_schema(default_schema({"includeHeaders": "true"}), timezone="UTC")
EVERYTHING = (0, 1 << 62)


def answer(data: bytes, aborted: Sequence[tuple[int, int]] = ()) -> FetchedPartition:
    """As the client hands it over: with room behind it."""
    room = bytearray(data) + bytes(PADDING_BYTES)
    return FetchedPartition(0, 0, 0, list(aborted), -1, memoryview(room)[: len(data)])


def decode(
    fetched: FetchedPartition, span: tuple[int, int] = EVERYTHING, *, check_crcs: bool = True
) -> list[Record]:
    decoder = BatchDecoder(SCHEMA, "orders", 3, *span, check_crcs)
    if decoder.outline(fetched) is None:
        return []
    return [record for batch in decoder.decode() for record in _records(batch)]


def _records(batch: pa.RecordBatch) -> Iterator[Record]:
    batch.validate(full=True)
    for row in batch.to_pylist():
        assert (row["topic"], row["partition"]) == ("orders", 3)
        headers = tuple((one["key"], one["value"]) for one in row["headers"] or ())
        ms = round(row["timestamp"].timestamp() * 1000)
        yield Record(row["offset"], ms, row["key"], row["value"], headers)


def some_records(chance: random.Random, count: int, base_offset: int = 0) -> list[Record]:
    def content() -> bytes | None:
        return chance.choice(
            [None, b"", chance.randbytes(chance.choice([1, 31, 32, 33, 64, 500, 513, 3000]))]
        )

    records = []
    offset = base_offset
    for _ in range(count):
        headers = tuple((f"h{n}ö", content()) for n in range(chance.choice([0, 0, 1, 3])))
        time_ms = chance.choice([0, 1_700_000_000_000, 1_700_000_000_000 + chance.randrange(1 << 40)])
        records.append(Record(offset, time_ms, content(), content(), headers))
        offset += chance.choice([1, 1, 1, 200, 70_000])  # compaction leaves gaps
    return records


@pytest.mark.parametrize("seed", range(20))
def test_what_comes_out_is_what_went_in(seed: int) -> None:
    chance = random.Random(seed)
    records: list[Record] = []
    data = b""
    for _ in range(chance.choice([1, 5, 30])):
        base = records[-1].offset + 1 if records else 10
        batch = some_records(chance, chance.choice([1, 2, 50]), base)
        codec = chance.choice([0, 0, 1, 2, 3, 4])
        data += encode_batch(batch, codec=codec)
        records += batch
    assert decode(answer(data)) == records
    # A fetch may end inside a batch, and a range inside another.
    assert decode(answer(data[: len(data) - 1])) == decode(answer(data))[: len(decode(answer(data[:-1])))]
    low, high = records[len(records) // 4].offset, records[-len(records) // 4].offset
    assert decode(answer(data), (low, high)) == [one for one in records if low <= one.offset < high]


def test_times_that_microseconds_cannot_hold_become_their_limits() -> None:
    """Of a producer that counts in nanoseconds."""
    limit = (2**63 - 1) // 1000
    given = {-1: -1, -(2**40): -(2**40), limit: limit, 1_790_000_000_000_000_000: limit, 2**63 - 1: limit}
    for time_ms, expected in given.items():
        decoder = BatchDecoder(SCHEMA, "orders", 3, *EVERYTHING, True)
        assert decoder.outline(answer(bytes(encode_batch([Record(0, time_ms, b"", b"", ())])))) == 1
        (batch,) = decoder.decode()
        assert batch.column("timestamp").cast(pa.int64()).to_pylist() == [expected * 1000]


@pytest.mark.parametrize("seed", range(8))
def test_damage_is_told_and_does_no_damage(seed: int) -> None:
    """Any bytes at all, with the CRC unchecked: rows or an error, and memory of others untouched."""
    chance = random.Random(seed)
    records = some_records(chance, 40)
    sound = bytes(encode_batch(records))
    refused = 0
    for _ in range(400):
        data = bytearray(sound)
        for _ in range(chance.choice([1, 1, 4])):
            data[chance.randrange(layout.HEADER_SIZE, len(data))] = chance.choice([0, 1, 0x7F, 0x80, 0xFF])
        if chance.random() < 0.2:  # a length that would overflow an address
            at = chance.randrange(layout.HEADER_SIZE, len(data) - 10)
            data[at : at + 10] = b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"
        if chance.random() < 0.2:  # a count that is a lie
            data[57:61] = chance.choice([b"\x7f\xff\xff\xff", b"\x00\x00\x00\x00", b"\xff\xff\xff\xff"])
        try:
            decoder = BatchDecoder(SCHEMA, "orders", 3, *EVERYTHING, False)
            if decoder.outline(answer(bytes(data))) is not None:
                list(decoder.decode())
        except CorruptRecords:
            refused += 1
    assert refused > 40


def test_the_crc_is_looked_at() -> None:
    data = bytearray(encode_batch([Record(7, 0, None, b"value")]))
    data[-2] ^= 1
    with pytest.raises(CorruptRecords, match="The batch at offset 7 of orders-3 is damaged: the CRC"):
        decode(answer(bytes(data)))
    assert decode(answer(bytes(data)), check_crcs=False)[0].value != b"value"


def test_a_compressed_lie_is_not_believed() -> None:
    batch = encode_batch([Record(0, 0, None, b"x" * 100_000)], codec=4)
    cut = bytes(batch[:-5])
    rebuilt = layout.rebuild(layout.parse_header(batch), cut[layout.HEADER_SIZE :])
    with pytest.raises(CorruptRecords, match="zstd"):
        decode(answer(bytes(rebuilt)))


def test_more_than_fits_together_comes_in_parts() -> None:
    data = b"".join(
        bytes(encode_batch([Record(n, 0, None, bytes([n % 251]) * 900_000)], codec=3)) for n in range(20)
    )
    decoder = BatchDecoder(SCHEMA, "orders", 3, *EVERYTHING, True)
    decoder.outline(answer(data))
    batches = list(decoder.decode())
    assert len(batches) > 3
    assert [row["value"] for batch in batches for row in batch.to_pylist()] == [
        bytes([n % 251]) * 900_000 for n in range(20)
    ]


def test_ranges_are_cut_evenly_and_wholly() -> None:
    ranges = [TopicRange("a", 0, 0, 1000), TopicRange("a", 1, 5, 5), TopicRange("b", 0, 10, 20)]
    assert split(ranges, None, None) == [ranges[0], ranges[2]]
    for pieces in (split(ranges, 10, None), split(ranges, None, 33), split(ranges, 50, 300)):
        for whole in (ranges[0], ranges[2]):
            parts = [one for one in pieces if (one.topic, one.partition) == (whole.topic, whole.partition)]
            assert [offset for one in parts for offset in range(one.start_offset, one.end_offset)] == list(
                range(whole.start_offset, whole.end_offset)
            )
    assert max(one.size for one in split(ranges, None, 33)) <= 33
    assert len(split(ranges, 10, None)) in (10, 11)


def test_many_small_ranges_share_tasks() -> None:
    small = [TopicRange("a", number, 0, 10 + number) for number in range(200)]
    large = [TopicRange("b", number, 0, 1_000_000) for number in range(3)]
    tasks = join_small([*small, *large], 8, 20_000)
    assert tasks[:3] == large and len(tasks) == 8
    joined = [task for task in tasks if isinstance(task, JoinedRanges)]
    assert sorted((one for task in joined for one in task.ranges), key=lambda one: one.partition) == small
    sizes = [sum(one.size for one in task.ranges) for task in joined]
    assert max(sizes) - min(sizes) <= small[-1].size
    # Not few enough to be slow, not small enough to be joined, or too much together for so few tasks.
    assert join_small(small[:8], 8, 20_000) == small[:8]
    assert join_small(large * 4, 8, 20_000) == large * 4
    assert len(join_small(small, 8, 500)) == -(-sum(one.size for one in small) // 500)


def test_no_more_tasks_than_wanted() -> None:
    ranges = [TopicRange("a", number, 0, 1_000_000 if number else 10) for number in range(7)]
    assert join(ranges, 7) == ranges
    tasks = join(ranges, 3)
    assert len(tasks) == 3
    assert sum(len(task.ranges) for task in tasks if isinstance(task, JoinedRanges)) == 7


def test_machine_code_is_kept_where_it_can_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A read-only install, as in a container: the next directory serves, and nothing is compiled twice."""
    columns._loops()  # there is machine code from now on
    made: dict[str, Any] = {"module": "tidelog.spark.kernel.loops", "names": ["pack"]}
    uses = ["tidelog.spark.kernel.slots", "tidelog.spark.kernel.machine"]
    sources = [native._source(one) for one in (made["module"], *uses)]
    name = f"loops-{native._fingerprint(sources)}.o"
    kept = (native._kept(one, name) for one in native._directories(sources[0].parent))
    code = next(one for one in kept if one is not None)
    compiled: list[str] = []

    def compile_once(module: str, names: Sequence[str]) -> bytes:
        compiled.append(module)
        return code

    blocked = tmp_path / "read-only"
    blocked.write_text("a file where a directory should be")
    places = [blocked / "__pycache__", tmp_path / "cache"]
    monkeypatch.setattr(native, "_compile", compile_once)
    monkeypatch.setattr(native, "_directories", lambda beside: iter(places))
    for _ in range(2):
        assert native.load("tidelog.spark.kernel.loops", ["pack"], uses)
    assert compiled == ["tidelog.spark.kernel.loops"]
    assert (tmp_path / "cache" / name).read_bytes() == code
