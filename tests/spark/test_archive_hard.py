"""Archives over what happens in years: schemas that change, topics that are created again, lost checkpoints,
two runs at once, records that are deleted first, archives of the earlier layout, other file systems.
"""

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from datetime import date
from itertools import pairwise
from pathlib import Path
from threading import Event, Thread

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import DataFrame, SparkSession

from tidelog.spark import OptionError
from tidelog.spark.pipelines import Archive, Compaction, Decoding, Topics, archive, compact, read_archive
from tidelog.spark.pipelines.stepping import RecordsLost
from tidelog.spark.pipelines.tables import PositionMoved, TableLocked
from tidelog.spark.pipelines.tables.filesystem import HadoopFiles, files_at
from tidelog.spark.pipelines.tables.lock import locked
from tidelog.spark.pipelines.tables.log import Log
from tidelog.spark.pipelines.tables.opening import open_table

from .conftest import CreateTopic


def produce(bootstrap: str, topic: str, *values: str, partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for value in values:
        producer.produce(topic, value=value, partition=partition)
    assert producer.flush(60) == 0


def numbers(first: int, end: int) -> list[str]:
    return [str(number) for number in range(first, end)]


def values(rows: DataFrame) -> list[str]:
    return sorted((bytes(row.value).decode() for row in rows.select("value").collect()), key=int)


def delete_records(bootstrap: str, topic: str, before: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.delete_records([TopicPartition(topic, 0, before)]).values():
        future.result(30)


def test_a_field_that_is_added_on_the_same_day_survives_the_merge(
    spark: SparkSession, bootstrap: str, create_topic: CreateTopic, tmp_path: Path
) -> None:
    topic, target = create_topic(1), str(tmp_path / "archive")
    topics = Topics(bootstrap, topic)
    produce(bootstrap, topic, '{"id": 1, "name": "a"}', "no json")
    archive(spark, Archive(topics, target, Decoding("json", "id int"), merge_bytes=0))
    produce(bootstrap, topic, '{"id": 2, "name": "b"}', '{"id": "nor this"}')
    wider = Decoding("json", "id bigint, name string")
    archive(spark, Archive(topics, target, wider, merge_bytes=0))

    def found() -> list[tuple[int, str | None]]:
        rows = read_archive(spark, target).selectExpr("decoded.id", "decoded.name").collect()
        return sorted((row.id, row.name) for row in rows)

    assert found() == [(1, None), (2, "b")]
    shutil.rmtree(tmp_path / "archive/_log")
    archive(spark, Archive(topics, target, wider, merge_bytes=0))
    assert found() == [(1, None), (2, "b")]
    # What other programs see of undecodable records: nothing that looks decoded.
    for file in (tmp_path / "archive/undecodable").rglob("*.parquet"):
        assert pq.read_table(file, partitioning=None).column("decoded").to_pylist() == [None]
    merged = compact(spark, Compaction(target, 1 << 20))
    assert (merged.removed_files, merged.files) == (4, 2)  # of records and of undecodable ones
    assert found() == [(1, None), (2, "b")]
    apart = open_table(spark, target, "parquet").read_undecodable()
    assert apart is not None and sorted(bytes(row.value) for row in apart.collect()) == [
        b"no json",
        b'{"id": "nor this"}',
    ]
    with pytest.raises(Exception, match=r"decoded.id .* is bigint, and the new records have string"):
        produce(bootstrap, topic, "{}")
        archive(spark, Archive(topics, target, Decoding("json", "id string")))


def test_a_topic_that_is_created_again_is_archived_from_its_beginning(
    spark: SparkSession, bootstrap: str, create_topic: CreateTopic, tmp_path: Path
) -> None:
    """With fewer records than before, and with more."""
    topic = create_topic(1)
    job = Archive(Topics(bootstrap, topic), str(tmp_path / "archive"), merge_bytes=0)
    edges = [0, 20, 25, 65]
    for incarnation, (first, end) in enumerate(pairwise(edges)):
        if incarnation:
            admin = AdminClient({"bootstrap.servers": bootstrap})
            admin.delete_topics([topic])[topic].result(30)
            create_topic(1, name=topic)
        produce(bootstrap, topic, *numbers(first, end))
        report = archive(spark, job)
        assert report.records == end - first and report.lag == {topic: 0}
        assert not incarnation or "deleted and created again" in report.notes[0]
    rows = read_archive(spark, job.target)
    assert values(rows) == numbers(0, 65)
    assert rows.select("topicId").distinct().count() == 3


def test_an_archive_whose_log_was_deleted_knows_topics_by_their_ids(
    spark: SparkSession, bootstrap: str, create_topic: CreateTopic, tmp_path: Path
) -> None:
    """As a user might do after an error. The topic of before had more records than were archived of this."""
    topic, target = create_topic(1), tmp_path / "archive"
    job = Archive(Topics(bootstrap, topic), str(target), merge_bytes=0)
    produce(bootstrap, topic, *numbers(0, 20))
    archive(spark, job)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_topics([topic])[topic].result(30)
    create_topic(1, name=topic)
    produce(bootstrap, topic, *numbers(20, 25))
    archive(spark, job)
    shutil.rmtree(target / "_log")
    produce(bootstrap, topic, *numbers(25, 65))
    report = archive(spark, job)
    assert values(read_archive(spark, job.target)) == numbers(0, 65) and report.total == 65
    assert "the log was deleted" in report.notes[0]


def test_records_that_were_deleted_before_they_were_archived_are_told(
    spark: SparkSession, bootstrap: str, create_topic: CreateTopic, tmp_path: Path
) -> None:
    topic = create_topic(1)
    job = Archive(Topics(bootstrap, topic), str(tmp_path / "archive"), merge_bytes=0)
    produce(bootstrap, topic, *numbers(0, 10))
    archive(spark, job)
    produce(bootstrap, topic, *numbers(10, 30))
    delete_records(bootstrap, topic, 25)
    with pytest.raises(RecordsLost, match=f"{topic}-0 begins at offset 25, and was archived up to 10"):
        archive(spark, job)
    assert values(read_archive(spark, job.target)) == numbers(0, 10)
    willing = Topics(bootstrap, topic, options={"failOnDataLoss": "false"})
    report = archive(spark, Archive(willing, job.target, merge_bytes=0))
    assert report.records == 5 and report.notes[0].startswith("Lost: ")
    assert values(read_archive(spark, job.target)) == [*numbers(0, 10), *numbers(25, 30)]
    assert not archive(spark, job).notes


def test_a_range_that_ends_in_control_records_is_passed(
    spark: SparkSession, bootstrap: str, create_topic: CreateTopic, tmp_path: Path
) -> None:
    topic = create_topic(1)
    job = Archive(Topics(bootstrap, topic), str(tmp_path / "archive"), rows_per_step=2, merge_bytes=0)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"{topic}-t"})
    producer.init_transactions(30)
    for number in range(3):
        producer.begin_transaction()
        producer.produce(topic, value=str(number), partition=0)
        producer.commit_transaction(30)
    report = archive(spark, job)
    assert (report.records, report.steps, report.lag) == (3, 3, {topic: 0})
    assert archive(spark, job).steps == 0


def test_an_unknown_topic_is_one_sentence(
    spark: SparkSession, bootstrap: str, create_topic: CreateTopic, tmp_path: Path
) -> None:
    topic = create_topic(1)
    with pytest.raises(OptionError, match=rf"There is no topic {topic}s to archive; there is .*{topic}"):
        archive(spark, Archive(Topics(bootstrap, f"{topic}s"), str(tmp_path / "archive")))


def test_a_range_of_time_is_filled_in_later(
    spark: SparkSession, bootstrap: str, create_topic: CreateTopic, tmp_path: Path
) -> None:
    topic, target = create_topic(1, retention_ms=-1), str(tmp_path / "archive")
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(30):
        producer.produce(topic, value=str(number), timestamp=1_700_000_000_000 + number * 1000)
    producer.flush()
    topics = Topics(bootstrap, topic)
    at = [1_700_000_000_000 + second * 1000 for second in (5, 20, 25)]
    first = archive(spark, Archive(topics, target, from_ms=at[1], to_ms=at[2], merge_bytes=0))
    assert (first.records, first.lag) == (5, {topic: 5})
    second = archive(spark, Archive(topics, target, from_ms=at[0], rows_per_step=10, merge_bytes=0))
    assert (second.records, second.steps) == (20, 3)
    rows = read_archive(spark, target)
    assert values(rows) == numbers(5, 30)
    assert {row.date for row in rows.select("date").collect()} == {date(2023, 11, 14)}


def test_of_two_runs_the_second_ends(spark: SparkSession, tmp_path: Path) -> None:
    job = Archive(Topics("127.0.0.1:1", "any"), str(tmp_path / "archive"))
    with (
        locked(files_at(spark, job.target), job.target, breaks=False, say=print),
        pytest.raises(TableLocked, match=r"Another run has .*; wait until it ends, or break its lock"),
    ):
        archive(spark, job)


def test_runs_that_overlap_without_a_lock_add_every_record_once(
    spark: SparkSession,
    bootstrap: str,
    create_topic: CreateTopic,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As on an object store that cannot make a lock exclusive: the position decides."""
    from contextlib import nullcontext

    from tidelog.spark.pipelines.tables import parquet

    monkeypatch.setattr(parquet, "locked", lambda *args, **more: nullcontext())
    monkeypatch.setattr(Log, "recover", lambda self: self.last())
    topic = create_topic(2)
    produce(bootstrap, topic, *numbers(0, 40))
    produce(bootstrap, topic, *numbers(40, 80), partition=1)
    job = Archive(Topics(bootstrap, topic), str(tmp_path / "archive"), rows_per_step=20, merge_bytes=0)
    ended: list[object] = []

    def run() -> None:
        try:
            ended.append(archive(spark, job).lag)
        except PositionMoved as moved:  # one that is overtaken again and again gives up
            ended.append(str(moved))

    runs = [Thread(target=run) for _ in range(2)]
    for one in runs:
        one.start()
    for one in runs:
        one.join()
    assert len(ended) == 2 and {topic: 0} in ended
    assert values(read_archive(spark, job.target)) == numbers(0, 80)


@pytest.fixture
def mounted(spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    """A directory under a scheme that Hadoop knows and Arrow does not."""
    (tmp_path / "mounted").mkdir()
    setting = "fs.viewfs.mounttable.tides.link./data"
    spark.conf.set(setting, (tmp_path / "mounted").as_uri())
    yield "viewfs://tides/data"
    spark.conf.unset(setting)


def test_an_archive_on_a_file_system_that_only_hadoop_knows(
    spark: SparkSession, bootstrap: str, create_topic: CreateTopic, tmp_path: Path, mounted: str
) -> None:
    files = files_at(spark, mounted)
    assert isinstance(files, HadoopFiles)
    files.write("_try/one", b"\x00\xff")
    assert files.read("_try/one") == b"\x00\xff" and not files.create("_try/one", b"")
    files.move("_try/one", "_try/a/two")
    assert files.directories("_try") == ["_try/a"] and [one.size for one in files.files("_try/a")] == [2]
    files.delete("_try")
    assert not files.exists("_try/a/two")

    create_topic(1, name="007")  # a number to readers that guess
    create_topic(1, name="7")
    job = Archive(Topics(bootstrap, "007,7"), f"{mounted}/archive")
    for first in (0, 10):
        produce(bootstrap, "007", *numbers(first, first + 10))
        archive(spark, job)
    produce(bootstrap, "7", "20")
    merged = compact(spark, Compaction(job.target))
    assert (merged.records, merged.removed_files, merged.files) == (20, 2, 1)
    assert len(list((tmp_path / "mounted/archive/records").rglob("*.parquet"))) == 1
    archive(spark, job)
    rows = read_archive(spark, job.target)
    assert values(rows) == numbers(0, 21)
    found = {(row.topic, type(row.date)) for row in rows.collect()}
    assert found == {("007", date), ("7", date)}


def earlier_layout(spark: SparkSession, target: Path, topic: str, offsets: dict[int, int]) -> None:
    """What a released version left, killed while it moved the files of batch 2: its offsets are committed up
    to batch 1.
    """
    for batch, end in offsets.items():
        rows = spark.range(max(end - 10, 0), end, 1, 1).selectExpr(
            "cast(cast(id as string) as binary) as value", "0 as partition", "id as offset",
            "timestamp '2026-05-17 12:00:00' as timestamp",
        )  # fmt: skip
        place = target / f"records/topic={topic}/date=2026-05-17"
        rows.write.mode("overwrite").parquet(str(target / "written"))
        (part,) = (target / "written").glob("*.parquet")
        place.mkdir(parents=True, exist_ok=True)
        part.rename(place / f"batch-{batch:08}-00000-0.parquet")
        shutil.rmtree(target / "written")
        if batch < 2:
            for directory in ("records/_batches", "checkpoint/offsets", "checkpoint/commits"):
                (target / directory).mkdir(parents=True, exist_ok=True)
            note = {"batch_id": batch, "rows": 10, "files": []}
            (target / f"records/_batches/{batch}.json").write_text(json.dumps(note))
            (target / f"checkpoint/commits/{batch}").write_text("v1\n{}")
            wire = {topic: {"0": end, "1": 3}}
            (target / f"checkpoint/offsets/{batch}").write_text(f"v1\n{{}}\n{json.dumps(wire)}")


def test_an_archive_of_the_earlier_layout_continues_even_without_its_checkpoint(
    spark: SparkSession, bootstrap: str, create_topic: CreateTopic, tmp_path: Path
) -> None:
    topic, target = create_topic(2), tmp_path / "archive"
    produce(bootstrap, topic, *numbers(0, 45))
    produce(bootstrap, topic, *numbers(1000, 1005), partition=1)
    earlier_layout(spark, target, topic, {0: 10, 1: 20, 2: 30})
    shutil.rmtree(target / "checkpoint")
    before = read_archive(spark, str(target))  # readers need no run of the archive first
    assert Counter(values(before)) == Counter(numbers(0, 30))
    report = archive(spark, Archive(Topics(bootstrap, topic), str(target)))
    assert "made by an earlier version" in report.notes[0]
    expected = numbers(0, 45) + numbers(1000, 1005)
    rows = read_archive(spark, str(target))
    assert values(rows) == expected and report.total == len(expected)
    assert not (target / "records/_batches").exists()
    assert archive(spark, Archive(Topics(bootstrap, topic), str(target))).steps == 0


def test_a_run_goes_on_until_it_is_stopped(
    spark: SparkSession, bootstrap: str, create_topic: CreateTopic, tmp_path: Path
) -> None:
    topic, stop = create_topic(1), Event()
    job = Archive(Topics(bootstrap, topic), str(tmp_path / "archive"), every="100ms", rows_per_second=1000)
    reports = []
    told = Event()
    run = Thread(
        target=lambda: reports.append(archive(spark, job, stop=stop, tell=lambda progress: told.set()))
    )
    run.start()
    try:
        for first in (0, 10):
            told.clear()
            produce(bootstrap, topic, *numbers(first, first + 10))
            assert told.wait(120)
    finally:
        stop.set()
        run.join()
    assert reports[0].stopped and reports[0].records == 20
    assert values(read_archive(spark, job.target)) == numbers(0, 20)
