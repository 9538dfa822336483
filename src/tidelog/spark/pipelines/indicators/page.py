"""The figures as pictures and one page that needs nothing else: tables, and the pictures inside it."""

import base64
import html
import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]
Plot = Callable[[Any], None]

_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:1000px;margin:2em auto;padding:0 1em;color:#222}"
    "table{border-collapse:collapse;margin:1em 0}th,td{padding:.3em .8em;border-bottom:1px solid "
    "#ddd;text-align:right}"
    "th:first-child,td:first-child{text-align:left}img{max-width:100%}.bad{color:#b00020;font-weight:600}"
)
_SIZE = (10, 3.6)


def pictures(over_time: Sequence[Row], faults: Sequence[Row]) -> dict[str, bytes]:
    """PNG files by name."""
    begins = {row["run"]: row["start_us"] for row in over_time}
    marks = [
        (row["run"], (row["fault_us"] - begins[row["run"]]) / 1e6, row["name"])
        for row in faults
        if row["run"] in begins
    ]
    drawn = {
        "throughput.png": _drawn(lambda axes: _lines(axes, over_time, marks, "records_per_s", "records/s")),
        "latency.png": _drawn(lambda axes: _lines(axes, over_time, marks, "p99_ms", "p99 latency in ms")),
    }
    if faults:
        drawn["downtime.png"] = _drawn(lambda axes: _bars(axes, faults))
    return drawn


def _drawn(plot: Plot) -> bytes:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=_SIZE, layout="constrained")
    FigureCanvasAgg(figure)
    plot(figure.add_subplot())
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=110)
    return out.getvalue()


def _lines(
    axes: Any, rows: Sequence[Row], marks: Sequence[tuple[str, float, str]], column: str, label: str
) -> None:
    for run in dict.fromkeys(row["run"] for row in rows):
        points = [(row["second"], row[column]) for row in rows if row["run"] == run]
        axes.plot([x for x, _ in points], [y for _, y in points], label=run, linewidth=1.4)
    for _, second, name in marks:
        axes.axvline(second, color="#b00020", linewidth=0.8, linestyle="--")
        axes.annotate(
            name, (second, 1), xycoords=("data", "axes fraction"), fontsize=7, rotation=90, va="top"
        )
    axes.set_xlabel("seconds")
    axes.set_ylabel(label)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")


def _bars(axes: Any, faults: Sequence[Row]) -> None:
    names = [f"{row['run']}: {row['name']}" for row in faults]
    axes.barh(names, [row["downtime_ms"] or 0 for row in faults], color="#3367d6")
    axes.invert_yaxis()
    axes.set_xlabel("longest time without an acknowledgement in ms")


def page(title: str, tables: Mapping[str, Sequence[Row]], images: Mapping[str, bytes]) -> str:
    """One HTML file."""
    parts = [f"<h1>{html.escape(title)}</h1>"]
    for heading, rows in tables.items():
        parts.append(f"<h2>{html.escape(heading)}</h2>{_table(rows)}")
    for name, data in images.items():
        encoded = base64.b64encode(data).decode()
        parts.append(f"<h2>{html.escape(name.removesuffix('.png'))}</h2>")
        parts.append(f'<img alt="" src="data:image/png;base64,{encoded}">')
    head = f"<meta charset=utf-8><title>{html.escape(title)}</title><style>{_STYLE}</style>"
    return f"<!doctype html><html lang=en><head>{head}</head><body>{''.join(parts)}</body></html>\n"


def _table(rows: Sequence[Row]) -> str:
    if not rows:
        return "<p>none</p>"
    heads = "".join(f"<th>{html.escape(name)}</th>" for name in rows[0])
    lines = ["".join(_cell(name, value) for name, value in row.items()) for row in rows]
    return f"<table><tr>{heads}</tr>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


def _cell(name: str, value: Any) -> str:
    text = "-" if value is None else f"{value:,.2f}" if isinstance(value, float) else html.escape(str(value))
    bad = name in ("lost", "reordered") and value
    return f'<td class="bad">{text}</td>' if bad else f"<td>{text}</td>"
