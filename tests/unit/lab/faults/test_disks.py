"""Which segment is damaged, and how."""

from pathlib import Path

import pytest

from tidelog.lab.faults.disks import flip, oldest_segment
from tidelog.lab.faults.errors import FaultError


def segment(data: Path, partition: str, base_offset: int, content: bytes) -> Path:
    path = data / partition / f"{base_offset:020}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def test_the_oldest_segment_with_records_is_damaged(tmp_path: Path) -> None:
    segment(tmp_path, "__consumer_offsets-0", 0, b"internal")
    segment(tmp_path, "orders-0", 0, b"")
    second = segment(tmp_path, "orders-1", 5, b"x" * 8)
    segment(tmp_path, "orders-1", 9, b"x" * 8)
    segment(tmp_path, "orders-1-2", 0, b"another topic: orders-1")
    segment(tmp_path, "orders-1.deleted", 0, b"gone")
    assert oldest_segment(tmp_path, "orders") == second
    assert oldest_segment(tmp_path, "__consumer_offsets").parent.name == "__consumer_offsets-0"


def test_without_records_there_is_nothing_to_damage(tmp_path: Path) -> None:
    with pytest.raises(FaultError, match="no segment with records of orders"):
        oldest_segment(tmp_path, "orders")


def test_one_bit_of_the_first_half_changes(tmp_path: Path) -> None:
    path = segment(tmp_path, "orders-0", 0, bytes(100))
    flip(path)
    changed = [position for position, byte in enumerate(path.read_bytes()) if byte]
    assert changed == [25]
    assert path.read_bytes()[25] == 1
