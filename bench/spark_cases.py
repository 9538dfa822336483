"""Which queries the Spark bench runs, over which topics, and what is wanted of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from bench.report import Check, Report

TUNED = {"kafka.max.poll.records": "10000"}  # the connector's real brake
VALUE = {"columns": "value"}
SMALL_ROWS = 1_000
SMALL_ROUNDS = 15  # a query of a second varies more than one of a minute
PARTITIONS = 4
MANY_PARTITIONS = 200

Step = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Topic:
    """Records of one kind and size; ``share`` of the rows that were asked for."""

    name: str
    value_size: int = 100
    codec: str = "none"
    share: float = 1.0
    rows_fixed: int | None = None
    partitions: int = PARTITIONS
    content: str = "document"  # see bench.spark_documents

    def rows(self, asked: int) -> int:
        return self.rows_fixed or int(asked * self.share)


@dataclass(frozen=True, slots=True)
class Case:
    """One query, the same for both sources; the wanted ratios of rows/s over the connector."""

    label: str
    query: str
    topic: Topic | None  # None: it writes one
    wanted: float
    wanted_tuned: float | None = None
    wanted_value: float | None = None  # only the column ``value``, over the tuned one
    rounds: int | None = None  # None: as many as were asked for

    @property
    def topics(self) -> tuple[Topic, ...]:
        return () if self.topic is None else (self.topic,)

    def rows(self, asked: int) -> int:
        return int(asked * WRITTEN_SHARE) if self.topic is None else self.topic.rows(asked)

    def steps(self, rows: int, *, has_connector: bool) -> dict[str, Step]:
        step: Step = {"query": self.query, "expected": rows}
        if self.topic is not None:
            step |= {"topic": self.topic.name}
            if self.query == "sum":
                step |= {"expected": rows * self.topic.value_size}
        steps: dict[str, Step] = {"tidelog": step | {"source": "tidelog"}}
        if self.wanted_value is not None:
            steps["tidelog, value only"] = step | {"source": "tidelog", "options": VALUE}
        if has_connector:
            steps["connector"] = step | {"source": "connector"}
            if self.wanted_tuned is not None:
                steps["connector, tuned"] = step | {"source": "connector", "options": TUNED}
        return steps

    def checks(self, report: Report) -> Iterator[Check]:
        yield Check(f"{self.label}: over the connector", self._ratio(report), self.wanted)
        if self.wanted_tuned is not None:
            ratio = self._ratio(report, theirs="connector, tuned")
            yield Check(f"{self.label}: over the tuned one", ratio, self.wanted_tuned)
        if self.wanted_value is not None:
            ratio = self._ratio(report, "tidelog, value only", "connector, tuned")
            yield Check(f"{self.label}: value only, over the tuned one", ratio, self.wanted_value)

    def _ratio(self, report: Report, ours: str = "tidelog", theirs: str = "connector") -> float | None:
        return report.ratio(
            "rows_per_second", {"query": self.label, "source": ours}, {"query": self.label, "source": theirs}
        )


@dataclass(frozen=True, slots=True)
class SchemaCase:
    """Documents with a schema of a registry beside the same documents as JSON, which Spark itself decodes."""

    label: str
    topics: tuple[Topic, ...]  # JSON, Avro
    wanted: float
    rounds: int | None = None  # None: as many as were asked for

    def rows(self, asked: int) -> int:
        return self.topics[0].rows(asked)

    def steps(self, rows: int, *, has_connector: bool) -> dict[str, Step]:
        step: Step = {"query": "decoded", "source": "tidelog", "options": VALUE, "expected": rows}
        return {one.content: step | {"topic": one.name, "content": one.content} for one in self.topics}

    def checks(self, report: Report) -> Iterator[Check]:
        theirs, ours = ({"query": self.label, "source": one.content} for one in self.topics)
        yield Check(
            f"{self.label}: Avro over JSON", report.ratio("rows_per_second", ours, theirs), self.wanted
        )


WRITTEN_SHARE = 0.5
_PLAIN = Topic("plain")

CASES: tuple[Case | SchemaCase, ...] = (
    Case("sum of lengths", "sum", _PLAIN, 2.0, 1.2, 1.5),
    Case("count", "count", _PLAIN, 2.0),
    Case("seven columns", "noop", _PLAIN, 2.0),
    Case("to Parquet", "parquet", _PLAIN, 1.3),
    Case("AvailableNow to Parquet", "available now", _PLAIN, 1.3),
    Case("archive", "archive", _PLAIN, 2.0),
    Case("sum of lengths, lz4", "sum", Topic("lz4", codec="lz4", share=0.5), 2.0, 1.2, 1.5),
    Case("sum of lengths, zstd", "sum", Topic("zstd", codec="zstd", share=0.5), 2.0, 1.2, 1.5),
    Case("sum of lengths, 1 KB", "sum", Topic("large", value_size=1000, share=0.1), 1.3),
    Case("a small topic", "count", Topic("small", rows_fixed=SMALL_ROWS), 1.0, rounds=SMALL_ROUNDS),
    Case(
        "a small topic of 200 partitions",
        "count",
        Topic("scattered", rows_fixed=SMALL_ROWS, partitions=MANY_PARTITIONS),
        1.0,
    ),
    Case("writing", "write", None, 1.2),
    SchemaCase(
        "decoded",
        (Topic("json", share=0.5, content="json"), Topic("avro", share=0.5, content="avro")),
        0.7,
    ),
)


def chosen(words: Sequence[str]) -> list[Case | SchemaCase]:
    """The cases with one of the words in their names; all of them without words."""
    return [case for case in CASES if not words or any(word in case.label for word in words)]
