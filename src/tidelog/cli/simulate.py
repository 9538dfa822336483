"""``tidelog sim``: break a simulated cluster on purpose and see whether Tidelog's promises hold.

The simulator is imported when it is asked for: it brings the whole broker along.
"""

import json
import logging
import time
from collections.abc import Iterator
from contextlib import nullcontext
from hashlib import sha256
from typing import TYPE_CHECKING, Annotated

import typer

from tidelog.cli.failure import CommandFailed
from tidelog.cli.options import flag

if TYPE_CHECKING:
    from rich.progress import Progress

    from tidelog.sim.coverage import Coverage
    from tidelog.sim.result import RunResult

FAILURES_SHOWN = 10


def sim(
    seed: Annotated[
        int | None,
        typer.Option("--seed", metavar="N", help="Run this one seed, and show the end of its trace."),
    ] = None,
    seeds: Annotated[
        int, typer.Option("--seeds", metavar="N", min=1, help="How many seeds to run, from 0 on.")
    ] = 20,
    minutes: Annotated[
        float | None,
        typer.Option("--minutes", metavar="N", min=0, help="Hunt with fresh seeds for so long instead."),
    ] = None,
    mode: Annotated[
        str | None,
        typer.Option(
            "--mode",
            metavar="MODE",
            help="A replication mode; changes for a topic that goes from mode to mode; controllers for their "
            "quorum alone. All by default.",
        ),
    ] = None,
    brokers: Annotated[
        int | None,
        typer.Option(
            "--brokers",
            metavar="N",
            min=1,
            help="So many brokers (or controllers); by default 3 or 5, by the seed.",
        ),
    ] = None,
    trace: Annotated[
        int, typer.Option("--trace", metavar="N", min=0, help="Lines of the trace to show with --seed.")
    ] = 20,
    coverage: Annotated[
        bool, flag("--coverage", help="Say which transitions, effects and error paths were reached.")
    ] = False,
    story: Annotated[
        str | None,
        typer.Option(
            "--story",
            metavar="NAME",
            help="Tell what happens in one scripted fault instead; `all` names them.",
        ),
    ] = None,
) -> None:
    """Simulate a cluster under crashes, power failures, cuts and freezes, and check what Tidelog promises.

    The same seed gives the same run. Exit code 0 when everything held; a failure is printed with the command
    that repeats it. The last line is a JSON summary.

    Example: tidelog sim --seeds 100
    """
    # The code under test logs what it would log in a real broker: here that is thousands of expected
    # failures.
    logging.disable(logging.CRITICAL)
    if story is not None:
        _tell(story)
        return
    wanted = {} if brokers is None else {"size": brokers}
    hunt = Hunt(_modes(mode), wanted, coverage=coverage)
    hunt.run(_numbers(seed, seeds, minutes), expected=None if minutes else (1 if seed is not None else seeds))
    if seed is not None and trace:
        print("\n".join(hunt.last_trace[-trace:]))
    hunt.report()
    if hunt.failed:
        raise CommandFailed(f"{hunt.failed} of {hunt.runs} runs broke a promise.")


def _modes(wanted: str | None) -> tuple[str, ...]:
    from tidelog.sim.run import MODES

    if wanted is None:
        return MODES
    if wanted not in MODES:
        raise CommandFailed(f"There is no mode {wanted!r} to simulate; the modes are {', '.join(MODES)}.")
    return (wanted,)


def _tell(name: str) -> None:
    from tidelog.sim.stories import STORIES, tell

    if name == "all":
        print("\n".join(STORIES))
    elif name not in STORIES:
        raise CommandFailed(f"There is no story {name!r}; `tidelog sim --story all` names them.")
    else:
        print("\n".join(tell(name)))


def _numbers(seed: int | None, seeds: int, minutes: float | None) -> Iterator[int]:
    if seed is not None:
        yield seed
    elif minutes is None:
        yield from range(seeds)
    else:
        end, number = time.monotonic() + minutes * 60, time.time_ns() % 1_000_000_000
        while time.monotonic() < end:
            yield number
            number += 1


class Hunt:
    """Many runs, of which only sums are kept: it may go on for hours."""

    def __init__(self, modes: tuple[str, ...], wanted: dict[str, int], *, coverage: bool) -> None:
        self._modes = modes
        self._wanted = wanted  # what the seeds do not decide
        self._coverage = _new_coverage() if coverage else None
        self._began = time.monotonic()
        self._cpu_began = time.process_time()
        self._digest = sha256()
        self._simulated_ms = 0.0
        self._acknowledged = 0
        self._faults = 0
        self.runs = 0
        self.failed = 0
        self.last_trace: tuple[str, ...] = ()

    def run(self, numbers: Iterator[int], expected: int | None) -> None:
        with _progress() as bar, self._coverage.watch() if self._coverage else nullcontext():
            task = bar.add_task("seeds", total=expected)
            for number in numbers:
                for mode in self._modes:
                    self._run_one(mode, number, bar)
                bar.update(task, advance=1, description=f"seeds, {self.failed} failed")

    def _run_one(self, mode: str, seed: int, bar: "Progress") -> None:
        from tidelog.sim.run import run

        self.runs += 1
        try:
            self._take(run(mode, seed, **self._wanted))
        except Exception as error:
            self.failed += 1
            if self.failed <= FAILURES_SHOWN:
                story = "\n".join(getattr(error, "__notes__", []))
                _say(bar, f"{mode}, seed {seed}: {type(error).__name__}: {error}\n{story}")
            more = f" --brokers {self._wanted['size']}" if self._wanted else ""
            _say(bar, f"repeat it with: tidelog sim --seed {seed} --mode {mode}{more}")

    def _take(self, result: "RunResult") -> None:
        self._digest.update(result.digest.encode())
        self._simulated_ms += result.simulated_ms
        self._acknowledged += result.acknowledged
        self._faults += sum(result.faults.values())
        self.last_trace = result.trace

    def report(self) -> None:
        seconds, simulated = time.monotonic() - self._began, self._simulated_ms / 1000
        cpu_seconds = time.process_time() - self._cpu_began  # Not what others do on this machine.
        summary: dict[str, object] = {
            "runs": self.runs,
            "failed": self.failed,
            "acknowledged": self._acknowledged,
            "faults": self._faults,
            "simulated_seconds": round(simulated, 1),
            "seconds": round(seconds, 1),
            "cpu_seconds": round(cpu_seconds, 1),
            "times_real_time": round(simulated / cpu_seconds, 1) if cpu_seconds else None,
            "digest": self._digest.hexdigest()[:16],
        }
        if self._coverage is not None:
            print("\n".join(self._coverage.report()))
            summary["coverage"] = self._coverage.summary()
        print(json.dumps(summary))


def _say(bar: "Progress", text: str) -> None:
    """Past the bar, which stays below."""
    bar.console.print(text, highlight=False, markup=False, soft_wrap=True)


def _new_coverage() -> "Coverage":
    from tidelog.sim.coverage import Coverage

    return Coverage()


def _progress() -> "Progress":
    """On a terminal's stderr only; whatever else is printed goes to stdout."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    shown = Console(stderr=True).is_terminal
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=shown),
        transient=True,
        disable=not shown,
    )
