"""``tidelog log dump``: shows what is there, and says with its exit code whether it is damaged."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tidelog.cli.failure import CommandFailed
from tidelog.cli.log import dump as log_dump
from tidelog.cli.log.segment_files import files_in, rows_of
from tidelog.protocol.records import Record, encode_batch
from unit.cli.log.segments import make_batch


def dump(*words: object) -> str:
    result = CliRunner().invoke(log_dump.app, ["dump", *map(str, words)], catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout


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
