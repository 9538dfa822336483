"""Figures over several runs, and what a reader is told before trusting them."""

from dataclasses import replace

from tidelog.spark.pipelines.indicators import _nice_step_s, _spans
from tidelog.spark.pipelines.indicators.figures import IndicatorsReport, RunSummary, by_mode, worst_runs
from tidelog.spark.pipelines.indicators.page import _ms, _rate, _word, notes

RUN = RunSummary(
    "run-1", "isr", acknowledged=1000, failed=0, seconds=10.0, records_per_s=100.0, mb_per_s=1.0, p50_ms=1.0,
    p99_ms=4.0, p999_ms=5.0, max_ms=9.0, received=1000, lost=0, duplicated=0, reordered=0, faults=1,
    downtime_ms=300.0, is_over=True,
)  # fmt: skip


def test_modes_over_all_runs() -> None:
    runs = [
        RUN,
        replace(RUN, run="run-2", lost=3, downtime_ms=100.0, p99_ms=None),
        replace(RUN, run="run-3", downtime_ms=None, p99_ms=6.0),
        replace(RUN, mode="quorum", downtime_ms=None, p99_ms=None),
    ]
    isr, quorum = by_mode(runs)
    assert (isr.mode, isr.runs, isr.acknowledged, isr.lost, isr.runs_with_loss) == ("isr", 3, 3000, 3, 1)
    assert (isr.median_downtime_ms, isr.worst_downtime_ms) == (200.0, 300.0)
    assert (isr.median_p99_ms, isr.worst_p99_ms) == (5.0, 6.0)
    assert (quorum.median_downtime_ms, quorum.worst_downtime_ms, quorum.worst_p99_ms) == (None, None, None)


def test_the_worst_runs_have_violations_first_then_repeats_then_downtime() -> None:
    runs = [
        replace(RUN, run="slow", downtime_ms=9000.0),
        replace(RUN, run="lossy", lost=1, downtime_ms=None),
        replace(RUN, run="good", downtime_ms=1.0),
        replace(RUN, run="twice", duplicated=1),
    ]
    ranks = [worst_runs(runs, count) for count in range(1, 5)]
    assert [(after - before) for before, after in zip([frozenset(), *ranks], ranks, strict=False)] == [
        {"lossy"}, {"twice"}, {"slow"}, {"good"},
    ]  # fmt: skip


def test_a_run_counts_once_however_many_modes_it_has() -> None:
    runs = [replace(RUN, run="lossy", mode=mode, lost=1) for mode in ("isr", "quorum")]
    assert worst_runs([*runs, RUN], 2) == {"lossy", "run-1"}


def test_of_many_runs_the_page_has_those_that_are_drawn() -> None:
    report = IndicatorsReport([RUN, replace(RUN, run="run-2")], drawn=frozenset({"run-2"}))
    assert [one.run for one in report.on_the_page().runs] == ["run-2"]
    assert "drawn" not in report.as_dict()
    assert replace(report, drawn=None).on_the_page().runs == report.runs


def test_notes_of_a_history_that_cannot_be_trusted() -> None:
    runs = [replace(RUN, received=0), replace(RUN, mode="quorum", is_over=False)]
    torn, unread, unfinished = notes(IndicatorsReport(runs, torn_lines=2))
    assert torn.startswith("2 torn lines left out")
    assert unread.startswith("run-1, isr: no record was read back")
    assert unfinished.startswith("run-1, quorum: a partition acknowledged nothing")
    assert notes(IndicatorsReport([RUN])) == []


def test_the_span_of_a_run_is_that_of_its_acknowledgements() -> None:
    totals = [
        {"run": "a", "acknowledged": 5, "begin_us": 20, "end_us": 90},
        {"run": "a", "acknowledged": 5, "begin_us": 10, "end_us": 80},
        {"run": "a", "acknowledged": 0, "begin_us": 0, "end_us": 0},
        {"run": "b", "acknowledged": 0, "begin_us": None, "end_us": None},
    ]
    struck = [{"run": "a", "fault_us": 1}, {"run": "b", "fault_us": 40}, {"run": "b", "fault_us": 60}]
    assert _spans(totals, struck) == ({"a": 10, "b": 40}, {"a": 90, "b": 40})


def test_steps_are_round_and_at_most_a_hundred() -> None:
    assert [_nice_step_s(seconds) for seconds in (0.5, 10.0, 101.0, 1000.0)] == [0.01, 0.1, 2.0, 10.0]


def test_numbers_in_tables() -> None:
    assert [_ms(value) for value in (None, 0.04, 99.95, 1234.5)] == ["–", "0.0", "100.0", "1,234"]
    assert [_rate(value) for value in (None, 1.234, 123456.7)] == ["–", "1.23", "123,457"]


def test_words_of_a_history_are_no_html() -> None:
    assert _word("run", "<b>", {}) == "&lt;b&gt;"
    assert _word("mode", "<b>", {}) == '<span class="dot" style="background:gray"></span>&lt;b&gt;'
