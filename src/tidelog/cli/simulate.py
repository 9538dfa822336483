"""``tidelog sim``: break a simulated cluster on purpose and see whether Tidelog's promises hold."""

import json
import logging
import time
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from tidelog.cli.failure import CommandFailed

MODES = ("isr", "quorum")


def sim(
    seed: Annotated[
        int | None, typer.Option(help="Run this one seed, and show the end of its trace.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds to run, from 0 on.")] = 20,
    minutes: Annotated[float | None, typer.Option(help="Hunt with fresh seeds for so long instead.")] = None,
    mode: Annotated[str | None, typer.Option(help="isr or quorum; both by default.")] = None,
    trace: Annotated[int, typer.Option(help="Lines of the trace to show with --seed.")] = 20,
) -> None:
    """Simulate a cluster under crashes, power failures, cuts and freezes, and check what Tidelog promises.

    The same seed gives the same run. Exit code 0 when everything held; a failure is printed with the command
    that repeats it. The last line is a JSON summary.

    Example: tidelog sim --seeds 100
    """
    if mode is not None and mode not in MODES:
        raise CommandFailed(f"There is no mode {mode!r} to simulate; the modes are {' and '.join(MODES)}.")
    # The code under test logs what it would log in a real broker: here that is thousands of expected
    # failures.
    logging.disable(logging.CRITICAL)
    modes = MODES if mode is None else (mode,)
    began = time.monotonic()
    runs: list[dict[str, Any]] = []
    failures: list[str] = []
    for number in _numbers(seed, seeds, minutes):
        for each in modes:
            summary, failure = _run(each, number)
            if failure is not None:
                failures.append(failure)
                print(f"{failure}\n  repeat it with: tidelog sim --seed {number} --mode {each}")
            elif summary is not None:
                runs.append(summary)
                if seed is not None:
                    print("\n".join(summary["trace"][-trace:] if trace else []))
    _report(runs, failures, time.monotonic() - began)
    if failures:
        raise CommandFailed(f"{len(failures)} of {len(runs) + len(failures)} runs broke a promise.")


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


def _run(mode: str, seed: int) -> tuple[dict[str, Any] | None, str | None]:
    from tidelog.sim.run import run

    try:
        return run(mode, seed), None
    except Exception as error:
        story = "\n".join(getattr(error, "__notes__", []))
        return None, f"{mode}, seed {seed}: {type(error).__name__}: {error}\n{story}"


def _report(runs: list[dict[str, Any]], failures: list[str], seconds: float) -> None:
    simulated = sum(each["simulated_ms"] for each in runs) / 1000
    summary = {
        "runs": len(runs) + len(failures),
        "failed": len(failures),
        "acknowledged": sum(each["acknowledged"] for each in runs),
        "simulated_seconds": round(simulated, 1),
        "seconds": round(seconds, 1),
        "times_real_time": round(simulated / seconds, 1) if seconds else None,
        "digest": _digest(runs),
    }
    print(json.dumps(summary))


def _digest(runs: list[dict[str, Any]]) -> str:
    """One for the whole invocation: equal digests mean equal traces of all runs."""
    from hashlib import sha256

    return sha256("".join(each["digest"] for each in runs).encode()).hexdigest()[:16]
