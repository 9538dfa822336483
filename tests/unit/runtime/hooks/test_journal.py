"""Entries are read back, up to the first one that is torn."""

from pathlib import Path

from tidelog.runtime.hooks.journal import ENTRIES, Entry, Journal, read_entries


def test_entries_are_read_as_they_were_written(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "p").mkdir(parents=True)
    (data / "p" / "a").write_bytes(b"x")
    journal = Journal(tmp_path / "journal", str(data))
    journal.add("write", 7, 0, 3, 2, payload=b"\n[]")
    journal.add("mkdir", journal.path(f"{data}/q"))
    base, write, mkdir = read_entries(tmp_path / "journal")
    assert base == Entry("base", [["p"], {"p/a": (data / "p" / "a").stat().st_ino}], b"")
    assert write == Entry("write", [7, 0, 3, 2], b"\n[]")
    assert mkdir == Entry("mkdir", ["q"], b"")


def test_the_next_process_goes_on_with_it(tmp_path: Path) -> None:
    for _ in range(2):
        Journal(tmp_path, str(tmp_path / "data")).add("mkdir", "q")
    assert [entry.kind for entry in read_entries(tmp_path)] == ["base", "mkdir", "mkdir"]


def test_a_torn_entry_did_not_happen(tmp_path: Path) -> None:
    journal = Journal(tmp_path, str(tmp_path / "data"))
    journal.add("write", 7, 0, 3, 3, payload=b"abc")
    whole = (tmp_path / ENTRIES).read_bytes()
    for size in range(len(whole)):
        (tmp_path / ENTRIES).write_bytes(whole[:size])
        assert all(entry.kind == "base" for entry in read_entries(tmp_path))
    (tmp_path / ENTRIES).unlink()
    assert list(read_entries(tmp_path)) == []
