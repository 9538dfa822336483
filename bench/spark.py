"""Spark reading and writing topics: this data source beside Spark's own connector, in one session, in turns.

Owns the topics, the order of queries and the targets. The broker is Tidelog's, the same for both. The first
run of every query warms up and is not counted.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from bench import spark_jars
from bench.lineup import CACHE, Options, work_directory
from bench.process import BenchError
from bench.report import Check, Column, Report, merge_rounds
from bench.servers import REPOSITORY, TidelogServer, Topics

PARTITIONS = 4
ROWS = 10_000_000
QUICK_ROWS = 1_000_000
SMALL_ROWS = 1_000
CALL_RECORDS = 10_000
ROUNDS_MAX = 3  # a round of all queries takes minutes
TUNED = {"kafka.max.poll.records": "10000"}  # the connector's real brake
VALUE = {"columns": "value"}
ANSWER_SECONDS = 1800

COLUMNS = (
    Column("rows_per_second", "rows/s", ",.0f"),
    Column("seconds", "s", ",.2f"),
    Column("cpu_us", "CPU µs/row", ",.3f"),
    Column("worker_mb", "worker MB", ",.0f"),
)

Step = dict[str, Any]


class SparkProcess:
    """See :mod:`bench.spark_session`."""

    def __init__(self, jars: Sequence[Path], bootstrap: str, directory: Path) -> None:
        self._log = directory / "spark.log"
        command = [sys.executable, "-m", "bench.spark_session", ",".join(map(str, jars)), bootstrap]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, str(directory)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=REPOSITORY,
            )
        self._read()

    def run(self, step: Step) -> dict[str, float]:
        sent = self._process.stdin
        if sent is None:
            raise BenchError("the Spark process has no input")
        sent.write(json.dumps(step) + "\n")
        sent.flush()
        answer = self._read()
        if "error" in answer:
            raise BenchError(f"{step['source']}, {step['query']}: {answer['error']}")
        return answer

    def stop(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _read(self) -> dict[str, Any]:
        line = self._process.stdout.readline() if self._process.stdout is not None else ""
        if not line:
            tail = " | ".join(self._log.read_text(errors="replace").strip().splitlines()[-4:])
            raise BenchError(f"the Spark process ended: {tail}")
        found: dict[str, Any] = json.loads(line)
        return found


class Bench:
    """One run: a broker, a session, topics, and what was measured."""

    def __init__(self, options: Options, directory: Path, stack: ExitStack) -> None:
        self.options = options
        self._server = TidelogServer(directory / "tidelog")
        stack.callback(self._server.stop)
        self._server.start()
        self.topics = Topics(self._server)
        self.has_connector = True
        try:
            with options.console.status(
                f"fetching Spark's connector {spark_jars.VERSION} (the first time only)"
            ):
                jars = spark_jars.jars(CACHE)
        except BenchError as error:
            options.say(f"Spark's own connector is left out: {error}")
            jars, self.has_connector = [], False
        self._spark = SparkProcess(jars, self._server.bootstrap, directory)
        stack.callback(self._spark.stop)
        self._written = 0
        self._rounds = min(options.rounds, ROUNDS_MAX)

    def fill(self, topic: str, rows: int, value_size: int, codec: str = "none") -> None:
        """Records like small JSON documents, the same in all partitions."""
        self.topics.create(topic, PARTITIONS)
        with self.options.console.status(f"writing {rows:,} records of {value_size} B to {topic}"):
            producer = Producer(
                {
                    "bootstrap.servers": self._server.bootstrap,
                    "compression.type": codec,
                    "queue.buffering.max.kbytes": 256 * 1024,
                    "queue.buffering.max.messages": 2_000_000,
                }
            )
            messages = [{"value": _document(number, value_size)} for number in range(CALL_RECORDS)]
            for done in range(0, rows, CALL_RECORDS):
                part = messages[: rows - done]
                producer.produce_batch(topic, part, partition=done // CALL_RECORDS % PARTITIONS)
                if done % (40 * CALL_RECORDS) == 0:
                    producer.flush()
            if producer.flush(120):
                raise BenchError(f"not all records of {topic} could be written")

    def measure(self, label: str, steps: dict[str, Step], rows: int, report: Report) -> None:
        """All steps in turns, after a round that does not count; the medians become rows."""
        found: dict[str, list[dict[str, float | None]]] = {name: [] for name in steps}
        for number in range(self._rounds + 1):
            names = list(steps)[number % len(steps) :] + list(steps)[: number % len(steps)]
            for name in names:
                with self.options.console.status(f"{label}: {name}, round {number} of {self._rounds}"):
                    cost = self._spark.run(self._prepared(steps[name]))
                if number:
                    found[name].append(
                        {
                            "rows_per_second": rows / cost["seconds"],
                            "seconds": cost["seconds"],
                            "cpu_us": cost["cpu_seconds"] * 1e6 / rows,
                            "worker_mb": cost["worker_mb"],
                        }
                    )
        for name, rounds in found.items():
            report.rows.append({"query": label, "source": name} | merge_rounds(rounds))

    def _prepared(self, step: Step) -> Step:
        if step["query"] != "write":
            return step
        self._written += 1
        topic = f"written-{self._written}"
        self.topics.create(topic, PARTITIONS)
        return step | {"topic": topic}


def _document(number: int, size: int) -> bytes:
    start = b'{"id":%08d,"name":"customer %d","amount":%d.25,"city":"%s","note":"' % (
        number,
        number * 7919 % 10_007,
        number % 1000,
        (b"Berlin", b"Lisboa", b"Oslo")[number % 3],
    )
    filler = b"%016x" % (number * 2_654_435_761 % (1 << 64)) * (size // 16 + 1)
    return (start + filler)[: size - 2] + b'"}'


@contextmanager
def running(options: Options) -> Iterator[Bench]:
    with work_directory() as directory, ExitStack() as stack:
        yield Bench(options, directory, stack)


def run(options: Options) -> list[Report]:
    rows = options.rows or (QUICK_ROWS if options.quick else ROWS)
    title = f"Spark, local[2], {rows:,} records of 100 B in {PARTITIONS} partitions"
    report = Report(title, COLUMNS, ("query", "source"))
    with running(options) as bench:
        plan = _Plan(bench, report)
        bench.fill("plain", rows, 100)
        plan.read("sum of lengths", "plain", "sum", rows, 100, tuned=True, value=True)
        plan.read("count", "plain", "count", rows)
        plan.read("seven columns", "plain", "noop", rows)
        plan.read("to Parquet", "plain", "parquet", rows)
        plan.read("AvailableNow to Parquet", "plain", "available now", rows)
        for codec in ("lz4", "zstd"):
            bench.fill(codec, rows // 2, 100, codec)
            plan.read(f"sum of lengths, {codec}", codec, "sum", rows // 2, 100, tuned=True, value=True)
        bench.fill("large", rows // 10, 1000)
        plan.read("sum of lengths, 1 KB", "large", "sum", rows // 10, 1000, tuned=True)
        bench.fill("small", SMALL_ROWS, 100)
        plan.read("a small topic", "small", "count", SMALL_ROWS)
        plan.write(rows // 2)
    report.checks += _checks(report)
    return [report]


class _Plan:
    """Which sources run which query."""

    def __init__(self, bench: Bench, report: Report) -> None:
        self._bench = bench
        self._report = report

    def read(
        self,
        label: str,
        topic: str,
        query: str,
        rows: int,
        value_size: int | None = None,
        *,
        tuned: bool = False,
        value: bool = False,
    ) -> None:
        expected = rows if value_size is None else rows * value_size
        step: Step = {"query": query, "topic": topic, "expected": expected}
        steps: dict[str, Step] = {"tidelog": step | {"source": "tidelog"}}
        if value:
            steps["tidelog, value only"] = step | {"source": "tidelog", "options": VALUE}
        if self._bench.has_connector:
            steps["connector"] = step | {"source": "connector"}
            if tuned:
                steps["connector, tuned"] = step | {"source": "connector", "options": TUNED}
        self._bench.measure(label, steps, rows, self._report)

    def write(self, rows: int) -> None:
        sources = ["tidelog", *(["connector"] if self._bench.has_connector else [])]
        steps = {name: {"query": "write", "expected": rows, "source": name} for name in sources}
        self._bench.measure("writing", steps, rows, self._report)


def _checks(report: Report) -> list[Check]:
    def ratio(query: str, ours: str = "tidelog", theirs: str = "connector") -> float | None:
        return report.ratio(
            "rows_per_second", {"query": query, "source": ours}, {"query": query, "source": theirs}
        )

    checks = [
        Check(f"{query}: over the connector", ratio(query), 2.0)
        for query in ("sum of lengths", "count", "seven columns")
    ]
    for query in ("sum of lengths", "sum of lengths, lz4", "sum of lengths, zstd"):
        if query != "sum of lengths":
            checks.append(Check(f"{query}: over the connector", ratio(query), 2.0))
        checks.append(Check(f"{query}: over the tuned one", ratio(query, theirs="connector, tuned"), 1.2))
        value = ratio(query, "tidelog, value only", "connector, tuned")
        checks.append(Check(f"{query}: value only, over the tuned one", value, 1.5))
    bounds = {
        "to Parquet": 1.3,
        "AvailableNow to Parquet": 1.3,
        "sum of lengths, 1 KB": 1.3,
        "a small topic": 1.0,
        "writing": 1.2,
    }
    return checks + [
        Check(f"{query}: over the connector", ratio(query), bound) for query, bound in bounds.items()
    ]


def run_volume(options: Options) -> list[Report]:
    """Whether a row costs the same, and memory stays flat, when there is ten times as much to read."""
    rows = (options.rows or (QUICK_ROWS if options.quick else ROWS)) // PARTITIONS * PARTITIONS
    report = Report(
        f"Spark reading {rows:,} records of 1 KB, and a tenth of them", COLUMNS, ("query", "source")
    )
    with running(options) as bench:
        bench.fill("volume", rows, 1000)
        part = rows // 10
        bench.fill("tenth", part, 1000)
        for label, topic, count in (("a tenth", "tenth", part), ("all", "volume", rows)):
            step = {"query": "noop", "topic": topic, "expected": count, "source": "tidelog"}
            bench.measure(label, {"tidelog": step}, count, report)
    for key, name, bound in (("cpu_us", "CPU per row", 1.15), ("worker_mb", "memory of a worker", 1.15)):
        grown = report.ratio(
            key, {"query": "all", "source": "tidelog"}, {"query": "a tenth", "source": "tidelog"}
        )
        report.checks.append(Check(f"{name}, all over a tenth", grown, bound, at_least=False))
    return [report]
