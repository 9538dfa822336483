"""The figures as pictures: a panel for each run, a colour for each mode, the same in all of them.

Owns colours and scales. Every picture is drawn for a light and for a dark page.
"""

import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidelog.spark.pipelines.indicators.figures import FaultFigures, IndicatorsReport, StepFigures

WIDTH = 10.0
PANEL_HEIGHT = 2.7
BAR_HEIGHT = 0.42
DPI = 130
LEGEND_CHARACTERS_MAX = 140  # in one line
LABELLED_FAULTS_MAX = 4  # in one panel; more names would cover each other
LOG_FROM = 30.0  # times between the smallest and the largest figure
# Distinguishable for colour-blind readers, on both backgrounds.
COLOURS = ("#2f7ed8", "#e08214", "#1b9e77", "#c2528b", "#8073ac", "#a6761d", "#17a2b8", "#7f7f7f")
DASHES: tuple[Any, ...] = ("solid", (0, (5, 2)), (0, (1, 1.2)))  # one more round through the colours each


@dataclass(frozen=True, slots=True)
class Theme:
    ground: str
    ink: str
    faint: str
    fault: str


LIGHT = Theme("#ffffff", "#22272e", "#d5d9de", "#c62828")
DARK = Theme("#171b21", "#d8dee6", "#39414b", "#ff7b72")


def colours(report: IndicatorsReport) -> dict[str, str]:
    """Of every mode, in the order of their names."""
    modes = sorted({one.mode for one in report.runs})
    return {mode: COLOURS[number % len(COLOURS)] for number, mode in enumerate(modes)}


def pictures(report: IndicatorsReport, theme: Theme) -> dict[str, bytes]:
    """PNG files by name; none if there is nothing to draw."""
    drawn: dict[str, bytes] = {}
    if report.over_time:
        drawn["throughput.png"] = _over_time(
            report, theme, "acknowledged records/s", lambda one: one.records_per_s, False
        )
    if any(one.p99_ms is not None for one in report.over_time):
        drawn["latency.png"] = _over_time(report, theme, "latency, p99 in ms", lambda one: one.p99_ms, True)
    if any(one.downtime_ms is not None for one in report.faults):
        drawn["downtime.png"] = _downtime(report, theme)
    return drawn


def _figure(height: float, theme: Theme) -> Any:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, height), layout="constrained", facecolor=theme.ground)
    FigureCanvasAgg(figure)
    return figure


def _saved(figure: Any) -> bytes:
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=DPI)
    return out.getvalue()


def _over_time(
    report: IndicatorsReport,
    theme: Theme,
    label: str,
    value: Callable[[StepFigures], float | None],
    may_be_log: bool,
) -> bytes:
    runs = list(dict.fromkeys(one.run for one in report.over_time))
    figure = _figure(PANEL_HEIGHT * len(runs) + 0.5, theme)
    found = [figure_value for one in report.over_time if (figure_value := value(one)) is not None]
    is_log = may_be_log and min(found) > 0 and max(found) / min(found) > LOG_FROM
    all_axes = figure.subplots(len(runs), squeeze=False, sharey=True)[:, 0]
    for run, axes in zip(runs, all_axes, strict=True):
        _dress(axes, theme)
        # Names of faults are between the panel and its title.
        axes.set_title(run, loc="left", fontsize=10, fontweight="bold", color=theme.ink, pad=17)
        _lines(axes, [one for one in report.over_time if one.run == run], value, colours(report))
        _marks(axes, [one for one in report.faults if one.run == run], theme)
        axes.set_ylabel(label, color=theme.ink, fontsize=9)
        _scale(axes, is_log, max(found))
    all_axes[-1].set_xlabel("seconds since the first acknowledgement", color=theme.ink, fontsize=9)
    _legend(figure, report, theme)
    return _saved(figure)


def _dress(axes: Any, theme: Theme) -> None:
    axes.set_facecolor(theme.ground)
    axes.tick_params(colors=theme.ink, labelsize=8.5)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(theme.faint)
    axes.grid(axis="y", color=theme.faint, linewidth=0.7)
    axes.set_axisbelow(True)


def _lines(
    axes: Any,
    rows: Sequence[StepFigures],
    value: Callable[[StepFigures], float | None],
    colour_of: Mapping[str, str],
) -> None:
    modes = list(colour_of)
    for mode in dict.fromkeys(one.mode for one in rows):
        mine = [one for one in rows if one.mode == mode]
        # A shortened last step says more about where it was cut than about the broker.
        shown = mine[:-1] if len(mine) > 2 and mine[-1].seconds < mine[0].seconds else mine
        middles = [one.second + one.seconds / 2 for one in shown]
        heights = [found if (found := value(one)) is not None else float("nan") for one in shown]
        axes.plot(
            middles, heights, color=colour_of[mode], linewidth=1.6, marker="o", markersize=2.2,
            linestyle=DASHES[modes.index(mode) // len(COLOURS) % len(DASHES)],
        )  # fmt: skip


def _marks(axes: Any, faults: Sequence[FaultFigures], theme: Theme) -> None:
    """Each fault once, though every mode has it: a line when it occurred, shaded until it was healed."""
    seen = {(one.fault, round(one.second, 1)): one for one in reversed(faults)}
    for one in seen.values():
        axes.axvline(one.second, color=theme.fault, linewidth=1.1, linestyle=(0, (4, 2)))
        if one.healed_second is not None:
            axes.axvspan(one.second, one.healed_second, color=theme.fault, alpha=0.09, linewidth=0)
        if len(seen) <= LABELLED_FAULTS_MAX:
            axes.annotate(
                one.fault, (one.second, 1), (4, 2), xycoords=("data", "axes fraction"),
                textcoords="offset points", fontsize=8, color=theme.fault, va="bottom",
            )  # fmt: skip


def _scale(axes: Any, is_log: bool, highest: float) -> None:
    """All panels of a picture have the same scale, and none is cut off."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axes.set_xlim(left=0)
    if is_log:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 3)))
        axes.yaxis.set_minor_locator(NullLocator())
    else:
        axes.set_ylim(0, 1.06 * highest or 1.0)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))


def _legend(figure: Any, report: IndicatorsReport, theme: Theme) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    by_mode = colours(report)
    handles: list[Any] = [
        Line2D([], [], color=colour, linewidth=2.2, linestyle=DASHES[number // len(COLOURS) % len(DASHES)])
        for number, colour in enumerate(by_mode.values())
    ]
    labels = [mode or "all" for mode in by_mode]
    if report.faults:
        handles.append(Patch(facecolor=theme.fault, alpha=0.3))
        labels.append("fault, until healed")
    figure.legend(
        handles, labels, loc="outside upper center", ncols=_columns(labels), frameon=False, fontsize=9,
        labelcolor=theme.ink,
    )  # fmt: skip


def _columns(labels: Sequence[str]) -> int:
    """So that no line of the legend is too long, and all are about as full."""
    lines = math.ceil(sum(len(label) + 7 for label in labels) / LEGEND_CHARACTERS_MAX)
    return math.ceil(len(labels) / lines)


def _downtime(report: IndicatorsReport, theme: Theme) -> bytes:
    """The longest of each mode in each run as a bar, and every single one as a dot if there are more."""
    groups: dict[tuple[str, str], list[FaultFigures]] = {}
    for one in report.faults:
        if one.downtime_ms is not None:
            groups.setdefault((one.run, one.mode), []).append(one)
    several = len({run for run, _ in groups}) > 1
    figure = _figure(BAR_HEIGHT * len(groups) + 1.0, theme)
    axes = figure.subplots()
    _dress(axes, theme)
    axes.grid(visible=False, axis="y")
    axes.grid(axis="x", color=theme.faint, linewidth=0.7)
    by_mode = colours(report)
    for place, ((_, mode), faults) in enumerate(groups.items()):
        _bar(axes, place, [one.downtime_ms or 0.0 for one in faults], by_mode[mode], theme, faults)
    axes.set_yticks(range(len(groups)), [f"{run}: {mode}" if several else mode for run, mode in groups])
    axes.invert_yaxis()
    axes.set_xlim(0, 1.3 * max(one.downtime_ms or 0.0 for one in report.faults) or 1.0)  # room for the words
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    title = "" if several else f"{next(iter(groups))[0]}: "
    axes.set_title(
        f"{title}longest time that writes to a partition waited in vain", loc="left", fontsize=10,
        fontweight="bold", color=theme.ink,
    )  # fmt: skip
    axes.set_xlabel("ms", color=theme.ink, fontsize=9)
    return _saved(figure)


def _bar(
    axes: Any, place: int, times: list[float], colour: str, theme: Theme, faults: Sequence[FaultFigures]
) -> None:
    is_over = all(one.is_over for one in faults)
    longest = max(times)
    axes.barh(
        place, longest, 0.62, color=colour, alpha=1.0 if is_over else 0.55, hatch=None if is_over else "///",
        edgecolor=theme.ground, linewidth=0,
    )  # fmt: skip
    if len(times) > 1:
        axes.plot(times, [place] * len(times), "o", markersize=3.2, color=theme.ink, alpha=0.6)
    said = f"{longest:,.0f} ms" if is_over else f"{longest:,.0f} ms, and not over"
    if len(times) > 1:
        said += f" (of {len(times)} faults)"
    axes.annotate(
        said, (longest, place), (6, 0), textcoords="offset points", va="center", fontsize=9, color=theme.ink
    )
