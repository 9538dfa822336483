"""How far a hunt has come: a bar on a terminal, a line now and then elsewhere. Both go to stderr; what was
found goes to stdout.
"""

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from tidelog.cli.sim.hunt import Amount, Sums

LINE_S = 60.0  # between two plain lines


class Display:
    def __init__(self, amount: "Amount", modes: int) -> None:
        self._amount = amount
        self._modes = modes
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._began = self._said = time.monotonic()
        self._at_first: tuple[float, int] | None = None  # what was done before this start, and its faults

    def __enter__(self) -> "Display":
        from rich.console import Console

        if Console(stderr=True).is_terminal:
            self._bar = _bar()
            self._bar.start()
            self._task = self._bar.add_task("", total=self._total())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def say(self, text: str) -> None:
        """Past the bar, which stays below."""
        if self._bar is not None and sys.stdout.isatty():
            self._bar.console.print(text, highlight=False, markup=False, soft_wrap=True)
        else:
            print(text, flush=True)

    def show(self, sums: "Sums") -> None:
        done = self._done(sums)
        if self._at_first is None:
            self._at_first = done, sums.faults
        done_before, faults_before = self._at_first
        rate = (sums.faults - faults_before) / max(time.monotonic() - self._began, 0.001)
        text = f"{sums.runs:,} runs, {sums.faults:,} faults ({rate:.0f}/s), {sums.failed} failed"
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=done, description=text)
        elif time.monotonic() - self._said >= LINE_S:
            self._said = time.monotonic()
            self._print(text, done, done - done_before)

    def _print(self, text: str, done: float, newly_done: float) -> None:
        total, rate = self._total(), newly_done / (time.monotonic() - self._began)
        if total and rate:
            left_s = max(0.0, (total - done) / rate)
            text += f", {done / total:.0%}, about {left_s / 60:.0f} minutes left"
        print(text, file=sys.stderr, flush=True)

    def _total(self) -> float | None:
        """Of whatever ends this hunt."""
        if self._amount.faults is not None:
            return self._amount.faults
        if self._amount.minutes is not None:
            return self._amount.minutes * 60
        return None if self._amount.seeds is None else self._amount.seeds * self._modes

    def _done(self, sums: "Sums") -> float:
        if self._amount.faults is not None:
            return sums.faults
        return time.monotonic() - self._began if self._amount.minutes is not None else sums.runs


def _bar() -> "Progress":
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        TextColumn("left"),
        console=Console(stderr=True),
        transient=True,
    )
