"""Segments and indexes as ``tidelog log dump`` reads them: it finds what is damaged."""

import struct
from pathlib import Path

import pytest

from tidelog.cli.log.segment_files import BatchRow, IndexRow, Note, Problem, RecordRow, rows_of
from tidelog.protocol import batch as batches
from unit.cli.log.segments import NAME, make_batch


def positions(log: Path) -> list[int]:
    return [row.position for row in rows_of(log) if isinstance(row, BatchRow)]


def problems(path: Path, *, records: bool = True) -> list[str]:
    return [row.sentence for row in rows_of(path, records=records) if isinstance(row, Problem)]


class TestLog:
    def test_batches_and_records_come_in_order(self, log: Path) -> None:
        rows = list(rows_of(log))
        assert [type(row) for row in rows] == [
            *(BatchRow, RecordRow, RecordRow, RecordRow),
            *(BatchRow, RecordRow),
            *(BatchRow, RecordRow, RecordRow),
        ]
        assert [row.record.offset for row in rows if isinstance(row, RecordRow)] == [
            100,
            101,
            102,
            103,
            110,
            111,
        ]

    def test_batches_only_does_not_open_them(self, log: Path) -> None:
        assert {type(row) for row in rows_of(log, records=False)} == {BatchRow}

    def test_a_flipped_bit_is_found_and_the_rest_is_still_read(self, log: Path) -> None:
        data = bytearray(log.read_bytes())
        data[positions(log)[1] + 70] ^= 1
        log.write_bytes(data)
        assert problems(log) == ["the CRC does not match"]
        assert len(positions(log)) == 3

    @pytest.mark.parametrize("cut", [1, 30, 80])
    def test_a_torn_tail_is_found(self, log: Path, cut: int) -> None:
        log.write_bytes(log.read_bytes()[:-cut])
        (problem,) = problems(log)
        assert "are left in the file" in problem or "too few for a batch header" in problem

    def test_reserved_zeros_are_no_damage(self, log: Path) -> None:
        log.write_bytes(log.read_bytes() + bytes(3 << 20))
        assert problems(log) == []
        (note,) = [row for row in rows_of(log) if isinstance(row, Note)]
        assert note.sentence == "the last 3145728 bytes are zeros, reserved for what comes"

    def test_zeros_with_something_behind_them_are_damage(self, log: Path) -> None:
        log.write_bytes(log.read_bytes() + bytes(2 << 20) + b"x")
        assert problems(log) == ["a batch claims 12 bytes, 2097153 are left in the file"]

    def test_offsets_that_go_back_are_found(self, log: Path) -> None:
        log.write_bytes(log.read_bytes() + make_batch(111, 1))
        assert problems(log) == ["offset 111 follows although 112 is due"]

    def test_offsets_below_the_name_of_the_file_are_found(self, log: Path) -> None:
        log.write_bytes(make_batch(99, 1))
        assert problems(log) == ["offset 99 follows although 100 is due"]

    def test_records_that_contradict_their_batch_are_found_when_opened(self, log: Path) -> None:
        batch = make_batch(100, 3)
        lying = batches.parse_header(batch)._replace(last_offset_delta=1, count=2)
        log.write_bytes(batches.rebuild(lying, batch[batches.HEADER_SIZE :]))
        assert problems(log, records=False) == []
        assert "left over after 2 records" in problems(log)[0]

    def test_an_empty_file_is_sound(self, log: Path) -> None:
        log.write_bytes(b"")
        assert list(rows_of(log)) == []


class TestIndexes:
    def write_index(self, log: Path, *entries: tuple[int, int], reserved: int = 0) -> Path:
        path = log.with_suffix(".index")
        path.write_bytes(b"".join(struct.pack(">ii", *entry) for entry in entries) + bytes(reserved))
        return path

    def write_times(self, log: Path, *entries: tuple[int, int], reserved: int = 0) -> Path:
        path = log.with_suffix(".timeindex")
        path.write_bytes(b"".join(struct.pack(">qi", *entry) for entry in entries) + bytes(reserved))
        return path

    def test_a_right_offset_index_is_sound_reserved_space_or_not(self, log: Path) -> None:
        _, second, third = positions(log)
        for reserved in (0, 4096):
            index = self.write_index(log, (3, second), (11, third), reserved=reserved)
            assert list(rows_of(index)) == [IndexRow(2)]

    def test_an_index_that_was_only_reserved_is_sound(self, log: Path) -> None:
        assert list(rows_of(self.write_index(log, reserved=4096))) == [IndexRow(0)]
        assert list(rows_of(self.write_times(log, reserved=4096))) == [IndexRow(0)]

    def test_an_entry_that_skips_what_it_names_is_found(self, log: Path) -> None:
        third = positions(log)[2]
        (problem,) = problems(self.write_index(log, (3, third)))
        assert problem == f"offset 103 points past the batch that holds it, to byte {third}"

    def test_an_entry_between_batches_is_found(self, log: Path) -> None:
        second = positions(log)[1]
        assert "where no batch begins" in problems(self.write_index(log, (3, second + 1)))[0]
        assert "where no batch begins" in problems(self.write_index(log, (12, log.stat().st_size)))[0]

    def test_entries_that_go_back_are_found(self, log: Path) -> None:
        _, second, third = positions(log)
        assert "does not ascend" in problems(self.write_index(log, (11, third), (3, second)))[0]

    def test_a_right_time_index_is_sound(self, log: Path) -> None:
        index = self.write_times(log, (1_700_000_000_002, 2), (1_800_000_000_001, 11), reserved=120)
        assert list(rows_of(index)) == [IndexRow(2)]

    def test_a_time_that_skips_records_of_that_time_is_found(self, log: Path) -> None:
        (problem,) = problems(self.write_times(log, (1_700_000_000_002, 3)))
        assert problem == "time 1700000000002 points to offset 103, past a record of that time"

    def test_a_time_behind_the_log_is_found(self, log: Path) -> None:
        assert "past the end of the log" in problems(self.write_times(log, (1_900_000_000_000, 12)))[0]

    def test_times_that_go_back_are_found(self, log: Path) -> None:
        times = self.write_times(log, (1_800_000_000_001, 11), (1_700_000_000_002, 2))
        assert "does not ascend" in problems(times)[0]

    def test_an_index_without_its_log_says_so(self, log: Path) -> None:
        index = self.write_index(log, (3, positions(log)[1]))
        log.unlink()
        assert problems(index) == [f"there is no {NAME}.log beside it to check it against"]
