"""The lab's own figures and those of the pipeline agree to the record, for histories as JSON and as
Parquet."""

import random
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidelog.lab.figures import TopicEvents, Windows, figures
from tidelog.lab.history import HistoryWriter
from tidelog.lab.history_files import read_events, to_parquet
from tidelog.lab.results import Figures
from tidelog.spark.pipelines.indicators import Indicators, RunSummary, indicators, write_report

MS = 1000
START = 1_780_000_000_000 * MS
SAME = {
    "acknowledged": "acknowledged", "failed": "failed", "received": "received", "lost": "lost",
    "unacknowledged": "unacknowledged", "doubled": "duplicated", "disordered": "reordered",
    "misplaced": "misplaced", "vanished": "vanished", "torn_transactions": "torn_transactions",
    "lost_commits": "lost_commits", "skipped": "skipped",
}  # fmt: skip


def bad_round(directory: Path, run: str, seed: int) -> None:
    """What goes wrong is drawn: losses, copies, swaps, wrong offsets, torn transactions, lost commits."""
    chance = random.Random(seed)
    directory.mkdir(parents=True)
    with HistoryWriter(directory / "t.p.jsonl", run=run, mode="isr", topic="t") as events:
        events.add("fault", START + 200 * MS, name="kill -9 of broker 1")
        events.add("healed", START + 500 * MS, name="kill -9 of broker 1")
        for partition in range(2):
            offset = 0
            for sequence in range(200):
                sent = START + sequence * 5 * MS
                transaction = sequence // 10 if partition else None
                kind = chance.choice(["acknowledged"] * 8 + ["failed", "aborted"])
                place = offset + chance.choice([0] * 9 + [1])
                events.add(
                    kind, sent + chance.randrange(1, 90) * MS, producer="p", sequence=sequence,
                    partition=partition, sent_us=sent, bytes=100, transaction=transaction,
                    offset=place if kind == "acknowledged" else None,
                )  # fmt: skip
                if chance.random() < 0.1:
                    reader = chance.choice(["consumed", "consumed-raw"])
                    events.add(
                        reader, sent + 100 * MS, producer="p", sequence=sequence, partition=partition,
                        offset=offset, reader="g",
                    )  # fmt: skip
                for _ in range(chance.choice([0] + [1] * 12 + [2])):
                    shown = max(sequence - chance.choice([0] * 20 + [3]), 0)
                    events.add(
                        "received", START + 2_000 * MS, producer="p", sequence=shown, partition=partition,
                        offset=offset,
                    )  # fmt: skip
                    offset += 1
            for number in range(20):
                kind = chance.choice(["committed", "found"])
                at = 10 * number - chance.choice([0, 0, 0, 25])
                events.add(kind, START + number * 50 * MS, partition=partition, offset=at, reader="g")


WINDOWS = Windows(START, START + 200 * MS, START + 500 * MS, START + 1200 * MS)


def own(directory: Path) -> Figures:
    return figures(TopicEvents(read_events(directory), "t"), WINDOWS)


def compare(found: RunSummary, mine: Figures) -> None:
    theirs = {name: getattr(found, other) for name, other in SAME.items()}
    assert theirs == {name: getattr(mine, name) for name in SAME}
    assert found.downtime_ms == pytest.approx(mine.writes_stood_still_s * 1000)


def test_the_lab_and_the_pipeline_agree_to_the_record(spark: SparkSession, tmp_path: Path) -> None:
    for number in range(24):
        bad_round(tmp_path / "runs" / f"{number:03}", f"run {number:03}", number)
    expected = {f"run {number:03}": own(tmp_path / "runs" / f"{number:03}") for number in range(24)}
    total = {name: sum(getattr(one, name) for one in expected.values()) for name in SAME}
    assert all(total.values()), total  # every kind of damage is there
    for number in range(12):  # the others stay as JSON: both are read
        made = to_parquet(tmp_path / "runs" / f"{number:03}")
        assert made is not None and own(made.parent) == expected[f"run {number:03}"]

    report = indicators(spark, Indicators([str(tmp_path / "runs")]))
    assert [one.run for one in report.runs] == sorted(expected)
    for one in report.runs:
        compare(one, expected[one.run])
    # Of so many runs the worst are drawn, and all are in the tables.
    assert report.drawn is not None and len(report.drawn) == 20
    write_report(report, str(tmp_path / "report"))
    assert len((tmp_path / "report" / "runs.csv").read_text().splitlines()) == 25
    page = (tmp_path / "report" / "index.html").read_text()
    assert "Below are the 20 worst runs" in page and "24 runs" in page
