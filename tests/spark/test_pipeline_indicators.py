"""Figures of a run that was made up, so that each of them can be computed by hand."""

import csv
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tidelog.lab.history import KINDS, Event, HistoryWriter
from tidelog.spark import OptionError
from tidelog.spark.pipelines.indicators import (
    Indicators,
    IndicatorsReport,
    history,
    indicators,
    notes,
    read_history,
    write_report,
)

SECOND = 1_000_000
START = 1_780_000_000 * SECOND


def made_up(path: Path) -> None:
    """100 records a second for ten seconds, 5 ms each; a fault at 4 s stops partition 1 for 1.2 s."""
    with HistoryWriter(path, run="one", mode="isr") as events:
        events.add("fault", START + 4 * SECOND, name="kill broker 2")
        events.add("healed", START + 5_200_000, name="broker 2 is back")
        for number in range(1000):
            partition, sequence = number % 2, number // 2
            sent = START + number * SECOND // 100
            late = partition == 1 and 4 * SECOND <= sent - START < 5_200_000
            done = START + 5_200_000 + number if late else sent + 5000
            fields: dict[str, Any] = {"producer": "p", "partition": partition, "sequence": sequence}
            events.add("acknowledged", done, sent_us=sent, bytes=1000, offset=sequence, **fields)
            if number not in (700, 701):  # lost
                events.add("received", done + 1000, offset=sequence, **fields)
        for sequence in (10, 11):  # again, at other offsets; and once more at the same one
            again: dict[str, Any] = {
                "producer": "p",
                "partition": 0,
                "sequence": sequence,
                "offset": 600 + sequence,
            }
            events.add("received", START + 11 * SECOND, **again)
            events.add("received", START + 12 * SECOND, **again)
        # Behind all others, though it was sent before them.
        events.add("acknowledged", START + 9 * SECOND, sent_us=START, producer="q", partition=0, sequence=0)
        events.add("received", START + 12 * SECOND, producer="q", partition=0, sequence=0, offset=9001)
        events.add("received", START + 12 * SECOND, producer="q", partition=0, sequence=1, offset=9000)


def waiting(path: Path) -> None:
    """Three faults: nobody writes during the first, a write fails in the second, the third is never over."""
    with HistoryWriter(path, run="two", mode="isr") as events:

        def write(kind: str, partition: int, sent_s: float, done_s: float) -> None:
            times = (START + int(done_s * SECOND), START + int(sent_s * SECOND))
            events.add(kind, times[0], sent_us=times[1], producer="p", partition=partition, sequence=0)

        for partition in (0, 1):
            write("acknowledged", partition, 0.0, 0.1)
        events.add("fault", START + SECOND, name="first")
        write("acknowledged", 0, 5.0, 5.1)
        events.add("fault", START + 10 * SECOND, name="second")
        events.add("healed", START + 12 * SECOND, name="healed")
        write("failed", 0, 10.5, 13.0)
        write("acknowledged", 0, 13.5, 14.0)
        events.add("fault", START + 20 * SECOND, name="third")
        write("acknowledged", 0, 20.0, 20.2)
        write("failed", 1, 20.5, 23.0)
        write("failed", 1, 21.0, 24.0)


@pytest.fixture(scope="module")
def report(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> IndicatorsReport:
    """Of all that was made up, at once: a query costs more than its rows."""
    directory = tmp_path_factory.mktemp("history")
    made_up(directory / "isr.jsonl")
    with HistoryWriter(directory / "quorum.jsonl", run="one", mode="quorum") as events:
        for sequence in range(10):
            time_us = START + SECOND + sequence * 1000
            events.add("acknowledged", time_us, sent_us=time_us - 100, producer="p", sequence=sequence)
        events.add("fault", START + 7 * SECOND, name="nobody writes any more")
    waiting(directory / "waiting.jsonl")
    (directory / "runs.csv").write_text("a report may lie beside its histories\n")
    return indicators(spark, Indicators([str(directory)], step_s=1.0))


def test_every_figure_is_what_it_should_be(report: IndicatorsReport) -> None:
    one, two, _ = report.runs
    assert (one.run, one.mode, one.acknowledged, one.failed) == ("one", "isr", 1001, 0)
    assert one.records_per_s == pytest.approx(100, rel=0.02) and one.mb_per_s == pytest.approx(0.1, rel=0.02)
    assert one.p50_ms == 5.0 and one.max_ms == 9000.0 and one.p99_ms and 1000 < one.p99_ms < 1300
    assert (one.lost, one.duplicated, one.reordered) == (2, 2, 1)
    assert one.downtime_ms == pytest.approx(1180, abs=15) and one.is_over and one.faults == 1
    assert (two.mode, two.lost, two.received, two.downtime_ms) == ("quorum", 10, 0, None)
    fault = next(fault for fault in report.faults if fault.mode == "isr")
    assert (fault.fault, fault.partition) == ("kill broker 2", 1)
    assert fault.healed_second == pytest.approx(5.195)
    steps = [step for step in report.over_time if (step.run, step.mode) == ("one", "isr")]
    assert steps[0].records_per_s == pytest.approx(100, abs=2) and steps[4].records_per_s < 60


def test_downtime_is_waiting_in_vain_and_may_not_be_over(report: IndicatorsReport) -> None:
    faults = [one for one in report.faults if one.run == "two"]
    found: dict[str, tuple[object, object]] = {one.fault: (one.downtime_ms, one.partition) for one in faults}
    assert found["first"] == (pytest.approx(100), 0)  # from 5.0, when somebody wrote again
    assert found["second"] == (pytest.approx(3500), 0)  # from 10.5, when the write that failed was sent
    assert found["third"] == (pytest.approx(3500), 1)
    assert [one.is_over for one in faults] == [True, True, False]
    assert [one.healed_second for one in faults] == [None, pytest.approx(11.9), None]
    run = report.runs[-1]
    assert (run.failed, run.faults, run.is_over) == (3, 3, False) and run.downtime_ms == pytest.approx(3500)
    # Where nothing was acknowledged, a step says so.
    steps = [step for step in report.over_time if step.run == "two"]
    assert len(steps) == 21 and sum(step.acknowledged == 0 and step.p99_ms is None for step in steps) == 17


def test_tables_pictures_and_a_page_that_needs_nothing_else(report: IndicatorsReport, tmp_path: Path) -> None:
    written = write_report(report, str(tmp_path / "out"), "Made up & <told>")
    assert {Path(path).name for path in written} == {
        "runs.csv", "over_time.csv", "faults.csv",
        "throughput.png", "latency.png", "downtime.png", "index.html",
    }  # fmt: skip
    page = (tmp_path / "out/index.html").read_text()
    assert page.count("data:image/png;base64,") == 6  # for light and dark screens
    assert "kill broker 2" in page and "Made up &amp; &lt;told&gt;" in page and "http" not in page
    assert "no record was read back" in page and "downtime is not over" in page
    assert (tmp_path / "out/latency.png").read_bytes().startswith(b"\x89PNG")
    with (tmp_path / "out/runs.csv").open() as file:
        assert [row["lost"] for row in csv.DictReader(file)] == [str(one.lost) for one in report.runs]


def test_a_report_of_next_to_nothing(tmp_path: Path) -> None:
    nothing = IndicatorsReport([], events=1, torn_lines=1)
    *_, page = write_report(nothing, str(tmp_path))
    assert "There were none." in Path(page).read_text() and not list(tmp_path.glob("*.png"))
    assert notes(nothing)[0].startswith("1 torn line left out")


def test_a_torn_line_is_left_out_and_counted_and_any_other_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "h.jsonl"
    whole = '{"kind":"received","time_us":1,"sequence":1,"offset":1}\n'
    path.write_text(whole + '{"kind":"acknowledged","time_u\n' + whole + '{"kind":"rec')
    found = read_history(spark, [str(path)])
    assert (found.count, found.torn_lines, found.events.count()) == (2, 2, 2)
    found.release()
    for odd, said in {
        '{"kind": "guessed", "time_us": 1}': "'guessed'; there are acknowledged",
        '{"kind": "received", "time_us": "noon"}': "not an event; .*noon",
        "run,mode,lost": "not an event; .*: run,mode",
        '{"kind": "received"}': "no time_us",
        "": "no events in",
    }.items():
        path.write_text(odd + "\n")
        with pytest.raises(OptionError, match=said):
            read_history(spark, [str(path)])


def test_the_reader_knows_every_field_and_kind() -> None:
    assert Event.__struct_fields__ == history.FIELDS and history.KINDS == KINDS


def test_a_history_that_is_none_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="There is no history"):
        indicators(spark, Indicators([str(tmp_path / "nothing.jsonl")]))
    with pytest.raises(OptionError, match=r"no file that ends in \.jsonl"):
        indicators(spark, Indicators([str(tmp_path)]))
    with pytest.raises(OptionError, match="and more"):
        Indicators([], step_s=0)
