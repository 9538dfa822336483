"""Writes into docs/simulator-coverage.md which branches of the pure core no seed takes.

``./dev run python tools/sim_branches.py [SEEDS [FIRST]]``: so many seeds of every mode, on all cores. It
takes minutes, because tracing is slow; ``./dev docs`` leaves the section as it is.
"""

import logging
import multiprocessing
import sys
from pathlib import Path

from tidelog.cli.sim.hunt import Amount, Hunt
from tidelog.sim.coverage import Coverage
from tidelog.sim.run import MODES

PAGE = Path(__file__).resolve().parent.parent / "docs" / "simulator-coverage.md"
BEGIN, END = "<!-- branches -->", "<!-- end of branches -->"
COMMAND = "python tools/sim_branches.py"
SEEDS = 40


def section(coverage: Coverage, seeds: int, first: int, failed: int) -> str:
    counts = coverage.branches.counts()
    rows = [f"| `{name}` | {taken} | {count} |" for name, (taken, count) in counts.items()]
    taken, count = (sum(each[index] for each in counts.values()) for index in (0, 1))
    return "\n".join(
        [
            f"{seeds} seeds of every mode from {first} on ({seeds * len(MODES)} runs, {failed} failed) took "
            f"{taken} of {count} branches. Made by `./dev run {COMMAND} {seeds} {first}`.",
            "",
            "| package | taken | branches |",
            "|---|---|---|",
            *rows,
            "",
            "```text",
            *coverage.branches.report(),
            "```",
        ]
    )


def fill(page: str, text: str) -> str:
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no {BEGIN} … {END}")
    return f"{before}{BEGIN}\n{text}\n{END}{after}"


def main(words: list[str]) -> None:
    logging.disable(logging.CRITICAL)
    seeds, first = (int(word) for word in [*words, *(str(SEEDS), "0")[len(words) :]])
    coverage = Coverage()
    wanted: dict[str, dict[str, object]] = {mode: {} for mode in MODES}
    workers = multiprocessing.cpu_count()
    hunt = Hunt(wanted, first, Amount(seeds), workers=workers, coverage=coverage)
    hunt.run()
    text = section(coverage, seeds, first, hunt.sums.failed)
    PAGE.write_text(fill(PAGE.read_text(encoding="utf-8"), text), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
