"""One cell of the matrix in words and figures: short in the matrix, long in its own card."""

from collections.abc import Callable, Sequence
from html import escape
from typing import NamedTuple

from tidelog.lab.report.chart import chart
from tidelog.lab.results import ALLOWED, BROKEN, KEPT, NOT_RUN, Cell, Figures, Latency, Round
from tidelog.lab.verdict import amount

CLASSES = {KEPT: "kept", BROKEN: "broken", ALLOWED: "allowed", NOT_RUN: "not-run"}
SIGNS = {KEPT: "✓", BROKEN: "✕", ALLOWED: "◐", NOT_RUN: "–"}
_SEVERITY = (NOT_RUN, KEPT, ALLOWED, BROKEN)


class _Row(NamedTuple):
    heading: str
    value: Callable[[Figures], float | None]
    text: Callable[[float], str]
    is_violation: bool = False


def count(value: float) -> str:
    return f"{value:,.0f}"


def seconds(value: float) -> str:
    return f"{value:.2f} s" if value < 10 else f"{value:,.1f} s"


def milliseconds(value: float) -> str:
    return f"{value:,.0f} ms" if value >= 10 else f"{value:.1f} ms"


_CONSISTENCY = (
    _Row("acknowledged", lambda one: one.acknowledged, count),
    _Row("failed", lambda one: one.failed, count),
    _Row("lost", lambda one: one.lost, count, True),
    _Row("there, never acknowledged", lambda one: one.unacknowledged, count),
    _Row("twice", lambda one: one.doubled, count, True),
    _Row("out of order", lambda one: one.disordered, count, True),
    _Row("at another offset", lambda one: one.misplaced, count, True),
    _Row("read, then gone", lambda one: one.vanished, count, True),
    _Row("torn transactions", lambda one: one.torn_transactions, count, True),
    _Row("skipped by a group", lambda one: one.skipped, count, True),
    _Row("committed offsets lost", lambda one: one.lost_commits, count, True),
)
_AVAILABILITY = (
    _Row("writes stood still", lambda one: one.writes_stood_still_s, seconds),
    _Row("… of it, back-off of the client", lambda one: one.client_back_off_s, seconds),
    _Row("reads stood still", lambda one: one.reads_stood_still_s, seconds),
    _Row("full redundancy after", lambda one: one.redundant_after_s, seconds),
)


def _latency(part: str, name: str) -> Callable[[Figures], float | None]:
    def value(figures: Figures) -> float | None:
        latency: Latency = getattr(figures, part)
        found: float | None = getattr(latency, name)
        return found

    return value


_PERFORMANCE = (
    _Row("acknowledged per second", lambda one: one.records_per_s, count),
    *(
        _Row(f"latency {words} {part}", _latency(part, name), milliseconds)
        for part in ("before", "during", "after")
        for name, words in (("p50", "p50"), ("p99", "p99"), ("p999", "p99.9"))
    ),
    _Row("CPU of all brokers", lambda one: one.broker_cpu_s, seconds),
    _Row("memory of the largest broker", lambda one: one.broker_rss_mb, lambda value: f"{value:,.0f} MB"),
)


def anchor(cell: Cell) -> str:
    words = f"{cell.experiment}-{cell.target}-{cell.mode}-{cell.topic}"
    return "".join(letter if letter.isalnum() else "-" for letter in words).lower()


def verdict_word(cell: Cell) -> str:
    lost = f" ({amount(cell.worst.lost, 'record')})" if cell.verdict == ALLOWED and cell.worst.lost else ""
    return f"{SIGNS.get(cell.verdict, '–')} {escape(cell.verdict)}{lost}"


def in_matrix(cell: Cell | None) -> str:
    if cell is None:
        return '<td class="not-run"><a><span class="word">– not run</span></a></td>'
    lines = ""
    if cell.rounds:
        worst = cell.worst
        most = max((one.figures for one in cell.rounds), key=lambda one: one.lost)  # of one round
        p99 = worst.during.p99 if worst.during.p99 is not None else worst.before.p99
        said = [
            f"lost {count(most.lost)} of {count(most.acknowledged)}",
            f"no writes for {seconds(worst.writes_stood_still_s)}",
            f"no reads for {seconds(worst.reads_stood_still_s)}",
            f"p99 {milliseconds(p99)}" if p99 is not None else "p99 –",
        ]
        lines = "".join(f"<small>{line}</small>" for line in said)
    return (
        f'<td class="{CLASSES.get(cell.verdict, "not-run")}"><a href="#{anchor(cell)}">'
        f'<span class="word">{verdict_word(cell)}</span>{lines}</a></td>'
    )


def card(cell: Cell) -> str:
    """Everything about one cell."""
    shade = CLASSES.get(cell.verdict, "not-run")
    where = f"{escape(cell.target)}, topic {escape(cell.topic)}, {_rounds(cell)}"
    header = (
        f'<header class="{shade}"><span class="word">{verdict_word(cell)}</span>'
        f'<span class="mode">{escape(cell.mode)}</span><span class="quiet">{where}</span></header>'
    )
    parts = [f'<p class="sentence">{escape(cell.sentence)}</p>' if cell.sentence else ""]
    if cell.promise:
        items = "".join(f"<li>{escape(one)}</li>" for one in cell.promise)
        parts.append(f'<p class="quiet">Promised beforehand:</p><ul class="promise">{items}</ul>')
    shown = worst_round(cell.rounds)
    if shown is not None:
        parts += [_time_line(cell, shown), _figures(cell), _examples(cell)]
    parts.append(_details(cell))
    body = "".join(parts)
    return f'<section class="card" id="{anchor(cell)}">{header}<div class="body">{body}</div></section>'


def worst_round(rounds: Sequence[Round]) -> Round | None:
    def badness(one: Round) -> tuple[int, int, float]:
        severity = _SEVERITY.index(one.verdict) if one.verdict in _SEVERITY else 0
        return severity, one.figures.lost, one.figures.writes_stood_still_s

    return max(rounds, key=badness, default=None)


def _rounds(cell: Cell) -> str:
    if len(cell.rounds) == 1:
        return "1 round"
    kept = sum(one.verdict == cell.verdict for one in cell.rounds)
    same = f", {kept} of them {cell.verdict}" if cell.rounds and kept < len(cell.rounds) else ""
    return f"{len(cell.rounds)} rounds{same}"


def _time_line(cell: Cell, shown: Round) -> str:
    which = f"Round {shown.number}"
    if len(cell.rounds) > 1:
        which += f" of {len(cell.rounds)}, the worst"
    said = f": {escape(shown.sentence)}" if shown.sentence and shown.sentence != cell.sentence else ""
    caption = f'<figcaption class="quiet">{which}{said}</figcaption>'
    return f"<figure>{caption}{chart(shown.time_line)}</figure>"


def _figures(cell: Cell) -> str:
    tables = [
        _table("Consistency, in records", _CONSISTENCY, cell),
        _table("Availability, as clients saw it", _AVAILABILITY, cell),
        _table("Performance", _PERFORMANCE, cell),
    ]
    return f'<div class="columns">{"".join(tables)}</div>'


def _table(caption: str, rows: Sequence[_Row], cell: Cell) -> str:
    several = len(cell.rounds) > 1
    heads = "<th></th><th>worst</th><th>median</th>" if several else "<th></th><th></th>"
    lines = []
    for row in rows:
        cells = _figure(row, cell.worst) + (_figure(row, cell.median) if several else "")
        lines.append(f"<tr><th>{escape(row.heading)}</th>{cells}</tr>")
    return (
        f'<table class="figures"><caption>{caption}</caption><thead><tr>{heads}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table>"
    )


def _figure(row: _Row, figures: Figures) -> str:
    value = row.value(figures)
    if value is None:
        return "<td>–</td>"
    bad = ' class="bad"' if row.is_violation and value else ""
    return f"<td{bad}>{row.text(value)}</td>"


def _examples(cell: Cell) -> str:
    if not cell.worst.examples:
        return ""
    items = "".join(f"<li>{escape(one)}</li>" for one in cell.worst.examples)
    return f'<p class="quiet">For example:</p><ul class="promise">{items}</ul>'


def _details(cell: Cell) -> str:
    network = f"<dt>network faults by</dt><dd>{escape(cell.network)}</dd>" if cell.network != "none" else ""
    settings = "".join(
        f"<dt>{escape(str(name))}</dt><dd>{escape(str(value))}</dd>" for name, value in cell.settings.items()
    )
    parts = [f"<dl>{settings}{network}</dl>" if settings or network else ""]
    if cell.source:
        parts.append(f"<pre>{escape(cell.source.strip())}</pre>")
    inside = "".join(parts)
    folded = f"<details><summary>Settings and experiment file</summary>{inside}</details>" if inside else ""
    repeat = f"<pre>{escape(cell.command)}</pre>" if cell.command else ""
    return (f'<p class="quiet" style="margin-top:1em">To repeat it:</p>{repeat}' if repeat else "") + folded
