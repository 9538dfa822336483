"""``tidelog demo``: break brokers by keys or by a script, and see what each replication mode does."""

import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.live import Live

from tidelog.cli.demo.keys import Keys, pressed, raw_terminal
from tidelog.cli.demo.screen import plain, screen, verdicts
from tidelog.cli.failure import CommandFailed

if TYPE_CHECKING:
    from tidelog.lab.demo.script import Step

DEFAULT_S = 20.0  # of a demo that no one steers
TICK_S = 0.1


def demo(
    script: Annotated[
        str | None,
        typer.Option(
            "--script",
            metavar="STEPS",
            help="What to do instead of waiting for keys, such as '2s kill leader; 6s heal'.",
            show_default="keys",
        ),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option("--seconds", metavar="N", min=0, help="End by itself.", show_default="on q"),
    ] = None,
    directory: Annotated[
        Path | None,
        typer.Option(
            "--dir",
            metavar="DIR",
            help="Keep the brokers' data and the history of events here.",
            show_default="none is kept",
        ),
    ] = None,
) -> None:
    """Show four topics of different replication modes under load, and break brokers while you watch.

    Starts three brokers in this terminal. Keys kill, freeze or cut off a broker and heal it again. For each
    mode you see what is acknowledged, lost and duplicated, how long writes stand still, who leads, and why.
    At the end, everything is read back; the exit code is 1 if an acknowledged record is missing.

    Example: tidelog demo --script '2s kill leader; 8s heal' --seconds 14
    """
    from tidelog.lab.demo.script import ScriptError, parse
    from tidelog.lab.demo.topics import BROKERS

    try:
        steps = parse(script, BROKERS) if script is not None else []
    except ScriptError as error:
        raise CommandFailed(str(error)) from error
    is_interactive = script is None and seconds is None
    if is_interactive and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise CommandFailed("The demo needs a terminal for its keys; without one use --script or --seconds.")
    ends_s = seconds if seconds is not None else None if is_interactive else _end_of(steps)
    with ExitStack() as stack:
        place = directory or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidelog-demo-")))
        place.mkdir(parents=True, exist_ok=True)
        is_clean = _Run(place, steps, ends_s).run()
    if not is_clean:
        raise typer.Exit(1)


def _end_of(steps: Sequence["Step"]) -> float:
    return max((step.at_s for step in steps), default=DEFAULT_S) + 4.0


class _Run:
    def __init__(self, place: Path, steps: Sequence["Step"], ends_s: float | None) -> None:
        from tidelog.lab.demo.stage import Stage
        from tidelog.lab.demo.topics import BROKERS

        self._console = Console()
        self._stage = Stage(place)
        self._steps = list(steps)
        self._ends_s = ends_s
        self._keys = Keys(BROKERS)
        self._said = ""

    def run(self) -> bool:
        """Whether every acknowledged record is there, once and in order."""
        for number in (signal.SIGTERM, signal.SIGHUP):  # like Ctrl-C: no broker outlives the demo
            signal.signal(number, signal.default_int_handler)
        try:
            with self._console.status("") as status:
                self._stage.start(lambda words: status.update(words))
            with suppress(KeyboardInterrupt), self._shown() as show:
                while not self._is_over():
                    self._play()
                    show()
            return self._finish()
        finally:
            self._stage.close()

    def _is_over(self) -> bool:
        late = self._ends_s is not None and self._stage.seconds >= self._ends_s
        return self._keys.is_quit or late

    def _play(self) -> None:
        """What is due, by the script and by keys."""
        while self._steps and self._steps[0].at_s <= self._stage.seconds:
            step = self._steps.pop(0)
            self._say(self._stage.act(step.action, step.who))
        if not sys.stdin.isatty():
            time.sleep(TICK_S)
            return
        for key in pressed(TICK_S):
            done = self._keys.press(key)
            if done is not None:
                self._say(self._stage.act(*done))

    def _say(self, words: str) -> None:
        self._said = words
        if not self._console.is_terminal:
            self._console.print(f"{self._stage.seconds:.1f} s: {words}", highlight=False, soft_wrap=True)

    @contextmanager
    def _shown(self) -> Iterator[Callable[[], None]]:
        if not self._console.is_terminal:
            yield self._printer()
            return
        keyed = sys.stdin.isatty()
        with ExitStack() as stack:
            if keyed:
                stack.enter_context(raw_terminal())
            live = stack.enter_context(
                Live(console=self._console, auto_refresh=False, screen=False, vertical_overflow="visible")
            )

            def show() -> None:
                now = self._stage.snapshot()
                live.update(screen(now, self._said, self._keys.pending, keyed), refresh=True)

            yield show

    def _printer(self) -> Callable[[], None]:
        due = [0.0]

        def show() -> None:
            if self._stage.seconds >= due[0]:
                due[0] = self._stage.seconds + 1.0
                self._console.print(plain(self._stage.snapshot()), highlight=False, soft_wrap=True)

        return show

    def _finish(self) -> bool:
        longest = {line.title: line.longest_s for line in self._stage.snapshot().lines}
        with self._console.status("healing everything and reading every record back"):
            found = self._stage.finish()
        self._console.print(verdicts(found, longest))
        is_clean = all(one.is_clean for one in found.values())
        for one in found.values():
            for example in one.examples:
                self._console.print(example, highlight=False)
        lost = sum(one.lost for one in found.values())
        self._console.print(
            "Every acknowledged record is there, once and in order."
            if is_clean
            else f"{lost} acknowledged records are missing, or records are there twice or out of order.",
            highlight=False,
        )
        return is_clean
