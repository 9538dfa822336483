"""Frames of strangers on the parsers, millions of them: none may crash, take long, or cost memory."""

import os
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from bench.fuzzing.frames import Frames
from bench.fuzzing.target import Target
from bench.lineup import Options
from bench.report import Check, Column, Report

FRAMES, QUICK_FRAMES = 10_000_000, 200_000
PER_CONNECTION = 50
WARM_FRAMES = 50_000  # before memory is looked at: schemas are imported and bodies made meanwhile
GROWTH_MB_MAX = 64
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

COLUMNS = (
    Column("frames", "frames", ",.0f"),
    Column("refused", "refused %", ",.1f"),
    Column("per_second", "frames/s", ",.0f"),
    Column("slowest_ms", "slowest ms", ",.1f"),
    Column("growth_mb", "growth MB", ",.1f"),
    Column("findings", "findings", ",.0f"),
)


class Fuzzed(NamedTuple):
    frames: int
    refused: int
    seconds: float
    slowest_s: float
    growth_mb: float
    findings: list[str]


def resident_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES / (1 << 20)


def fuzz(seed: int, frames: int) -> Fuzzed:
    """So many frames, drawn from this seed, in this process."""
    source, target = Frames(seed), Target()
    began = time.monotonic()
    before_mb = 0.0
    while target.frames < frames:
        data = source.stream(PER_CONNECTION)
        target.take(data, source.chance.choice((7, 100, 1500, 65_536)))
        if not before_mb and target.frames >= min(WARM_FRAMES, frames // 2):
            before_mb = resident_mb()
    return Fuzzed(
        target.frames,
        target.refused,
        time.monotonic() - began,
        target.slowest_s,
        resident_mb() - before_mb,
        target.findings,
    )


def run(options: Options) -> list[Report]:
    total = QUICK_FRAMES if options.quick else FRAMES
    jobs = os.cpu_count() or 1
    share = -(-total // jobs)
    options.say(f"{total:,} frames in {jobs} processes, seeds from {options.seed}")
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        found = list(pool.map(fuzz, range(options.seed, options.seed + jobs), [share] * jobs))
    for each in found:
        for finding in each.findings:
            options.console.print(f"[bold red]{finding}[/bold red]", highlight=False)
    report = Report("Frames of strangers on the parsers", COLUMNS, ["seed"], decides=True)
    for number, each in enumerate(found):
        report.rows.append(
            {
                "seed": options.seed + number,
                "frames": each.frames,
                "refused": 100 * each.refused / each.frames,
                "per_second": each.frames / each.seconds,
                "slowest_ms": each.slowest_s * 1000,
                "growth_mb": each.growth_mb,
                "findings": len(each.findings),
            }
        )
    findings = sum(len(each.findings) for each in found)
    report.checks = [
        Check("frames that crash a parser or take 50 ms", findings, 0, at_least=False, unit="frames"),
        Check("memory per process", max(each.growth_mb for each in found), GROWTH_MB_MAX, False, "MB"),
    ]
    return [report]
