"""What an experiment leaves behind for the indicators: one event for each line, as JSON or as a row of
Parquet.

Owns the format. Whoever runs a load or a fault (the lab, a bench, a program of your own) writes these events;
one clock tells all times of a run.

============== ====== ==================================================================================
field          type   meaning
============== ====== ==================================================================================
kind           string ``acknowledged``, ``failed``, ``received``, ``fault`` or ``healed``; needed
time_us        long   when it happened, microseconds since 1970; needed
run            string name of the experiment; runs are reported side by side
mode           string replication mode, or whatever the runs are compared by
producer       string who sent the record; with ``sequence`` it names the record
sequence       long   counts what this producer sent to this partition: 0, 1, 2, …
partition      int    where it went, or was read from
offset         long   the place it got there
sent_us        long   of ``acknowledged`` and ``failed``: when it was handed to the client
bytes          long   of ``acknowledged``: size of key and value
name           string of ``fault`` and ``healed``: what was done, such as ``kill broker 2``
============== ====== ==================================================================================

A record is *lost* if it was acknowledged and never received; ``failed`` ones may turn up or not. So a history
is complete only if everything was read to its end after the last write.
"""

import json
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from tidelog.spark.options import OptionError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KINDS = ("acknowledged", "failed", "received", "fault", "healed")

DDL = (
    "kind string, time_us long, run string, mode string, producer string, sequence long, partition int, "
    "offset long, "
    "sent_us long, bytes long, name string"
)
FIELDS = tuple(part.split()[0] for part in DDL.split(", "))


class HistoryWriter:
    """Appends events to a file of JSON lines."""

    def __init__(self, path: Path | str, *, run: str, mode: str) -> None:
        self._file = Path(path).open("a")  # noqa: SIM115 — closed by __exit__
        self._always = {"run": run, "mode": mode}

    def __enter__(self) -> "HistoryWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def add(self, kind: str, time_us: int, **fields: Any) -> None:
        if kind not in KINDS:
            raise OptionError(f"There is no event {kind!r}; there are {', '.join(KINDS)}.")
        self._file.write(json.dumps({"kind": kind, "time_us": time_us, **self._always, **fields}) + "\n")


def read_history(spark: "SparkSession", paths: list[str]) -> "DataFrame":
    """Events of files or directories of Parquet (``.parquet``, or a directory with such) and JSON lines."""
    from pyspark.sql import functions

    events: DataFrame | None = None
    for path in paths:
        part = _read(spark, path)
        events = part if events is None else events.unionByName(part)
    if events is None:
        raise OptionError("No history is named.")
    unknown = (
        events.where(~functions.col("kind").isin(*KINDS) | functions.col("kind").isNull()).limit(1).collect()
    )
    if unknown:
        raise OptionError(f"There is an event of kind {unknown[0]['kind']!r}; there are {', '.join(KINDS)}.")
    return events.na.fill({"run": "run", "mode": "", "producer": "", "partition": 0})


def _read(spark: "SparkSession", path: str) -> "DataFrame":
    from pyspark.sql import functions

    if "://" not in path and not Path(path).exists():
        raise OptionError(f"There is no history {path}.")
    if not path.endswith(".parquet") and not any(Path(path).glob("*.parquet")):
        return spark.read.schema(DDL).option("mode", "FAILFAST").json(path)
    found = spark.read.parquet(path)
    types = dict(part.split() for part in DDL.split(", "))
    columns = [
        functions.col(name).cast(kind).alias(name)
        if name in found.columns
        else functions.lit(None).cast(kind).alias(name)
        for name, kind in types.items()
    ]
    return found.select(*columns)
