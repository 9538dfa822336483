"""Figures of a run that was made up, so that each of them can be computed by hand."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidelog.lab.history import KINDS, Event, HistoryWriter
from tidelog.spark import OptionError
from tidelog.spark.pipelines.indicators import Indicators, history, indicators, notes, write_report

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
            fields = {"producer": "p", "partition": partition, "sequence": sequence}
            events.add("acknowledged", done, sent_us=sent, bytes=1000, offset=sequence, **fields)
            if number not in (700, 701):  # lost
                events.add("received", done + 1000, offset=sequence, **fields)
        for sequence in (10, 11):  # again, at other offsets; and once more at the same one
            again = {"producer": "p", "partition": 0, "sequence": sequence, "offset": 600 + sequence}
            events.add("received", START + 11 * SECOND, **again)
            events.add("received", START + 12 * SECOND, **again)
        # Behind all others, though it was sent before them.
        events.add("acknowledged", START + 9 * SECOND, sent_us=START, producer="q", partition=0, sequence=0)
        events.add("received", START + 12 * SECOND, producer="q", partition=0, sequence=0, offset=9001)
        events.add("received", START + 12 * SECOND, producer="q", partition=0, sequence=1, offset=9000)


def test_every_figure_is_what_it_should_be(spark: SparkSession, tmp_path: Path) -> None:
    made_up(tmp_path / "isr.jsonl")
    with HistoryWriter(tmp_path / "quorum.jsonl", run="one", mode="quorum") as events:
        events.fault("nobody notices")
        for sequence in range(10):
            time_us = START + SECOND + sequence * 1000
            events.add("acknowledged", time_us, sent_us=time_us - 100, producer="p", sequence=sequence)
    (tmp_path / "runs.csv").write_text("a report may lie beside its histories\n")
    report = indicators(spark, Indicators([str(tmp_path)], step_s=1.0))
    one, two = report.runs
    assert (one.run, one.mode, one.acknowledged, one.failed) == ("one", "isr", 1001, 0)
    assert one.records_per_s == pytest.approx(100, rel=0.02) and one.mb_per_s == pytest.approx(0.1, rel=0.02)
    assert one.p50_ms == 5.0 and one.max_ms == 9000.0 and one.p99_ms and 1000 < one.p99_ms < 1300
    assert (one.lost, one.duplicated, one.reordered) == (2, 2, 1)
    assert one.downtime_ms == pytest.approx(1180, abs=15) and one.is_over and one.faults == 1
    assert (two.mode, two.lost, two.received, two.downtime_ms) == ("quorum", 10, 0, None)
    fault = next(fault for fault in report.faults if fault.mode == "isr")
    assert (fault.fault, fault.partition, fault.healed_second) == ("kill broker 2", 1, pytest.approx(5.195))
    steps = [step for step in report.over_time if step.mode == "isr"]
    assert steps[0].records_per_s == pytest.approx(100, abs=2) and steps[4].records_per_s < 60
    assert [note.split(":")[0] for note in notes(report)] == ["one, quorum"]  # nothing was read back

    written = write_report(report, str(tmp_path / "out"), "Made up & <told>")
    assert {Path(path).name for path in written} == {
        "runs.csv", "over_time.csv", "faults.csv",
        "throughput.png", "latency.png", "downtime.png", "index.html",
    }  # fmt: skip
    page = (tmp_path / "out/index.html").read_text()
    assert page.count("data:image/png;base64,") == 6  # for light and dark screens
    assert "kill broker 2" in page and "Made up &amp; &lt;told&gt;" in page and "http" not in page
    assert (tmp_path / "out/latency.png").read_bytes().startswith(b"\x89PNG")


def test_downtime_is_waiting_in_vain_and_may_not_be_over(spark: SparkSession, tmp_path: Path) -> None:
    with HistoryWriter(tmp_path / "h.jsonl", run="r", mode="isr") as events:

        def write(kind: str, partition: int, sent_s: float, done_s: float) -> None:
            times = (START + int(done_s * SECOND), START + int(sent_s * SECOND))
            events.add(kind, times[0], sent_us=times[1], producer="p", partition=partition, sequence=0)

        for partition in (0, 1):
            write("acknowledged", partition, 0.0, 0.1)
        events.add("fault", START + SECOND, name="first")
        write("acknowledged", 0, 5.0, 5.1)  # Nobody wrote for 4.9 s: no downtime but the last 0.1 s of it.
        events.add("fault", START + 10 * SECOND, name="second")
        events.add("healed", START + 12 * SECOND, name="healed")
        write("failed", 0, 10.5, 13.0)
        write("acknowledged", 0, 13.5, 14.0)  # 3.5 s after the write that failed was sent
        events.add("fault", START + 20 * SECOND, name="third")
        write("acknowledged", 0, 20.0, 20.2)
        write("failed", 1, 20.5, 23.0)
        write("failed", 1, 21.0, 24.0)
    report = indicators(spark, Indicators([str(tmp_path / "h.jsonl")]))
    found = {one.fault: (one.downtime_ms, one.partition, one.is_over) for one in report.faults}
    assert found["first"] == (pytest.approx(100), 0, True)
    assert found["second"][:2] == (pytest.approx(3500), 0)
    assert found["third"] == (pytest.approx(3500), 1, False)
    [run] = report.runs
    assert (run.failed, run.faults, run.is_over) == (3, 3, False) and run.downtime_ms == pytest.approx(3500)
    assert "downtime is not over" in notes(report)[-1]
    assert [one.healed_second for one in report.faults] == [None, pytest.approx(11.9), None]
    written = write_report(report, str(tmp_path / "out"))
    assert "downtime is not over" in Path(written[-1]).read_text()


def test_a_torn_line_is_left_out_and_counted_and_any_other_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "h.jsonl"
    whole = '{"kind":"received","time_us":1,"sequence":1,"offset":1}\n'
    path.write_text(whole + '{"kind":"acknowledged","time_u\n' + whole + '{"kind":"rec')
    report = indicators(spark, Indicators([str(path)]))
    assert (report.events, report.torn_lines) == (2, 2) and "2 torn lines left out" in notes(report)[0]
    assert write_report(report, str(tmp_path / "out"))[-1].endswith("index.html")  # with nothing to draw
    for odd, said in {
        '{"kind": "guessed", "time_us": 1}': "'guessed'; there are acknowledged",
        '{"kind": "received", "time_us": "noon"}': "no event: .*noon",
        "run,mode,lost": "no event: run,mode",
        '{"kind": "received"}': "no time_us",
        "": "no events in",
    }.items():
        path.write_text(odd + "\n")
        with pytest.raises(OptionError, match=said):
            indicators(spark, Indicators([str(path)]))


def test_the_reader_knows_every_field_and_kind() -> None:
    assert Event.__struct_fields__ == history.FIELDS and history.KINDS == KINDS


def test_a_history_that_is_none_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="There is no history"):
        indicators(spark, Indicators([str(tmp_path / "nothing.jsonl")]))
    with pytest.raises(OptionError, match=r"no file that ends in \.jsonl"):
        indicators(spark, Indicators([str(tmp_path)]))
    with pytest.raises(OptionError, match="and more"):
        Indicators([], step_s=0)
