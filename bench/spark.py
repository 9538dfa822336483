"""Spark reading and writing topics: this data source beside Spark's own connector, in one session, in turns.

Owns the topics and the order of queries, which :mod:`bench.spark_cases` names. The broker is Tidelog's, the
same for both. The first run of every query warms up and is not counted.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from bench import spark_cases, spark_documents, spark_jars
from bench.lineup import CACHE, Options, work_directory
from bench.process import BenchError
from bench.report import Check, Column, Report, merge_rounds
from bench.servers import REPOSITORY, TidelogServer, Topics
from bench.spark_cases import PARTITIONS, Step, Topic

ROWS = 10_000_000
QUICK_ROWS = 1_000_000
CALL_RECORDS = 10_000
FLUSH_BYTES = 100 << 20  # less than half of the client's queue
ROUNDS_MAX = 3  # a round of all queries takes minutes

COLUMNS = (
    Column("rows_per_second", "rows/s", ",.0f"),
    Column("seconds", "s", ",.2f"),
    Column("cpu_us", "CPU µs/row", ",.3f"),
    Column("worker_mb", "worker MB", ",.0f"),
)
VOLUME_COLUMNS = (*COLUMNS, Column("file_mb", "file MB", ",.0f"))
VOLUME_BYTES = 1000
VOLUME_QUERIES = {"noop": "reading", "archive": "archiving"}


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
        self._registry = stack.enter_context(spark_documents.registry())
        self._written = 0
        self._rounds = min(options.rounds, ROUNDS_MAX)

    def fill(
        self,
        topic: str,
        rows: int,
        value_size: int,
        codec: str = "none",
        partitions: int = PARTITIONS,
        content: str = "document",
    ) -> None:
        """Records like small JSON documents, the same in all partitions."""
        self.topics.create(topic, partitions)
        call_records = min(CALL_RECORDS, max(rows // partitions, 1))
        with self.options.console.status(f"writing {rows:,} records of {value_size} B to {topic}"):
            producer = Producer(
                {
                    "bootstrap.servers": self._server.bootstrap,
                    "compression.type": codec,
                    "queue.buffering.max.kbytes": 256 * 1024,
                    "queue.buffering.max.messages": 2_000_000,
                }
            )
            made = spark_documents.CONTENTS[content]
            messages = [{"value": made(number, value_size)} for number in range(call_records)]
            waiting_bytes = 0
            for done in range(0, rows, call_records):
                part = messages[: rows - done]
                taken = producer.produce_batch(topic, part, partition=done // call_records % partitions)
                waiting_bytes += len(part) * value_size
                if taken != len(part):  # its queue was full
                    raise BenchError(f"the client did not take all records of {topic}")
                if waiting_bytes >= FLUSH_BYTES:
                    producer.flush(120)
                    waiting_bytes = 0
            if producer.flush(120):
                raise BenchError(f"not all records of {topic} could be written")

    def measure(
        self, label: str, steps: dict[str, Step], rows: int, report: Report, rounds: int | None = None
    ) -> None:
        """All steps in turns, after a round that does not count; the medians become rows."""
        found: dict[str, list[dict[str, float | None]]] = {name: [] for name in steps}
        last = rounds or self._rounds
        for number in range(last + 1):
            names = list(steps)[number % len(steps) :] + list(steps)[: number % len(steps)]
            for name in names:
                with self.options.console.status(f"{label}: {name}, round {number} of {last}"):
                    cost = self._spark.run(self._prepared(steps[name]))
                if number:
                    found[name].append(
                        {
                            "rows_per_second": rows / cost["seconds"],
                            "seconds": cost["seconds"],
                            "cpu_us": cost["cpu_seconds"] * 1e6 / rows,
                            "worker_mb": cost["worker_mb"],
                            "file_mb": cost.get("file_mb"),
                        }
                    )
        for name, measured in found.items():
            report.rows.append({"query": label, "source": name} | merge_rounds(measured))

    def _prepared(self, step: Step) -> Step:
        if step["query"] == "decoded":
            return step | {"registry": self._registry}
        if step["query"] != "write":
            return step
        self._written += 1
        topic = f"written-{self._written}"
        self.topics.create(topic, PARTITIONS)
        return step | {"topic": topic}


@contextmanager
def running(options: Options) -> Iterator[Bench]:
    with work_directory() as directory, ExitStack() as stack:
        yield Bench(options, directory, stack)


def run(options: Options) -> list[Report]:
    rows = options.rows or (QUICK_ROWS if options.quick else ROWS)
    cases = spark_cases.chosen(options.queries)
    if not cases:
        names = ", ".join(case.label for case in spark_cases.CASES)
        raise BenchError(f"No query has {' or '.join(options.queries)} in its name; there are {names}.")
    title = f"Spark, local[2], {rows:,} records of 100 B in {PARTITIONS} partitions"
    report = Report(title, COLUMNS, ("query", "source"))
    filled: set[Topic] = set()
    with running(options) as bench:
        for case in cases:
            count = case.rows(rows)
            for topic in case.topics:
                if topic not in filled:
                    filled.add(topic)
                    bench.fill(
                        topic.name, count, topic.value_size, topic.codec, topic.partitions, topic.content
                    )
            steps = case.steps(count, has_connector=bench.has_connector)
            bench.measure(case.label, steps, count, report, case.rounds)
    report.checks += [check for case in cases for check in case.checks(report)]
    return [report]


def run_volume(options: Options) -> list[Report]:
    """Whether a row costs the same, and memory stays flat, when there is ten times as much to read or to
    archive; and how large the files of the archive are.
    """
    rows = (options.rows or (QUICK_ROWS if options.quick else ROWS)) // PARTITIONS * PARTITIONS
    size = options.value_bytes or VOLUME_BYTES
    title = f"Spark reading and archiving {rows:,} records of {size:,} B, and a tenth of them"
    report = Report(title, VOLUME_COLUMNS, ("query", "source"))
    with running(options) as bench:
        parts = {"a tenth": ("tenth", rows // 10), "all": ("volume", rows)}
        for topic, count in parts.values():
            bench.fill(topic, count, size)
        for query in VOLUME_QUERIES:
            for part, (topic, count) in parts.items():
                step = {"query": query, "topic": topic, "expected": count, "source": "tidelog"}
                bench.measure(f"{VOLUME_QUERIES[query]}, {part}", {"tidelog": step}, count, report)
    report.checks = [check for name in VOLUME_QUERIES.values() for check in _volume_checks(report, name)]
    return [report]


def _volume_checks(report: Report, name: str) -> Iterator[Check]:
    whole, tenth = ({"query": f"{name}, {part}", "source": "tidelog"} for part in ("all", "a tenth"))
    for key, meaning in (("cpu_us", "CPU per row"), ("worker_mb", "memory of a worker")):
        grown = report.ratio(key, whole, tenth)
        yield Check(f"{name}: {meaning}, all over a tenth", grown, 1.15, at_least=False)
