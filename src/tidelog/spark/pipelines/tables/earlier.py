"""Archives of the earlier layout, whose position was in a checkpoint and in notes beside the files.

Owns how such an archive becomes one with a log (:func:`take_over`), and how it is read before that happens.

========================== =========================================================
``PART/_batches/N.json``   micro-batch N is complete: its files and the number of rows
``PART/_merges/N.json``    a merge that has begun
``PART/_staging/``         what was being written
``checkpoint/``            Spark's: the offsets of each micro-batch
========================== =========================================================

The position is taken from the rows, which cannot be wrong: behind the last offset of each partition. The
checkpoint counts only for partitions without rows. It may be lost, or may not be the one that the notes
belong to. An archive whose log was deleted is taken over in the same way; its rows have the ids of their
topics.
"""

import json
from typing import TYPE_CHECKING, Any

from tidelog.spark.pipelines.decoding import DECODED
from tidelog.spark.pipelines.tables import Place, Position, Say, Span, Totals
from tidelog.spark.pipelines.tables.filesystem import Files
from tidelog.spark.pipelines.tables.log import Entry, Log
from tidelog.spark.pipelines.tables.schemas import merged, with_partition_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

UNDECODABLE = "undecodable"
_PARTS = ("records", UNDECODABLE)  # Of each micro-batch the undecodable records were added first.
_LEFTOVERS = ("_batches", "_merges", "_staging")


def take_over(spark: "SparkSession", target: str, files: Files, log: Log, before: Entry, say: Say) -> None:
    """Nothing is done if there is no such archive. ``before``: the state, which nothing was added to."""
    if not any(_data(files, part) for part in _PARTS) and not files.exists("checkpoint/offsets"):
        return
    for part in _PARTS:
        _finish_merges(files, part)
    _remove_incomplete(files)
    tables = {part: found for part in _PARTS if (found := read_earlier(spark, target, files, part))}
    if "records" in tables:
        tables["records"] = _without_dropped_values(tables["records"])
    spans, counts = contents(tables)
    from_rows = len(spans)
    with_rows = {(place.topic, place.partition) for place in spans}
    for place, offset in _checkpointed(files).items():
        if (place.topic, place.partition) not in with_rows:
            spans[place] = Span(offset, offset)
    data = [one for part in _PARTS for one in _data(files, part)]
    totals = Totals(
        counts.get("records", 0), counts.get("undecodable", 0), len(data), sum(one.size for one in data)
    )
    schemas = {part: table.schema.json() for part, table in tables.items()}
    log.commit(before, Entry(position=Position(spans).to_json(), schemas=schemas, totals=totals))
    for part in _PARTS:
        for name in _LEFTOVERS:
            files.delete(f"{part}/{name}")
    say(
        f"{target} has no log: it was made by an earlier version, or the log was deleted. Its position was "
        f"taken over from its records for {from_rows} of {len(spans)} partitions and from its checkpoint, "
        "which is not used any more, for the others."
    )


def read_earlier(spark: "SparkSession", target: str, files: Files, part: str) -> "DataFrame | None":
    names = [f"{target}/{one.name}" for one in _data(files, part)]
    if not names:
        return None
    schema = with_partition_columns(_schema_of(spark, f"{target}/{part}", names))
    reader = spark.read.option("basePath", f"{target}/{part}")
    # Files of both parts are written in one pass, so those of undecodable records have this column, too.
    rows = reader.schema(schema).parquet(*names)
    return rows.drop(DECODED) if part == UNDECODABLE else rows


def _schema_of(spark: "SparkSession", base: str, names: list[str]) -> "StructType":
    """All columns of all files. Spark does not merge a number with a wider one, which the table allows."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    reader = spark.read.option("basePath", base)
    try:
        return reader.option("mergeSchema", "true").parquet(*names).schema
    except (PySparkException, Py4JError):
        schema = None
        for name in names:
            schema = merged(schema, spark.read.option("basePath", base).parquet(name).schema, base)
        if schema is None:
            raise
        return schema


def _without_dropped_values(records: "DataFrame") -> "DataFrame":
    """Files of records whose values were dropped have the column, too, for the same reason. It would seem to
    hold tombstones.
    """
    if not {"value", DECODED} <= {*records.columns}:
        return records
    decoded = records.where(f"{DECODED} is not null")
    is_dropped = not decoded.isEmpty() and decoded.where("value is not null").isEmpty()
    return records.drop("value") if is_dropped else records


def _data(files: Files, part: str) -> list[Any]:
    """Files that count: not those that a merge has replaced, or will."""
    found = [one for one in files.files(part, recursive=True) if one.name.endswith(".parquet")]
    visible = {one.name: one for one in found if f"{part}/_" not in one.name}
    for plan in _plans(files, part):
        targets = {f"{part}/{one}" for one in plan["add"].values()}
        hidden = {f"{part}/{one}" for one in plan["remove"]} if targets <= visible.keys() else targets
        visible = {name: one for name, one in visible.items() if name not in hidden}
    return list(visible.values())


def _plans(files: Files, part: str) -> list[dict[str, Any]]:
    names = [one.name for one in files.files(f"{part}/_merges") if one.name.endswith(".json")]
    return [json.loads(files.read(name)) for name in names]


def _finish_merges(files: Files, part: str) -> None:
    for plan in _plans(files, part):
        for source, target in plan["add"].items():
            files.move(f"{part}/{source}", f"{part}/{target}")
        for name in plan["remove"]:
            files.delete(f"{part}/{name}")
    files.delete(f"{part}/_merges")


def _remove_incomplete(files: Files) -> None:
    """Files of a micro-batch that was not finished: it is read again.

    Without notes and checkpoint only a staging directory proves that a batch was not finished; everything
    else stays.
    """
    finished = _noted(files, "records") | _numbers(files, "checkpoint/commits")
    last = max(finished, default=-1)
    for part in _PARTS:
        for one in files.files(part, recursive=True):
            name = one.name.rpartition("/")[2]
            if not name.startswith("batch-") or f"{part}/_" in one.name:
                continue
            number = int(name.split("-")[1])
            if number > last and (finished or any(files.exists(f"{p}/_staging/{number}") for p in _PARTS)):
                files.delete(one.name)


def _noted(files: Files, part: str) -> set[int]:
    names = (one.name.rpartition("/")[2] for one in files.files(f"{part}/_batches"))
    return {int(name.removesuffix(".json")) for name in names if name.endswith(".json")}


def contents(tables: "dict[str, DataFrame]") -> tuple[dict[Place, Span], dict[str, int]]:
    """Offsets of each partition, and the rows of each table."""
    from pyspark.sql import functions

    spans: dict[Place, Span] = {}
    counts: dict[str, int] = {}
    for part, table in tables.items():
        # Rows of a version that did not record ids have none.
        has_ids = "topicId" in table.columns
        topic_id = (
            functions.coalesce(functions.col("topicId"), functions.lit("")) if has_ids else functions.lit("")
        )
        found = table.groupBy("topic", topic_id.alias("topic_id"), "partition").agg(
            functions.min("offset").alias("first"),
            functions.max("offset").alias("last"),
            functions.count("*").alias("rows"),
        )
        for row in found.collect():
            place = Place(row["topic"], row["topic_id"], row["partition"])
            known = spans.get(place, Span(row["first"], row["last"] + 1))
            spans[place] = Span(min(known.start, row["first"]), max(known.end, row["last"] + 1))
            counts[part] = counts.get(part, 0) + row["rows"]
    return spans, counts


def _checkpointed(files: Files) -> dict[Place, int]:
    """The offsets of the last micro-batch that Spark noted as done."""
    commits = _numbers(files, "checkpoint/commits")
    done = [number for number in _numbers(files, "checkpoint/offsets") if number in commits]
    if not done:
        return {}
    lines = files.read(f"checkpoint/offsets/{max(done)}").decode().splitlines()
    try:
        offsets = json.loads(lines[2])  # after the version and Spark's own settings
        return {
            Place(topic, "", int(partition)): int(offset)
            for topic, partitions in offsets.items()
            for partition, offset in partitions.items()
        }
    except (IndexError, ValueError, AttributeError):
        return {}


def _numbers(files: Files, directory: str) -> set[int]:
    names = (one.name.rpartition("/")[2] for one in files.files(directory))
    return {int(name) for name in names if name.isdecimal()}
