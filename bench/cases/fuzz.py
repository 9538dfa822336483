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
CHUNK = 100_000  # frames that are drawn from one seed
PER_CONNECTION = 50
GROWTH_MB_MAX = 64  # of a process after its first chunk, in which schemas are imported
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

COLUMNS = (
    Column("refused", "refused %", ",.1f"),
    Column("per_second", "frames/s", ",.0f"),
    Column("slowest_ms", "slowest ms", ",.1f"),
    Column("growth_mb", "growth MB", ",.1f"),
    Column("findings", "findings", ",.0f"),
)


class Fuzzed(NamedTuple):
    frames: int
    refused: int
    slowest_s: float
    findings: list[str]
    process: int
    resident_mb: float  # of the process, afterwards


def resident_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES / (1 << 20)


def fuzz(seed: int, frames: int) -> Fuzzed:
    """So many frames, drawn from this seed, in this process."""
    source, target = Frames(seed), Target()
    while target.frames < frames:
        data = source.stream(PER_CONNECTION)
        target.take(data, source.chance.choice((7, 100, 1500, 65_536)))
    return Fuzzed(
        target.frames, target.refused, target.slowest_s, target.findings, os.getpid(), resident_mb()
    )


def run(options: Options) -> list[Report]:
    chunks = -(-(QUICK_FRAMES if options.quick else FRAMES) // CHUNK)
    jobs = os.cpu_count() or 1
    options.say(f"{chunks * CHUNK:,} frames in {jobs} processes, seeds from {options.seed}")
    began = time.monotonic()
    found: list[Fuzzed] = []
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        seeds = range(options.seed, options.seed + chunks)
        for each in pool.map(fuzz, seeds, [CHUNK] * chunks):
            found.append(each)
            for finding in each.findings:
                options.console.print(f"[bold red]{finding}[/bold red]", highlight=False)
            if len(found) % 10 == 0:
                options.say(f"{sum(one.frames for one in found):,} frames")
    return [_report(found, time.monotonic() - began)]


def _report(found: list[Fuzzed], seconds: float) -> Report:
    frames = sum(each.frames for each in found)
    findings = sum(len(each.findings) for each in found)
    growth_mb = max(_growth_mb([each for each in found if each.process == one.process]) for one in found)
    report = Report("Frames of strangers on the parsers", COLUMNS, ["frames"], decides=True)
    report.rows.append(
        {
            "frames": f"{frames:,}",
            "refused": 100 * sum(each.refused for each in found) / frames,
            "per_second": frames / seconds,
            "slowest_ms": max(each.slowest_s for each in found) * 1000,
            "growth_mb": growth_mb,
            "findings": findings,
        }
    )
    report.checks = [
        Check("frames that crash a parser or take 50 ms", findings, 0, at_least=False, unit="frames"),
        Check("growth of a process", growth_mb, GROWTH_MB_MAX, at_least=False, unit="MB"),
    ]
    return report


def _growth_mb(of_process: list[Fuzzed]) -> float:
    return max(each.resident_mb for each in of_process) - of_process[0].resident_mb
