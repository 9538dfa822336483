"""``tidelog log dump``: shows what is there, finds what is damaged, and says so with its exit code."""

import json
import struct
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tidelog.cli.failure import CommandFailed
from tidelog.cli.log import dump as log_dump
from tidelog.cli.log.segment_files import BatchRow, IndexRow, Note, Problem, RecordRow, files_in, rows_of
from tidelog.protocol import batch as batches
from tidelog.protocol.codecs import Codec
from tidelog.protocol.records import Record, encode_batch

NAME = "00000000000000000100"


def make_batch(
    first: int, count: int, codec: Codec = Codec.NONE, timestamp: int = 1_700_000_000_000
) -> bytearray:
    records = [
        Record(
            first + i,
            timestamp + i,
            b"key-%d" % (first + i),
            b"value-%d" % (first + i),
            (("trace", b"\xff"),),
        )
        for i in range(count)
    ]
    return encode_batch(records, codec=codec, leader_epoch=4)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Three batches with offsets 100-102, 103-103 (compacted: gap to 110), 110-111."""
    path = tmp_path / "orders-0" / f"{NAME}.log"
    path.parent.mkdir()
    path.write_bytes(
        make_batch(100, 3, Codec.ZSTD) + make_batch(103, 1) + make_batch(110, 2, timestamp=1_800_000_000_000)
    )
    return path


def positions(log: Path) -> list[int]:
    return [row.position for row in rows_of(log) if isinstance(row, BatchRow)]


def problems(path: Path, *, records: bool = True) -> list[str]:
    return [row.sentence for row in rows_of(path, records=records) if isinstance(row, Problem)]


def dump(*words: object) -> str:
    result = CliRunner().invoke(log_dump.app, ["dump", *map(str, words)], catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout


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


class TestCommand:
    def test_tables_show_batches_and_sizes_and_with_values_the_values(self, log: Path) -> None:
        plain = dump(log)
        assert "100–102" in plain
        assert "zstd" in plain
        assert "key-110" in plain
        assert "value-110" not in plain
        assert "3 batches, 6 records" in plain
        assert "2027-01-15 08:00:00.000Z" in plain
        assert "value-110" in dump(log, "--values")

    def test_batches_only_is_one_table(self, log: Path) -> None:
        shown = dump(log, "--batches-only")
        assert "key-110" not in shown
        assert shown.count("offsets") == 1
        assert "3 batches\n" in shown

    @pytest.mark.slow
    def test_long_tables_come_in_pieces_and_nothing_is_lost(self, log: Path) -> None:
        log.write_bytes(b"".join(make_batch(100 + i, 1) for i in range(2_001)))
        shown = dump(log, "--batches-only")
        assert shown.count("offsets") == 3
        assert all(f"{offset}–{offset}" in shown for offset in range(100, 2_101))

    def test_json_is_one_object_per_line_and_loses_nothing(self, log: Path) -> None:
        rows = [json.loads(line) for line in dump(log, "--json", "--values").splitlines()]
        assert [row["kind"] for row in rows].count("record") == 6
        assert rows[0]["codec"] == "zstd"
        assert (rows[0]["base_offset"], rows[0]["last_offset"], rows[0]["leader_epoch"]) == (100, 102, 4)
        assert rows[1] == {
            "file": str(log),
            "kind": "record",
            "offset": 100,
            "timestamp": 1_700_000_000_000,
            "key": "key-100",
            "value": "value-100",
            "value_size": 9,
            "headers": [{"key": "trace", "value_base64": "/w=="}],
        }
        assert "value" not in json.loads(dump(log, "--json").splitlines()[1])

    def test_nulls_and_odd_bytes_are_told_apart(self, log: Path) -> None:
        log.write_bytes(encode_batch([Record(100, -1, None, None), Record(101, 1 << 60, b"\x00", b"")]))
        shown = dump(log, "--values")
        assert "null" in shown
        assert r"b'\x00'" in shown
        assert str(1 << 60) in shown

    def test_a_directory_means_all_segments_and_indexes_below_it(self, log: Path) -> None:
        log.with_suffix(".index").write_bytes(b"")
        later = log.with_name("00000000000000000112.log")
        later.write_bytes(make_batch(112, 1))
        (log.parent / "broker.log").write_text("not a segment")
        expected = [log, log.with_suffix(".index"), later]
        assert files_in([log.parent]) == expected
        assert files_in([log.parent.parent]) == expected

    def test_damage_ends_the_command_with_one_sentence(self, log: Path) -> None:
        log.write_bytes(log.read_bytes()[:-1])
        result = CliRunner().invoke(log_dump.app, ["dump", str(log.parent), "--json"])
        assert isinstance(result.exception, CommandFailed)
        sentence = str(result.exception)
        assert sentence.startswith(f"1 of 1 file damaged; first in {log}, byte ")
        assert "\n" not in sentence
        assert json.loads(result.stdout.splitlines()[-1])["kind"] == "problem"

    def test_what_is_not_there_is_said(self, tmp_path: Path) -> None:
        with pytest.raises(CommandFailed, match="no file or directory"):
            files_in([tmp_path / "nothing"])
        with pytest.raises(CommandFailed, match="contains no segments"):
            files_in([tmp_path])
        (tmp_path / "notes.txt").write_text("hello")
        with pytest.raises(CommandFailed, match=r"is not a \.log"):
            list(rows_of(tmp_path / "notes.txt"))
