"""``tidelog sim``: run a simulated cluster under faults and check whether Tidelog's promises hold.

The simulator is imported when it is asked for: it brings the whole broker along.
"""

import json
import logging
import multiprocessing
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidelog.cli.failure import CommandFailed, InvalidCommandLine
from tidelog.cli.options import flag
from tidelog.cli.sim.explore import explore as explore_scope

if TYPE_CHECKING:
    from tidelog.sim.coverage import Coverage

DEFAULT_SEEDS = 20


def sim(
    seed: Annotated[
        int | None,
        typer.Option("--seed", metavar="N", help="Run only this seed and show the end of its trace."),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option("--seeds", metavar="N", min=1, help=f"Number of seeds. Default: {DEFAULT_SEEDS}."),
    ] = None,
    first: Annotated[
        int | None,
        typer.Option("--first", metavar="N", help="First seed. Default: 0; a random one for a hunt."),
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option("--minutes", metavar="N", min=0, help="Hunt with fresh seeds for N minutes instead."),
    ] = None,
    faults: Annotated[
        int | None,
        typer.Option(
            "--faults", metavar="N", min=1, help="Hunt with fresh seeds until N faults were injected."
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            "--report",
            metavar="DIR",
            help="Store totals, failures and their shortest stories there. A second run with the same "
            "directory continues.",
        ),
    ] = None,
    workers: Annotated[
        int, typer.Option("--workers", metavar="N", min=0, help="Number of processes; 0: one per core.")
    ] = 1,
    mode: Annotated[
        str | None,
        typer.Option(
            "--mode",
            metavar="MODE",
            help="A replication mode, `transactions`, `changes` (a topic that changes its mode) or "
            "`controllers` (only their quorum). Default: all.",
        ),
    ] = None,
    brokers: Annotated[
        int | None,
        typer.Option(
            "--brokers",
            metavar="N",
            min=1,
            help="Number of brokers (or controllers). Default: 3 or 5, depending on the seed.",
        ),
    ] = None,
    only_faults: Annotated[
        str | None,
        typer.Option("--only-faults", metavar="N,N,…", help="Inject only these of the seed's faults."),
    ] = None,
    plan: Annotated[
        list[str] | None,
        typer.Option(
            "--plan",
            metavar="FIELD=JSON",
            help="Fix a part of the plan instead of drawing it from the seed; may be repeated.",
        ),
    ] = None,
    shrink: Annotated[
        bool, flag("--shrink", help="Find and print the shortest story of every failure.")
    ] = False,
    trace: Annotated[
        int, typer.Option("--trace", metavar="N", min=0, help="Lines of the trace to show with --seed.")
    ] = 20,
    coverage: Annotated[
        bool,
        flag("--coverage", help="Report which transitions, effects, error paths and branches were reached."),
    ] = False,
    story: Annotated[
        str | None,
        typer.Option(
            "--story",
            metavar="NAME",
            help="Run one scripted story instead; `all` lists them.",
        ),
    ] = None,
    explore: Annotated[
        str | None,
        typer.Option(
            "--explore",
            metavar="SCOPE",
            help="Explore all states of one small scope instead; `all` lists them.",
        ),
    ] = None,
    depth: Annotated[
        int | None,
        typer.Option("--depth", metavar="N", min=1, help="With --explore: at most N steps."),
    ] = None,
) -> None:
    """Simulate a cluster under crashes, power failures, network cuts and freezes, and check its promises.

    The same seed gives the same run. The exit code is 0 if all promises held. A failure is printed with the
    command that repeats it. The last line is a JSON summary.

    Example: tidelog sim --seeds 100
    """
    # The code under test logs what it would log in a real broker: here that is thousands of expected
    # failures.
    logging.disable(logging.CRITICAL)
    if story is not None:
        _tell(story)
        return
    if explore is not None:
        explore_scope(explore, depth)
        return
    from tidelog.cli.sim.hunt import Amount, Hunt
    from tidelog.cli.sim.report import Report

    wanted = _wanted(_modes(mode), brokers, only_faults, plan or [])
    amount = Amount(1 if seed is not None else seeds, minutes, faults)
    if amount == Amount():
        amount = Amount(DEFAULT_SEEDS)
    first = _first(seed, first, fresh=amount.seeds is None)
    book = None if report is None else Report(report)
    if book is not None:
        asked = {
            "first": first,
            "modes": list(wanted),
            "brokers": brokers,
            "faults": only_faults,
            "plan": plan or [],
        }
        first = book.agree(asked)["first"]
    seen = _new_coverage() if coverage else None
    hunt = Hunt(
        wanted, first, amount, workers=workers or multiprocessing.cpu_count(), lines=max(trace, 40),
        shrinks=shrink or book is not None, report=book, coverage=seen,
    )  # fmt: skip
    hunt.run()
    if seed is not None and trace:
        print("\n".join(hunt.last_trace[-trace:]))
    summary = hunt.summary()
    if seen is not None:
        print("\n".join(seen.report()))
        summary["coverage"] = seen.summary()
    print(json.dumps(summary))
    if hunt.sums.failed:
        raise CommandFailed(f"{hunt.sums.failed} of {hunt.sums.runs} runs broke a promise.")


def _first(seed: int | None, first: int | None, *, fresh: bool) -> int:
    if seed is not None:
        return seed
    if first is not None:
        return first
    return time.time_ns() % 1_000_000_000 if fresh else 0


def _wanted(
    modes: tuple[str, ...], brokers: int | None, only_faults: str | None, plan: list[str]
) -> Mapping[str, Mapping[str, Any]]:
    """Mode → what its seeds do not decide."""
    from tidelog.sim.overrides import UnknownOverride, parse, parse_numbers

    asked: dict[str, Any] = {} if brokers is None else {"size": brokers}
    try:
        if only_faults is not None:
            asked["only_faults"] = parse_numbers(only_faults)
        return {mode: asked | dict(parse(mode, override) for override in plan) for mode in modes}
    except UnknownOverride as error:
        raise CommandFailed(str(error)) from error


def _modes(wanted: str | None) -> tuple[str, ...]:
    from tidelog.sim.run import MODES

    if wanted is None:
        return MODES
    if wanted not in MODES:
        raise InvalidCommandLine(f"Unknown mode {wanted!r}; the modes are {', '.join(MODES)}.")
    return (wanted,)


def _tell(name: str) -> None:
    from tidelog.sim.stories import STORIES, tell

    if name == "all":
        print("\n".join(STORIES))
    elif name not in STORIES:
        raise InvalidCommandLine(f"Unknown story {name!r}; `tidelog sim --story all` lists them.")
    else:
        print("\n".join(tell(name)))


def _new_coverage() -> "Coverage":
    from tidelog.sim.coverage import Coverage

    return Coverage()
