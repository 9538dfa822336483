"""What an archive of the earlier layout contains: files of batches that were never finished, merges that had
begun, checkpoints.
"""

import json

import pytest

pytest.importorskip("pyspark")

from tidelog.spark.pipelines.tables import Place
from tidelog.spark.pipelines.tables import earlier as e
from unit.spark.pipelines.tables.memory_files import MemoryFiles


def data(part: str, *batches: int) -> dict[str, bytes]:
    return {f"{part}/topic=t/date=2026-05-17/batch-{one:08}-00000-0.parquet": b"rows" for one in batches}


def notes(part: str, *batches: int) -> dict[str, bytes]:
    return {f"{part}/_batches/{one}.json": b"{}" for one in batches}


def batches_left(contents: dict[str, bytes], part: str = "records") -> list[int]:
    files = MemoryFiles(contents)
    e._remove_incomplete(files)
    return [int(one.name.rpartition("/")[2].split("-")[1]) for one in e._data(files, part)]


def test_a_batch_without_a_note_is_read_again() -> None:
    assert batches_left(data("records", 0, 1, 2) | notes("records", 0, 1)) == [0, 1]
    # The undecodable records of a batch were added first.
    both = data("records", 0) | notes("records", 0) | data("undecodable", 0, 1) | notes("undecodable", 0, 1)
    assert batches_left(both, "undecodable") == [0]


def test_a_batch_that_spark_has_committed_is_kept_without_its_note() -> None:
    committed = {"checkpoint/commits/0": b"", "checkpoint/commits/1": b"", "checkpoint/commits/.1.crc": b""}
    assert batches_left(data("records", 0, 1, 2) | committed) == [0, 1]


def test_without_notes_and_checkpoint_only_a_staging_directory_condemns_a_batch() -> None:
    assert batches_left(data("records", 0, 1, 2)) == [0, 1, 2]
    assert batches_left(data("records", 0, 1, 2) | {"records/_staging/2/_SUCCESS": b""}) == [0, 1]


@pytest.mark.parametrize("moved", [False, True])
def test_a_merge_that_had_begun_counts_as_a_whole(moved: bool) -> None:
    merged = "topic=t/date=2026-05-17/merged-0-0.parquet"
    staged = f"records/{merged}" if moved else "records/_staging/merge-0/part-0.parquet"
    plan = {
        "add": {"_staging/merge-0/part-0.parquet": merged},
        "remove": [name.removeprefix("records/") for name in data("records", 0, 1)],
    }
    contents = {**data("records", 0, 1), staged: b"all", "records/_merges/0.json": json.dumps(plan).encode()}
    files = MemoryFiles(contents)
    seen = [one.name for one in e._data(files, "records")]
    assert seen == ([f"records/{merged}"] if moved else sorted(data("records", 0, 1)))
    e._finish_merges(files, "records")
    assert [one.name for one in e._data(files, "records")] == [f"records/{merged}"]
    assert not files.exists("records/_merges")


def test_the_checkpoint_says_what_its_last_committed_batch_read() -> None:
    offsets = {"t": {"0": 20, "1": 3}}
    contents = {
        "checkpoint/commits/0": b"v1\n{}",
        "checkpoint/commits/1": b"v1\n{}",
        "checkpoint/offsets/0": b"v1\n{}\n{}",
        "checkpoint/offsets/1": f"v1\n{{}}\n{json.dumps(offsets)}".encode(),
        "checkpoint/offsets/2": b"v1\n{}\n{}",
    }
    assert e._checkpointed(MemoryFiles(contents)) == {Place("t", "", 0): 20, Place("t", "", 1): 3}
    assert e._checkpointed(MemoryFiles({})) == {}
    torn = contents | {"checkpoint/offsets/1": b"v1\n"}
    assert e._checkpointed(MemoryFiles(torn)) == {}
