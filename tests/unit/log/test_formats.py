"""The bytes on disk, decoded here by hand: what Kafka's own tools expect to find."""

from contextlib import suppress
from struct import iter_unpack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.errors import CorruptBatch, StorageError
from tidelog.log import checkpoints, layout
from tidelog.protocol import batch as batches
from tidelog.sim.disk import SimulatedDisk
from tidelog.types import TopicPartition
from unit.log.log_model import Settings, append, append_many, make_batch, open_log


def read_raw(disk: SimulatedDisk, path: str) -> bytes:
    file = disk.open(path)
    return file.read_at(0, file.size())


def test_index_entries() -> None:
    disk = SimulatedDisk()
    log = open_log(disk, Settings(segment_bytes=4000, index_interval_bytes=250), log_start_offset=1000)
    for number, timestamp in enumerate([50, 40, 90, 10, 10, 80, 95, 20, 97, 1]):
        append(log, make_batch(1000 + number * 3, count=3, timestamp=timestamp))
    log.close()
    path = "t-0/00000000000000001000"
    data = read_raw(disk, path + ".log")
    # A batch gets an entry when more than 250 bytes lie between it and the last one that got one.
    entries = list(iter_unpack(">II", read_raw(disk, path + ".index")))
    assert entries == [(11, 300), (20, 600), (29, 900)]
    for relative_offset, position in entries:
        assert batches.parse_header(data, position).last_offset == 1000 + relative_offset
    # The largest timestamp so far, and the last offset of its batch; the last entry is the segment's largest.
    assert list(iter_unpack(">qI", read_raw(disk, path + ".timeindex"))) == [(90, 8), (95, 20), (97, 26)]


def test_the_last_time_index_entry_is_the_largest_even_between_entries() -> None:
    disk = SimulatedDisk()
    log = open_log(disk, Settings(segment_bytes=400, index_interval_bytes=10_000))
    for timestamp in (5, 9, 7, 3, 1):
        append(log, make_batch(log.end_offset, timestamp=timestamp))
    assert read_raw(disk, "t-0/00000000000000000000.index") == b""
    assert list(iter_unpack(">qI", read_raw(disk, "t-0/00000000000000000000.timeindex"))) == [(9, 1)]


@given(st.integers(0, 10**20 - 1))
def test_segment_names_are_twenty_digits_and_read_back(base_offset: int) -> None:
    path = layout.segment_path("dir", base_offset)
    assert len(path) == len("dir/") + 20
    assert layout.base_offset_of(path[4:] + ".log", ".log") == base_offset


@pytest.mark.parametrize("name", ["0.log", "x" * 20 + ".log", "0" * 21 + ".log", "²" * 20 + ".log", ".log"])
def test_other_names_are_no_segments(name: str) -> None:
    assert layout.base_offset_of(name, ".log") is None


partition_names = st.tuples(st.from_regex(r"[a-zA-Z0-9._-]{1,20}", fullmatch=True), st.integers(0, 9999))


@given(st.dictionaries(partition_names, st.integers(0, 1 << 62)))
def test_offset_checkpoints_read_back(rows: dict[tuple[str, int], int]) -> None:
    offsets = {TopicPartition(*name): offset for name, offset in rows.items()}
    assert checkpoints.decode_offsets(checkpoints.encode_offsets(offsets)) == offsets


@given(st.binary(max_size=80))
def test_any_text_is_a_checkpoint_or_refused(text: bytes) -> None:
    for decode in (checkpoints.decode_offsets, checkpoints.decode_topic_id):
        with suppress(CorruptBatch):
            decode(text)
    checkpoints.decode_properties(text)


def test_a_truncated_checkpoint_is_refused() -> None:
    whole = checkpoints.encode_offsets({TopicPartition("a", n): n * 1000 for n in range(5)})
    for end in range(len(whole) - 5):
        with pytest.raises(CorruptBatch):
            checkpoints.decode_offsets(whole[:end])


def test_properties_with_comments_as_java_writes_them() -> None:
    text = b"#\n#Tue Jan 02 03:04:05 UTC 2024\ncluster.id=abc=\nnode.id = 7\nversion=1\n"
    assert checkpoints.decode_properties(text) == {"cluster.id": "abc=", "node.id": "7", "version": "1"}


def test_a_closed_log_refuses_in_words() -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    append_many(log, 3)
    log.abandon()
    for action in (lambda: append_many(log, 1), log.begin_sync, lambda: log.truncate_to(1)):
        with pytest.raises(StorageError):
            action()
    assert log.enforce_retention(1, 3) == []
