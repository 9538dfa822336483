"""Histories as JSON lines and as Parquet are the same."""

from pathlib import Path

import pytest

from tidelog.lab.history import Event, HistoryWriter
from tidelog.lab.history_files import HistoryDamaged, read_events, to_parquet

pytest.importorskip("pyarrow")


def write_two(directory: Path) -> list[Event]:
    for name, mode in (("a", "isr"), ("b", "quorum")):
        with HistoryWriter(directory / f"{name}.jsonl", run="r", mode=mode, topic=name) as history:
            for sequence in range(3):
                history.add(
                    "acknowledged", sequence, producer="p", sequence=sequence, partition=0, offset=sequence,
                    sent_us=1, bytes=9, transaction=2,
                )  # fmt: skip
            history.add("usage", 5, broker=1, cpu_us=7, bytes=1 << 40, name="77")
            history.fault("kill")
    return read_events(directory)


def test_parquet_has_the_same_events(tmp_path: Path) -> None:
    before = write_two(tmp_path)
    made = to_parquet(tmp_path)
    assert made is not None and [path.name for path in tmp_path.iterdir()] == ["history.parquet"]
    assert read_events(tmp_path) == before and len(before) == 10


def test_a_torn_line_is_left_out_and_any_other_is_refused(tmp_path: Path) -> None:
    before = write_two(tmp_path)
    with (tmp_path / "a.jsonl").open("ab") as file:
        file.write(b'{"kind":"ackno')
    assert read_events(tmp_path) == before
    (tmp_path / "c.jsonl").write_text("run,mode\n")
    with pytest.raises(HistoryDamaged, match=r"line 1 of .*c\.jsonl is not an event"):
        read_events(tmp_path)


def test_lines_beside_parquet_are_what_it_was_made_of(tmp_path: Path) -> None:
    before = write_two(tmp_path)
    lines = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    to_parquet(tmp_path)
    for name, data in lines.items():  # a crash before they were removed
        (tmp_path / name).write_bytes(data)
    assert read_events(tmp_path) == before
