"""Figures of a run that was made up, so that each of them can be computed by hand."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidelog.spark import OptionError
from tidelog.spark.pipelines.indicators import HistoryWriter, Indicators, indicators, write_report

SECOND = 1_000_000
START = 1_780_000_000 * SECOND


def made_up(path: Path) -> None:
    """100 records a second for ten seconds, 5 ms each; a fault at 4 s stops partition 1 for 1.2 s."""
    with HistoryWriter(path, run="one", mode="isr") as history:
        history.add("fault", START + 4 * SECOND, name="kill broker 2")
        for number in range(1000):
            partition, sequence = number % 2, number // 2
            sent = START + number * SECOND // 100
            late = partition == 1 and 4 * SECOND <= sent - START < 5_200_000
            done = START + 5_200_000 + number if late else sent + 5000
            fields = {"producer": "p", "partition": partition, "sequence": sequence}
            history.add("acknowledged", done, sent_us=sent, bytes=1000, offset=sequence, **fields)
            if number not in (700, 701):  # lost
                history.add("received", done + 1000, offset=sequence, **fields)
        for sequence in (10, 11):  # again, at other offsets; and once more at the same one
            again = {"producer": "p", "partition": 0, "sequence": sequence, "offset": 600 + sequence}
            history.add("received", START + 11 * SECOND, **again)
            history.add("received", START + 12 * SECOND, **again)
        # Behind all others, though it was sent before them.
        history.add("acknowledged", START + 9 * SECOND, sent_us=START, producer="q", partition=0, sequence=0)
        history.add("received", START + 12 * SECOND, producer="q", partition=0, sequence=0, offset=9001)
        history.add("received", START + 12 * SECOND, producer="q", partition=0, sequence=1, offset=9000)


def test_every_figure_is_what_it_should_be(spark: SparkSession, tmp_path: Path) -> None:
    made_up(tmp_path / "history.jsonl")
    with HistoryWriter(tmp_path / "other.jsonl", run="two", mode="quorum") as history:
        for sequence in range(10):
            time_us = START + sequence * 1000
            history.add("acknowledged", time_us, sent_us=START, producer="p", sequence=sequence)
    paths = [str(tmp_path / "history.jsonl"), str(tmp_path / "other.jsonl")]
    report = indicators(spark, Indicators(paths))
    one, two = report.runs
    assert (one.run, one.mode, one.acknowledged) == ("one", "isr", 1001)
    assert one.records_per_s == pytest.approx(100, rel=0.02) and one.mb_per_s == pytest.approx(0.1, rel=0.02)
    assert one.p50_ms == 5.0 and one.max_ms == 9000.0 and 1000 < one.p99_ms < 1300
    assert (one.lost, one.duplicated, one.reordered) == (2, 2, 1)
    assert one.downtime_ms == pytest.approx(1200, abs=1)
    assert report.faults[0]["name"] == "kill broker 2" and report.faults[0]["partition"] == 1
    assert (two.lost, two.received, two.downtime_ms) == (10, 0, None)
    steps = [row for row in report.over_time if row["run"] == "one"]
    assert steps[0]["records_per_s"] == pytest.approx(100, abs=2) and steps[4]["records_per_s"] < 60

    written = write_report(report, str(tmp_path / "out"))
    assert {Path(path).name for path in written} == {
        "runs.csv", "over_time.csv", "faults.csv",
        "throughput.png", "latency.png", "downtime.png", "index.html",
    }  # fmt: skip
    page = (tmp_path / "out/index.html").read_text()
    assert page.count("data:image/png;base64,") == 3 and "kill broker 2" in page and "http" not in page
    assert (tmp_path / "out/latency.png").read_bytes().startswith(b"\x89PNG")


def test_a_history_that_is_none_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="There is no history"):
        indicators(spark, Indicators([str(tmp_path / "nothing.jsonl")]))
    (tmp_path / "odd.jsonl").write_text('{"kind": "guessed", "time_us": 1}\n')
    with pytest.raises(OptionError, match="'guessed'; there are acknowledged"):
        indicators(spark, Indicators([str(tmp_path / "odd.jsonl")]))
    with pytest.raises(OptionError, match="more than 0"):
        Indicators([], step_s=0)
