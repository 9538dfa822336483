"""A Spark session in a process of its own that runs one query at a time, as told on standard input.

Both connectors are loaded into the same session and take turns, so JVM, heap, codegen and the machine's mood
are the same for both. Every answer of a query is checked; what it cost is wall time, CPU time of the session
with all its children, and the memory of the largest Python worker.
"""

import contextlib
import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.process import resident_mb

FORMATS = {"tidelog": "tidelog", "connector": "kafka"}

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "3g",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.streaming.metricsEnabled": "false",
}

Query = dict[str, Any]


class Session:
    def __init__(self, jars: str, bootstrap: str, directory: Path) -> None:
        from pyspark.sql import SparkSession

        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
        builder = SparkSession.builder.master("local[2]").appName("bench")
        builder = builder.config("spark.sql.warehouse.dir", str(directory / "warehouse"))
        for name, value in (SETTINGS | ({"spark.jars": jars} if jars else {})).items():
            builder = builder.config(name, value)
        self._spark = builder.getOrCreate()
        self._spark.sparkContext.setLogLevel("ERROR")
        self._bootstrap = bootstrap
        self._directory = directory
        self._made = 0
        self._file_mb: float | None = None  # average size of the files that the last query made

    def run(self, query: Query) -> dict[str, float]:
        """What one query cost; a wrong answer ends the bench."""
        work: dict[str, Callable[[Query], int]] = {
            "sum": self._sum,
            "count": self._count,
            "noop": self._noop,
            "parquet": self._parquet,
            "available now": self._available_now,
            "archive": self._archive,
            "write": self._write,
            "decoded": self._decoded,
        }
        self._file_mb = None
        cpu, started = _tree_cpu_seconds(), time.perf_counter()
        answer = work[query["query"]](query)
        seconds, cpu = time.perf_counter() - started, _tree_cpu_seconds() - cpu
        if answer != query["expected"]:
            raise RuntimeError(f"{query} answered {answer}")
        cost = {"seconds": seconds, "cpu_seconds": cpu, "worker_mb": _largest_worker_mb()}
        return cost if self._file_mb is None else cost | {"file_mb": self._file_mb}

    def _options(self, query: Query) -> dict[str, str]:
        named: dict[str, str] = {"kafka.bootstrap.servers": self._bootstrap, "subscribe": query["topic"]}
        named.update(query.get("options", {}))
        return named

    def _frame(self, query: Query) -> Any:
        return self._spark.read.format(FORMATS[query["source"]]).options(**self._options(query)).load()

    def _sum(self, query: Query) -> int:
        return int(self._frame(query).selectExpr("sum(length(value))").collect()[0][0])

    def _count(self, query: Query) -> int:
        return int(self._frame(query).count())

    def _noop(self, query: Query) -> int:
        self._frame(query).write.format("noop").mode("overwrite").save()
        return int(query["expected"])

    def _parquet(self, query: Query) -> int:
        target = self._fresh()
        self._frame(query).write.parquet(target)
        return self._counted(target)

    def _available_now(self, query: Query) -> int:
        target = self._fresh()
        options = self._options(query) | {"startingOffsets": "earliest"}
        frame = self._spark.readStream.format(FORMATS[query["source"]]).options(**options).load()
        writer = frame.writeStream.format("parquet").option("checkpointLocation", f"{target}-checkpoint")
        writer.trigger(availableNow=True).start(target).awaitTermination()
        return self._counted(target)

    def _archive(self, query: Query) -> int:
        """The finished pipeline with its defaults. With the connector, a stream that somebody writes to get
        the same rows in the same directories.
        """
        if query["source"] != "tidelog":
            return self._archive_by_stream(query)
        from tidelog.spark.pipelines import Archive, Topics, archive

        target = self._fresh()
        report = archive(self._spark, Archive(Topics(self._bootstrap, query["topic"]), target))
        self._file_mb = report.total_bytes / report.files / 1e6
        shutil.rmtree(target)
        return report.records

    def _archive_by_stream(self, query: Query) -> int:
        from pyspark.sql import functions

        target = self._fresh()
        wanted = {"includeHeaders": "true", "kafka.isolation.level": "read_committed"}
        options = self._options(query) | {"startingOffsets": "earliest"} | wanted
        frame = self._spark.readStream.format(FORMATS[query["source"]]).options(**options).load()
        dated = frame.withColumn("date", functions.to_date("timestamp"))
        writer = dated.writeStream.format("parquet").partitionBy("topic", "date")
        writer = writer.option("checkpointLocation", f"{target}-checkpoint")
        writer.trigger(availableNow=True).start(target).awaitTermination()
        return self._counted(target)

    def _write(self, query: Query) -> int:
        rows = self._spark.range(0, query["expected"], 1, 4)
        values = rows.selectExpr("cast(concat(lpad(id, 20, '0'), repeat('x', 80)) AS binary) AS value")
        writer = values.write.format(FORMATS[query["source"]]).option("topic", query["topic"])
        writer.option("kafka.bootstrap.servers", self._bootstrap).mode("append").save()
        return int(query["expected"])

    def _decoded(self, query: Query) -> int:
        """All fields of small documents: JSON by Spark itself, Avro by the schema of a registry."""
        from pyspark.sql import functions

        from bench.spark_documents import COLUMNS, SUBJECT
        from tidelog.spark import from_tidelog

        if query["content"] == "json":
            made = functions.from_json(functions.col("value").cast("string"), COLUMNS)
        else:
            made = from_tidelog("value", registry=query["registry"], subject=SUBJECT)
        fields = self._frame(query).select(made.alias("document")).select("document.*")
        texts = "sum(length(name)), sum(length(city)), sum(length(note))"
        return int(fields.selectExpr("count(id)", "sum(amount)", *texts.split(", ")).collect()[0][0])

    def _fresh(self) -> str:
        self._made += 1
        return str(self._directory / f"table-{self._made}")

    def _counted(self, target: str) -> int:
        """Rows that came out, from the footers of the files alone."""
        import pyarrow.parquet

        files = list(Path(target).rglob("*.parquet"))
        rows: int = sum(pyarrow.parquet.read_metadata(file).num_rows for file in files)
        shutil.rmtree(target)
        shutil.rmtree(f"{target}-checkpoint", ignore_errors=True)
        return rows


# -- what it cost --------------------------------------------------------------------


def _descendants() -> list[int]:
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                children.setdefault(int(fields[1]), []).append(int(entry.name))
    found = [os.getpid()]
    for pid in found:
        found += children.get(pid, [])
    return found


def _tree_cpu_seconds() -> float:
    """Of this process and all below it, ended ones included."""
    ticks = 0
    for pid in _descendants():
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _largest_worker_mb() -> float:
    """The JVM's memory is a setting; that of its Python workers is what a query makes of it."""
    sizes = [0.0]
    for pid in _descendants()[1:]:
        with contextlib.suppress(Exception):
            if "python" in Path(f"/proc/{pid}/exe").readlink().name:
                sizes.append(resident_mb(pid))
    return max(sizes)


def main() -> None:
    jars, bootstrap, directory = sys.argv[1:4]
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever Spark prints goes elsewhere
    session = Session(jars, bootstrap, Path(directory))
    print(json.dumps({"ready": True}), file=answers)
    for line in sys.stdin:
        answer: dict[str, Any]
        try:
            answer = session.run(json.loads(line))
        except Exception as error:  # the bench tells it and goes on without this one
            answer = {"error": str(error)[:2000]}
        print(json.dumps(answer), file=answers)


if __name__ == "__main__":
    main()
