"""Reads the events of an experiment, as :mod:`tidelog.lab.history` writes and describes them, from files of
JSON lines or from Parquet with the same columns.

Owns what is accepted. A killed writer leaves a torn last line: it is left out and counted. Any other invalid
line is refused, because figures of half a history are wrong without looking so.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.spark.options import OptionError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KINDS = (
    "acknowledged", "failed", "aborted", "received", "consumed", "consumed-raw", "committed", "found",
    "plain-write", "plain-read", "leader", "usage", "fault", "healed", "redundant",
)  # fmt: skip

DDL = (
    "kind string, time_us long, run string, mode string, producer string, sequence long, partition int, "
    "offset long, sent_us long, bytes long, name string, topic string, reader string, transaction long, "
    "broker int, cpu_us long"
)
FIELDS = tuple(part.split()[0] for part in DDL.split(", "))

_BROKEN = "_broken"  # the text of an invalid line

_LOOK = f"""
select count_if({_BROKEN} is null) as events, count_if({_BROKEN} is not null) as broken,
  min({_BROKEN}) filter (where not ({_BROKEN} like '{{{{%' and trim({_BROKEN}) not like '%}}}}')) as odd,
  first(coalesce(kind, 'none')) filter (
    where {_BROKEN} is null and (kind is null or kind not in ({", ".join(f"'{kind}'" for kind in KINDS)}))
  ) as unknown,
  count_if({_BROKEN} is null and time_us is null) as timeless
from {{lines}}
"""


@dataclass(frozen=True, slots=True)
class History:
    events: "DataFrame"  # with the columns of DDL
    count: int
    torn_lines: int
    _cached: "DataFrame"

    def of_runs(self, names: "frozenset[str] | None") -> "DataFrame":
        """The events of these runs; None: all."""
        if names is None:
            return self.events
        from pyspark.sql import functions

        return self.events.where(functions.col("run").isin(sorted(names)))

    def release(self) -> None:
        """When all is computed: Spark caches the events until then."""
        self._cached.unpersist()


def read_history(spark: "SparkSession", paths: list[str]) -> History:
    """Events of files, and of directories of ``.jsonl``, ``.json`` or ``.parquet`` files."""
    if not paths:
        raise OptionError("No history is named.")
    lines = _read(spark, paths[0])
    for path in paths[1:]:
        lines = lines.unionByName(_read(spark, path))
    lines = lines.persist()
    try:
        [found] = spark.sql(_LOOK, lines=lines).collect()
        if found["odd"] is not None:
            raise OptionError(
                f"This line is not an event; remove it, or write the history again: {found['odd'][:200]}"
            )
        if found["unknown"] is not None:
            raise OptionError(
                f"There is an event of kind {found['unknown']!r}; there are {', '.join(KINDS)}."
            )
        if found["timeless"]:
            raise OptionError(f"{found['timeless']} events have no time_us, which every event needs.")
        if not found["events"]:
            raise OptionError(f"There are no events in {', '.join(paths)}.")
    except BaseException:
        lines.unpersist()
        raise
    events = lines.where(f"{_BROKEN} is null").select(*FIELDS)
    known = events.na.fill({"run": "run", "mode": "", "producer": "", "partition": 0})
    return History(known, found["events"], found["broken"], lines)


def _read(spark: "SparkSession", path: str) -> "DataFrame":
    parquet, texts = _files(path)
    if parquet and texts:
        return _parquet(spark, parquet).unionByName(_lines(spark, texts))
    return _parquet(spark, parquet) if parquet else _lines(spark, texts)


def _lines(spark: "SparkSession", files: list[str]) -> "DataFrame":
    from pyspark.sql import functions

    # Not read.json: Spark refuses a count if a query needs only the column of invalid lines.
    lines = spark.read.text(files).where("trim(value) != ''")
    event = functions.from_json("value", f"{DDL}, {_BROKEN} string", {"columnNameOfCorruptRecord": _BROKEN})
    return lines.select(event.alias("event")).select("event.*")


def _files(path: str) -> tuple[list[str], list[str]]:
    """What to read: Parquet files, and files of JSON lines. Of a local directory only histories, those of its
    subdirectories included: a report may be beside them.
    """
    if "://" in path or not Path(path).is_dir() or path.endswith(".parquet"):
        if "://" not in path and not Path(path).exists():
            raise OptionError(f"There is no history {path}.")
        return ([path], []) if path.endswith(".parquet") else ([], [path])
    parquet: list[str] = []
    texts: list[str] = []
    for directory, names in _walk(path):
        mine = [name for name in sorted(names) if not name.startswith((".", "_"))]
        found = [f"{directory}/{name}" for name in mine if name.endswith(".parquet")]
        parquet += found
        if not found:  # Beside Parquet they are what it was made of.
            texts += [f"{directory}/{name}" for name in mine if name.endswith(".jsonl")]
    if not parquet and not texts:
        texts = sorted(str(file) for file in Path(path).glob("*.json"))
    if not parquet and not texts:
        raise OptionError(f"There is no history in {path}: no file that ends in .jsonl, .json or .parquet.")
    return parquet, texts


def _walk(path: str) -> list[tuple[str, list[str]]]:
    """Directories and their files, without what is below hidden names: rounds that were not finished."""
    found = []
    for directory, below, names in os.walk(path):
        below[:] = [name for name in below if not name.startswith((".", "_"))]
        found.append((directory, names))
    return sorted(found)


def _parquet(spark: "SparkSession", files: list[str]) -> "DataFrame":
    from pyspark.sql import functions

    found = spark.read.parquet(*files)
    types = dict(part.split() for part in f"{DDL}, {_BROKEN} string".split(", "))
    columns = [
        functions.col(name).cast(kind).alias(name)
        if name in found.columns
        else functions.lit(None).cast(kind).alias(name)
        for name, kind in types.items()
    ]
    return found.select(*columns)
