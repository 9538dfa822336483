"""The lock of a table, its file systems, which files are merged, and how schemas grow."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DateType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from tidelog.spark.pipelines.tables import Place, Position, Span, TableLocked
from tidelog.spark.pipelines.tables.filesystem import ArrowFiles, FileInfo, Files, LocalFiles
from tidelog.spark.pipelines.tables.lock import EXPIRY_S, LOCK, Owner, locked, read_owner
from tidelog.spark.pipelines.tables.merging import mergeable
from tidelog.spark.pipelines.tables.schemas import SchemaMisfit, merged, with_partition_columns
from unit.spark.pipelines.tables.memory_files import MemoryFiles


def struct(**fields: DataType) -> StructType:
    return StructType([StructField(name, kind, nullable=False) for name, kind in fields.items()])


# -- the lock ------------------------------------------------------------------------------


def take(files: Files, *, breaks: bool = False) -> list[str]:
    said: list[str] = []
    with locked(files, "/data/orders", breaks=breaks, say=said.append):
        assert read_owner(files) is not None
    assert read_owner(files) is None
    return said


def owned_by(**fields: object) -> MemoryFiles:
    now = time.time()
    owner = {"run": "x", "host": "elsewhere", "pid": 1, "started": "", "since": now, "renewed": now}
    return MemoryFiles({LOCK: json.dumps(owner | fields).encode()})


def test_of_two_runs_the_second_is_told_who_is_first() -> None:
    files = MemoryFiles()
    with locked(files, "/data/orders", breaks=False, say=print):
        with pytest.raises(TableLocked, match=f"Another run has /data/orders: process {os.getpid()} on"):
            take(files)
        assert read_owner(files) is not None
    assert not take(files)


def test_the_lock_of_a_dead_process_is_taken_over_at_once() -> None:
    process = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True)
    here = Owner("x", os.uname().nodename, 0, "", 0, 0).host
    assert "taken over" in take(owned_by(host=here, pid=int(process.stdout)))[0]
    # The process id is that of another process by now.
    assert "taken over" in take(owned_by(host=here, pid=os.getpid(), started="before the last boot:1"))[0]
    with pytest.raises(TableLocked, match="wait until it ends, or break its lock"):
        take(owned_by(host=here, pid=os.getpid()))


def test_a_lock_of_another_machine_expires_or_is_broken() -> None:
    assert "taken over" in take(owned_by(renewed=time.time() - EXPIRY_S - 1))[0]
    assert "taken over" in take(owned_by(renewed=time.time() + EXPIRY_S + 60))[0]  # by a clock that was ahead
    with pytest.raises(TableLocked, match="5 minutes after it died"):
        take(owned_by())
    assert "broken" in take(owned_by(), breaks=True)[0]
    damaged = MemoryFiles({LOCK: b""})
    with pytest.raises(TableLocked, match=f"The lock {LOCK} cannot be read"):
        take(damaged)
    assert take(damaged, breaks=True) == []


def test_a_run_whose_lock_was_broken_leaves_the_other_one_alone() -> None:
    files = MemoryFiles()
    with locked(files, "t", breaks=False, say=print):
        files.contents[LOCK] = owned_by().contents[LOCK]
    assert read_owner(files) is not None


# -- file systems --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["local", "arrow", "memory"])
def test_file_systems_do_the_same(kind: str, tmp_path: Path) -> None:
    files: Files = MemoryFiles()
    if kind != "memory":
        files = LocalFiles(str(tmp_path)) if kind == "local" else ArrowFiles(tmp_path.as_uri())
    assert not files.files("a") and not files.files("", recursive=True) and not files.directories("a")
    files.write("a/one", b"1")
    files.write("a/one", b"11")
    assert files.read("a/one") == b"11"
    assert files.create("a/two", b"2") and not files.create("a/two", b"no")
    assert files.read("a/two") == b"2"
    assert files.files("a") == [FileInfo("a/one", 2), FileInfo("a/two", 1)]
    files.move("a/one", "b/c/one")
    files.move("a/one", "b/c/one")  # was moved
    assert not files.exists("a/one") and files.exists("b/c/one") and files.exists("b")
    files.write("a/one", b"new")
    files.move("a/one", "b/c/one")
    assert files.read("b/c/one") == b"new"
    assert files.directories("b") == ["b/c"] and files.directories("") == ["a", "b"]
    assert files.files("b") == [] and files.files("b", recursive=True) == [FileInfo("b/c/one", 3)]
    for name in ("b", "a/two", "a/none"):
        files.delete(name)
    assert files.files("", recursive=True) == []
    with pytest.raises(FileNotFoundError):
        files.read("a/none")


# -- merging -------------------------------------------------------------------------------


def group_sizes(
    sizes: list[int], directory: str = "records/topic=t/date=2026-05-17", files_min: int = 2
) -> list[list[int]]:
    files = [FileInfo(f"{directory}/{number}.parquet", size) for number, size in enumerate(sizes)]
    return [[one.size for one in group.files] for group in mergeable(files, 1000, files_min, "2026-05-17")]


def test_files_of_similar_size_are_merged() -> None:
    assert group_sizes([10, 10]) == [[10, 10]]
    assert group_sizes([400, 10, 10, 500]) == [[10, 10]]
    assert group_sizes([400, 10, 100]) == []
    assert group_sizes([10, 15, 40, 100]) == [[10, 15, 40, 100]]
    assert group_sizes([400]) == []


@pytest.mark.parametrize(("files_min", "rewritten", "left"), [(2, 20, 20), (8, 6, 30)])
def test_a_file_is_rewritten_a_few_times_however_often_runs_are(
    files_min: int, rewritten: int, left: int
) -> None:
    sizes: list[int] = []
    written = 0
    for _ in range(2000):
        sizes.append(1)
        for group in group_sizes(sizes, files_min=files_min):
            for size in group:
                sizes.remove(size)
            sizes.append(sum(group))
            written += sum(group)
    assert written < 2000 * rewritten and len(sizes) < left


def test_days_that_are_over_are_merged_completely() -> None:
    yesterday = "records/topic=t/date=2026-05-16"
    assert group_sizes([400, 10], yesterday) == group_sizes([400, 10], yesterday, 8) == [[10, 400]]


def test_a_few_files_of_a_day_are_not_worth_a_merge() -> None:
    assert group_sizes([10] * 7, files_min=8) == []
    assert group_sizes([10] * 8, files_min=8) == [[10] * 8]


# -- schemas -------------------------------------------------------------------------------


INT, LONG, DOUBLE, TEXT = IntegerType(), LongType(), DoubleType(), StringType()


def test_schemas_grow_at_any_depth() -> None:
    old = struct(id=INT, parts=ArrayType(struct(a=TEXT)))
    new = struct(id=LONG, parts=ArrayType(struct(b=DateType())), more=MapType(TEXT, INT))
    known, added = struct(value=BinaryType(), decoded=old), struct(decoded=new, x=INT)
    assert merged(known, added, "t").simpleString() == (
        "struct<value:binary,decoded:struct<id:bigint,parts:array<struct<a:string,b:date>>,"
        "more:map<string,int>>,x:int>"
    )
    assert merged(added, known, "t")["decoded"].dataType.simpleString().startswith("struct<id:bigint,parts")
    assert all(field.nullable for field in merged(None, struct(a=INT), "t"))


@pytest.mark.parametrize(
    ("known", "added", "complaint"),
    [
        (struct(d=struct(id=INT)), struct(d=struct(id=TEXT)), "d.id of t is int, and .* have string"),
        (struct(a=DOUBLE), struct(a=LONG), "a of t is double"),
        (struct(id=INT), struct(ID=INT), "does not tell apart"),
    ],
)
def test_columns_that_change_their_meaning_are_refused(
    known: StructType, added: StructType, complaint: str
) -> None:
    with pytest.raises(SchemaMisfit, match=complaint):
        merged(known, added, "t")


def test_names_of_directories_are_text() -> None:
    found = with_partition_columns(struct(key=BinaryType(), topic=INT, date=TEXT))
    assert found.simpleString() == "struct<key:binary,topic:string,date:date>"


def test_a_position_is_the_same_after_it_was_stored() -> None:
    position = Position({Place("007", "", 1): Span(0, 5), Place("a", "x", 0): Span(3, 3)})
    assert Position.from_json(position.to_json()) == position
    assert Position.from_json(Position().to_json()) == Position()
