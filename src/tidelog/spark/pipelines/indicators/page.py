"""One self-contained page: the figures as tables, their meaning, and the pictures.

Owns the wording and the look; follows the reader's choice of a light or dark screen.
"""

import base64
import html
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from tidelog.spark.pipelines.indicators.figures import IndicatorsReport, by_mode
from tidelog.spark.pipelines.indicators.pictures import DARK, LIGHT, colours

_STYLE = f"""
:root{{color-scheme:light dark;--ground:{LIGHT.ground};--ink:{LIGHT.ink};--faint:{LIGHT.faint};
--bad:{LIGHT.fault};--quiet:#5d6670}}
@media(prefers-color-scheme:dark){{:root{{--ground:{DARK.ground};--ink:{DARK.ink};--faint:{DARK.faint};
--bad:{DARK.fault};--quiet:#9aa4af}}}}
body{{font:15px/1.5 system-ui,sans-serif;max-width:1120px;margin:2em auto;padding:0 1.2em;
background:var(--ground);color:var(--ink)}}
h1{{margin-bottom:0}}h2{{margin-top:2em}}
.quiet,figcaption,dd{{color:var(--quiet)}}
.note{{border-left:4px solid var(--bad);padding:.2em 1em}}
.wide{{overflow-x:auto}}
table{{border-collapse:collapse;font-size:14px;font-variant-numeric:tabular-nums;min-width:100%}}
th,td{{padding:.35em .55em;border-bottom:1px solid var(--faint);text-align:right;white-space:nowrap}}
th{{font-weight:600;vertical-align:bottom}}
.group th{{border-bottom:0;text-align:center;color:var(--quiet);font-weight:400}}
.text{{text-align:left}}.run{{padding-top:1em}}
.first{{border-left:1px solid var(--faint)}}
.bad{{color:var(--bad);font-weight:700}}
.dot{{display:inline-block;width:.7em;height:.7em;border-radius:50%;margin-right:.5em}}
figure{{margin:1em 0}}img{{width:100%;height:auto}}
dt{{font-weight:600;margin-top:.5em}}dd{{margin-left:0}}
"""

_MEANINGS = {
    "latency": "from handing a record to the client to its acknowledgement.",
    "failed": "the client gave up on it: it may be there or not.",
    "lost": "acknowledged, and not there when everything was read to the end.",
    "duplicated": "there at more than one offset: a retry of a producer without idempotence does that.",
    "reordered": "after a later record of the same producer and partition.",
    "misplaced": "at another offset than it was acknowledged at.",
    "read, then gone": "a consumer group read it, and it is not there at the end.",
    "torn transactions": "of which some records are there and some are not.",
    "lost commits": "offsets of a group that were confirmed, and a lower one was returned later.",
    "downtime": "the longest time after a fault in which writes to a partition waited and none was "
    "acknowledged.",
}
_CAPTIONS = {
    "throughput.png": (
        "Throughput",
        "Acknowledged records per second, over all partitions. What waited during a fault is acknowledged at "
        "once when writes go on: that is the peak after it. Where the load itself paused, there is none, "
        "either; downtime leaves that out.",
    ),
    "latency.png": (
        "Latency",
        "Of the records acknowledged in each step, 99 of 100 took no longer. Where a line is broken, none "
        "was acknowledged.",
    ),
    "downtime.png": ("Downtime", "By mode, in the partition that suffered most."),
}


class _Column(NamedTuple):
    name: str  # of the field
    heading: str
    text: Callable[[Any], str]
    is_bad: Callable[[Any], bool] = lambda value: False
    is_first: bool = False  # of a group


def _count(value: Any) -> str:
    return f"{value:,}"


def _rate(value: Any) -> str:
    return "–" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:,.2f}"


def _ms(value: Any) -> str:
    return "–" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:,.1f}"


def _seconds(value: Any) -> str:
    return "–" if value is None else f"{value:,.1f}"


def _words(value: Any) -> str:
    return html.escape(str(value))


_RUNS = (
    _Column("acknowledged", "acknowledged", _count, is_first=True),
    _Column("failed", "failed", _count),
    _Column("lost", "lost", _count, bool),
    _Column("duplicated", "duplicated", _count),
    _Column("reordered", "reordered", _count, bool),
    _Column("misplaced", "misplaced", _count, bool),
    _Column("vanished", "read, then gone", _count, bool),
    _Column("torn_transactions", "torn transactions", _count, bool),
    _Column("skipped", "skipped", _count, bool),
    _Column("lost_commits", "lost commits", _count, bool),
    _Column("downtime_ms", "downtime ms", _ms, is_first=True),
    _Column("records_per_s", "records/s", _rate, is_first=True),
    _Column("mb_per_s", "MB/s", _rate),
    _Column("p50_ms", "p50", _ms, is_first=True),
    _Column("p99_ms", "p99", _ms),
    _Column("p999_ms", "p99.9", _ms),
    _Column("max_ms", "max", _ms),
)
_MODES = (
    _Column("runs", "runs", _count),
    _Column("acknowledged", "acknowledged", _count),
    _Column("lost", "lost", _count, bool),
    _Column("runs_with_loss", "runs with loss", _count, bool),
    _Column("vanished", "read, then gone", _count, bool),
    _Column("duplicated", "duplicated", _count),
    _Column("reordered", "reordered", _count, bool),
    _Column("median_downtime_ms", "downtime ms, median", _ms),
    _Column("worst_downtime_ms", "worst", _ms),
    _Column("median_p99_ms", "p99 ms, median", _ms),
    _Column("worst_p99_ms", "worst", _ms),
)
_GROUPS = (
    ("consistency, in records", 9),
    ("availability", 1),
    ("performance", 2),
    ("and latency, in ms", 4),
)
_FAULTS = (
    _Column("second", "struck at s", _seconds),
    _Column("healed_second", "healed at s", _seconds),
    _Column("downtime_ms", "downtime ms", _ms),
    _Column("partition", "in partition", lambda value: "–" if value is None else str(value)),
    _Column("is_over", "writes went on", lambda value: "yes" if value else "no", lambda value: not value),
)


def page(title: str, report: IndicatorsReport, light: Mapping[str, bytes], dark: Mapping[str, bytes]) -> str:
    """One HTML file."""
    name = html.escape(title)
    shown = report.on_the_page()
    runs = len({one.run for one in report.runs})
    parts = [
        f"<h1>{name}</h1>",
        f'<p class="quiet">{_counted(runs, "run")}, {_counted(report.events, "event")}</p>',
        *(f'<p class="note">{html.escape(note)}</p>' for note in notes(report)),
        *_all_runs(report),
        "<h2>At a glance</h2>" if report.drawn is None else "<h2>The worst runs</h2>",
        _runs_table(shown),
        *(_picture(which, data, dark[which]) for which, data in light.items()),
        "<h2>Faults</h2>",
        _faults_table(shown) if shown.faults else "<p>There were none.</p>",
        "<h2>What the figures mean</h2><dl>",
        *(f"<dt>{word}</dt><dd>{meaning}</dd>" for word, meaning in _MEANINGS.items()),
        "</dl>",
    ]
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{name}</title><style>{_STYLE}</style>"
    )
    body = "\n".join(parts)
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n{body}\n</body></html>\n'


def notes(report: IndicatorsReport) -> list[str]:
    """What a reader must know before trusting a figure."""
    found = []
    if report.torn_lines:
        found.append(
            f"{_counted(report.torn_lines, 'torn line')} left out: the writer of the history was killed, and "
            f"the events of its last moments are missing."
        )
    for one in report.on_the_page().runs:
        if one.acknowledged and not one.received:
            found.append(
                f"{one.run}, {one.mode}: no record was read back, so all count as lost. Read everything to "
                f"the end before the history is closed."
            )
        if not one.is_over:
            found.append(
                f"{one.run}, {one.mode}: a partition acknowledged nothing any more when the run ended; its "
                f"downtime is not over."
            )
    return found


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _all_runs(report: IndicatorsReport) -> list[str]:
    """Of many runs: every mode in one line, and where the rest is."""
    if report.drawn is None:
        return []
    words = f"Below are the {len(report.drawn)} worst runs; all of them are in runs.csv and faults.csv."
    rows = by_mode(report.runs)
    heads = '<th class="text">mode</th>' + "".join(f"<th>{one.heading}</th>" for one in _MODES)
    lines = []
    for row in rows:
        cells = f'<td class="text">{_word("mode", row.mode, colours(report))}</td>'
        for one in _MODES:
            value = getattr(row, one.name)
            cells += f"<td{_classes(one, one.is_bad(value))}>{one.text(value)}</td>"
        lines.append(f"<tr>{cells}</tr>")
    table = f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
    return ["<h2>All runs</h2>", f'<div class="wide">{table}</div>', f"<p>{words}</p>"]


def _runs_table(report: IndicatorsReport) -> str:
    groups = "".join(f'<th class="first" colspan="{width}">{name}</th>' for name, width in _GROUPS)
    above = f'<tr class="group"><th></th>{groups}</tr>'
    return _table(above, ("mode",), _RUNS, report.runs, colours(report))


def _faults_table(report: IndicatorsReport) -> str:
    return _table("", ("fault", "mode"), _FAULTS, report.faults, colours(report))


def _table(
    above: str,
    words: Sequence[str],
    columns: Sequence[_Column],
    rows: Sequence[Any],
    by_mode: Mapping[str, str],
) -> str:
    """The rows of a run below its name."""
    heads = "".join(f'<th class="text">{word}</th>' for word in words)
    heads += "".join(f"<th{_classes(one, False)}>{one.heading}</th>" for one in columns)
    lines = []
    run = None
    for row in rows:
        if row.run != run:
            run = row.run
            width = len(words) + len(columns)
            lines.append(f'<tr><th class="text run" colspan="{width}">{_words(run)}</th></tr>')
        cells = "".join(f'<td class="text">{_word(word, getattr(row, word), by_mode)}</td>' for word in words)
        for one in columns:
            value = getattr(row, one.name)
            cells += f"<td{_classes(one, one.is_bad(value))}>{one.text(value)}</td>"
        lines.append(f"<tr>{cells}</tr>")
    body = "\n".join(lines)
    head = f"<thead>{above}<tr>{heads}</tr></thead>"
    return f'<div class="wide"><table>{head}<tbody>\n{body}\n</tbody></table></div>'


def _word(word: str, value: str, by_mode: Mapping[str, str]) -> str:
    if word != "mode":
        return _words(value)
    return (
        f'<span class="dot" style="background:{by_mode.get(value, "gray")}"></span>{_words(value or "all")}'
    )


def _classes(column: _Column, is_bad: bool) -> str:
    found = [name for name, holds in (("first", column.is_first), ("bad", is_bad)) if holds]
    return f' class="{" ".join(found)}"' if found else ""


def _picture(name: str, light: bytes, dark: bytes) -> str:
    heading, caption = _CAPTIONS[name]
    return (
        f"<h2>{heading}</h2><figure><picture>"
        f'<source media="(prefers-color-scheme:dark)" srcset="{_inline(dark)}">'
        f'<img alt="{heading}: {caption}" src="{_inline(light)}"></picture>'
        f"<figcaption>{caption}</figcaption></figure>"
    )


def _inline(data: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(data).decode()}"
