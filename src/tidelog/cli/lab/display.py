"""How far a run is: a live view on a terminal, plain lines elsewhere, on stderr. Results go to stdout."""

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.live import Live

    from tidelog.lab.run.ports import Progress

REDRAW_S = 0.2


class Display:
    """An observer of :mod:`tidelog.lab.run`."""

    def __init__(self) -> None:
        self._live: Live | None = None
        self._drawn_at = 0.0
        self._last_line: tuple[str, int, str] | None = None
        self._rates = _Rates()

    def __enter__(self) -> "Display":
        from rich.console import Console
        from rich.live import Live

        console = Console(stderr=True)
        if console.is_terminal:
            self._live = Live(console=console, transient=True, auto_refresh=False)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def tell(self, progress: "Progress") -> None:
        if self._live is None:
            self._print(progress)
        elif time.monotonic() - self._drawn_at >= REDRAW_S:
            self._drawn_at = time.monotonic()
            self._live.update(self._picture(progress), refresh=True)

    def say(self, line: str) -> None:
        if self._live is not None:
            self._live.console.print(line, highlight=False, markup=False)
        else:
            print(line, file=sys.stderr, flush=True)

    def _print(self, progress: "Progress") -> None:
        """One line for each stage."""
        line = (progress.experiment, progress.round, progress.stage)
        if line != self._last_line:
            self._last_line = line
            left = f"about {duration(progress.total_s - progress.done_s)} left"
            where = f"{progress.experiment} on {progress.target}"
            print(
                f"{where}, round {progress.round} of {progress.rounds}: {progress.stage}; {left}",
                file=sys.stderr,
                flush=True,
            )

    def _picture(self, progress: "Progress") -> Any:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        left = duration(progress.total_s - progress.done_s)
        share = f"round {progress.round} of {progress.rounds}, about {left} left"
        head = Text.assemble((progress.experiment, "bold"), f" on {progress.target}: {progress.title}")
        table = Table(box=None, pad_edge=False)
        for heading in ("mode", "acknowledged", "a second", "leader"):
            table.add_column(heading, justify="left" if heading == "mode" else "right")
        for mode, count in progress.acknowledged.items():
            leader = progress.leaders.get(mode, -1)
            rate = self._rates.rate((progress.experiment, progress.round, mode), count)
            table.add_row(mode, f"{count:,}", f"{rate:,.0f}", f"broker {leader}" if leader >= 0 else "none")
        bar = ProgressBar(total=max(progress.total_s, 0.1), completed=progress.done_s, width=60)
        return Group(head, Text(progress.stage, style="yellow"), table, bar, Text(share))


class _Rates:
    """Records a second, over the last second or so."""

    def __init__(self) -> None:
        self._seen: dict[object, list[tuple[float, int]]] = {}

    def rate(self, key: object, count: int) -> float:
        now = time.monotonic()
        seen = self._seen.setdefault(key, [])
        seen.append((now, count))
        while len(seen) > 2 and now - seen[0][0] > 1.2:
            del seen[0]
        elapsed = now - seen[0][0]
        return (count - seen[0][1]) / elapsed if elapsed > 0 else 0.0


def duration(seconds: float) -> str:
    left = max(0, round(seconds))
    return f"{left} s" if left < 90 else f"{left // 60} min {left % 60} s"
