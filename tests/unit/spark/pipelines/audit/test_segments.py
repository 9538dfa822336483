"""Replicas in the directories of brokers, found and read without Spark."""

from pathlib import Path

import pytest

from tidelog.log.checkpoints import HIGH_WATERMARKS_FILE, START_OFFSETS_FILE, encode_offsets
from tidelog.spark.options import OptionError
from tidelog.spark.pipelines.audit.replicas import Missing, Replica
from tidelog.spark.pipelines.audit.scanning import batch_at, first_difference, scan
from tidelog.spark.pipelines.audit.segments import in_directories
from tidelog.types import Offset, TopicPartition
from unit.cli.log.segments import make_batch


def partition(broker: Path, name: str, **files: bytes) -> Path:
    directory = broker / "data" / name
    directory.mkdir(parents=True)
    for stem, content in files.items():
        (directory / f"{int(stem.removeprefix('s')):020}.log").write_bytes(content)
    return directory


def found(broker: Path, *topics: str) -> list[Replica]:
    return in_directories([str(broker)], list(topics))


def test_partitions_of_the_wanted_topics(tmp_path: Path) -> None:
    for name in ("orders-0", "orders-10", "orders-2-5", "orders", "other-0"):
        partition(tmp_path, name)
    assert [(one.topic, one.partition) for one in found(tmp_path, "orders")] == [
        ("orders", 0),
        ("orders", 10),
    ]
    assert [(one.topic, one.partition) for one in found(tmp_path, "orders-2")] == [("orders-2", 5)]


def test_where_a_log_starts_and_how_far_it_is_committed(tmp_path: Path) -> None:
    for name in ("t-0", "t-1", "t-2"):
        partition(tmp_path, name, s100=b"", s200=b"")
    (tmp_path / "data" / "t-1" / f"{150:020}.start").touch()
    data = tmp_path / "data"
    data.joinpath(START_OFFSETS_FILE).write_bytes(encode_offsets({TopicPartition("t", 2): Offset(170)}))
    data.joinpath(HIGH_WATERMARKS_FILE).write_bytes(encode_offsets({TopicPartition("t", 0): Offset(180)}))
    assert [(one.start_offset, one.high_watermark) for one in found(tmp_path, "t")] == [
        (100, 180), (150, -1), (170, -1),
    ]  # fmt: skip


def test_a_torn_checkpoint_says_nothing(tmp_path: Path) -> None:
    partition(tmp_path, "t-0", s0=b"")
    (tmp_path / "data" / HIGH_WATERMARKS_FILE).write_bytes(b"0\n1\nt 0")
    assert found(tmp_path, "t")[0].high_watermark == -1


def test_directories_without_the_topic_are_refused(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    with pytest.raises(OptionError, match="no partition of t"):
        found(tmp_path, "t")
    with pytest.raises(OptionError, match="no directory"):
        found(tmp_path / "gone", "t")


def replica(tmp_path: Path, **files: bytes) -> Replica:
    partition(tmp_path, "t-0", **files)
    return found(tmp_path, "t")[0]


def test_a_row_for_each_batch(tmp_path: Path) -> None:
    one = replica(tmp_path, s0=bytes(make_batch(0, 3)), s3=bytes(make_batch(3, 2)))
    assert [(row["base_offset"], row["next_offset"], row["fault"]) for row in scan(one)] == [
        (0, 3, None), (3, 5, None),
    ]  # fmt: skip


def test_a_batch_that_is_being_written_is_no_fault_and_one_in_an_older_segment_is(tmp_path: Path) -> None:
    whole, torn = bytes(make_batch(0, 3)), bytes(make_batch(3, 2))[:-1]
    last = replica(tmp_path / "last", s0=whole + torn)
    assert [row["fault"] for row in scan(last)] == [None]
    older = replica(tmp_path / "older", s0=whole + torn, s5=bytes(make_batch(5, 1)))
    first, second, third = scan(older)
    assert (first["fault"], third["fault"]) == (None, None)
    assert "does not fit" in second["fault"]
    assert second["place"] == f"{0:020}.log, byte {len(whole)}"


def test_a_flipped_bit_is_a_fault_of_its_batch_only(tmp_path: Path) -> None:
    first, second = make_batch(0, 3), make_batch(3, 2)
    first[-1] ^= 1
    faults = [row["fault"] for row in scan(replica(tmp_path, s0=bytes(first + second)))]
    assert faults[0] is not None
    assert faults[1] is None


def test_what_cannot_be_read_is_one_row_with_the_reason(tmp_path: Path) -> None:
    gone = Replica("1", "t", 0, 7, -1, Missing("broker 1 does not answer"))
    (row,) = scan(gone)
    assert (row["base_offset"], row["unread"]) == (7, "broker 1 does not answer")
    assert batch_at(gone, 7) is None


def test_the_batch_that_holds_an_offset(tmp_path: Path) -> None:
    one = replica(tmp_path, s0=bytes(make_batch(0, 3) + make_batch(5, 2)))
    held = batch_at(one, 6)
    assert held is not None
    assert bytes(held) == bytes(make_batch(5, 2))
    assert batch_at(one, 3) is None
    assert batch_at(one, 7) is None


def test_differences_in_words() -> None:
    batch, later = memoryview(make_batch(0, 2)), memoryview(make_batch(0, 2, timestamp=1))
    assert first_difference(batch, None) == "only one of them has a batch there"
    assert first_difference(batch, later) == "record 0 differs in timestamp"
    longer = first_difference(batch, memoryview(make_batch(0, 3)))
    assert longer.startswith("the records cannot be compared")
    other_epoch = make_batch(0, 2)
    other_epoch[15] += 1  # the leader epoch is not covered by the checksum
    assert first_difference(batch, memoryview(other_epoch)) == (
        "equal records, but the headers differ in leader_epoch"
    )
