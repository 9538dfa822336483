"""Directories of Parquet files to which the micro-batches of a streaming query are added once.

Owns the rule that ties a table to a checkpoint. The table's log (:mod:`tidelog.spark.pipelines.tables.log`)
has the id of the checkpoint and the number of the last micro-batch. A batch that is run again is there
already. A checkpoint that was deleted and began again has another id: it would add all rows once more, so it
is refused.
"""

import json
from functools import cached_property
from typing import TYPE_CHECKING

from tidelog.spark.pipelines.tables import TableError, Totals
from tidelog.spark.pipelines.tables.filesystem import Files, files_at
from tidelog.spark.pipelines.tables.log import Entry, Log, placed
from tidelog.spark.pipelines.tables.parquet import write_counted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_NOTES = "_batches"  # Of the earlier layout: one file for each micro-batch, whatever its checkpoint was.


class OtherCheckpoint(TableError):
    """A table that another checkpoint has filled."""


class ParquetFiles:
    def __init__(self, spark: "SparkSession", path: str, checkpoint: str) -> None:
        self.path = path.rstrip("/")
        self._spark = spark
        self._checkpoint = checkpoint

    @cached_property
    def _files(self) -> Files:
        return files_at(self._spark, self.path)

    @cached_property
    def _log(self) -> Log:
        return Log(self._files)

    def check(self) -> None:
        """Raise :class:`OtherCheckpoint` now rather than in the first micro-batch."""
        entry, found = self._log.last(), self._checkpoint_id()
        if not entry.is_new and not entry.position.startswith("{"):
            raise TableError(f"{self.path} is an archive, not the table of a stream: name another one.")
        if entry.totals.records and json.loads(entry.position)["checkpoint"] != found:
            raise self._refusal()
        if found is None and any(self._noted().values()):
            raise self._refusal()

    def add(self, rows: "DataFrame", batch_id: int) -> int:
        """Add the rows of a micro-batch, unless they are there; returns how many were added."""
        before = self._log.recover()
        if before.is_new:
            before = self._taken_over(before, batch_id)
        if before.totals.records:
            position = json.loads(before.position)
            if position["checkpoint"] != self._checkpoint_id():
                raise self._refusal()
            if batch_id <= position["batch"]:
                return 0
        staging = self._log.new_staging()
        count = write_counted(rows, (), f"{self.path}/{staging}")
        staged = self._log.staged(staging)
        totals = Totals(
            before.totals.records + count,
            0,
            before.totals.files + len(staged),
            before.totals.bytes + sum(one.size for one in staged),
        )
        moves = placed(staged, staging, lambda inner: inner)
        position_text = self._position(batch_id)
        self._log.commit(before, Entry(0, position_text, {}, totals, staging, moves))
        return count

    def row_total(self) -> int:
        return self._log.last().totals.records

    def _taken_over(self, before: Entry, batch_id: int) -> Entry:
        """The state of a table with notes. A note does not say of which checkpoint it is. A checkpoint that
        goes on repeats at most the last noted batch; one that began again comes by all of them.
        """
        noted = self._noted()
        if not noted:
            return before
        last = max(noted)
        if batch_id < last or batch_id == 0:
            raise self._refusal()
        for one in self._files.files("", recursive=True):
            if one.name.startswith("batch-") and int(one.name.split("-")[1]) > last:
                self._files.delete(one.name)  # of a batch that was never noted, and is run again
        data = [one for one in self._files.files("") if one.name.endswith(".parquet")]
        totals = Totals(sum(noted.values()), 0, len(data), sum(one.size for one in data))
        entry = self._log.commit(before, Entry(position=self._position(last), totals=totals))
        self._files.delete(_NOTES)
        return entry

    def _noted(self) -> dict[int, int]:
        """Rows of each micro-batch."""
        names = [one.name for one in self._files.files(_NOTES) if one.name.endswith(".json")]
        notes = [json.loads(self._files.read(name)) for name in names]
        return {note["batch_id"]: note["rows"] for note in notes}

    def _position(self, batch_id: int) -> str:
        return json.dumps({"checkpoint": self._checkpoint_id(), "batch": batch_id})

    def _checkpoint_id(self) -> str | None:
        """Spark makes one up when a query begins."""
        try:
            content = files_at(self._spark, self._checkpoint).read("metadata")
        except FileNotFoundError:
            return None
        return str(json.loads(content)["id"])

    def _refusal(self) -> OtherCheckpoint:
        return OtherCheckpoint(
            f"{self.path} has rows of another checkpoint than {self._checkpoint}, which would add them a "
            "second time: restore that checkpoint, or remove the table, or name another one."
        )
