"""Which seeds of which mode every test run tries. Each mode has a file of its own: workers share the files.

A failure names its seed; ``tidelog sim --seed N --mode M`` repeats it.
"""

from typing import ClassVar

import pytest

from tidelog.sim.run import run

FIRST = 20_000_000
"""The first seed of every mode. Every issue takes a new range that nobody has tried (issue 12:
12_000_000, issue 20: 20_000_000) and keeps it whatever fails in it: seeds that were chosen because
they pass prove nothing. What fails among them is mended; the range does not move for it.
"""

COUNTS = {  # About two minutes of one core; simulation as a whole may take five.
    "controllers": 50,
    "isr": 60,
    "primary-backup": 30,
    "quorum": 30,
    "transactions": 24,
    "changes": 16,
}
SEEDS = {mode: range(FIRST, FIRST + count) for mode, count in COUNTS.items()}
QUICK = 1  # So many of each mode belong to `./dev test quick`.


class ModeSeeds:
    """Nothing lost, one leader per epoch, everything writable again after the faults; the same every time."""

    mode: ClassVar[str]

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if "seed" in metafunc.fixturenames:
            seeds = SEEDS[self.mode]
            slow = [pytest.param(seed, marks=pytest.mark.slow) for seed in seeds[QUICK:]]
            metafunc.parametrize("seed", [*seeds[:QUICK], *slow])

    def test_promises_hold(self, seed: int) -> None:
        assert run(self.mode, seed).acknowledged > 0

    @pytest.mark.slow
    def test_the_same_seed_gives_the_same_run(self) -> None:
        first, second = run(self.mode, FIRST + 1), run(self.mode, FIRST + 1)
        assert first.trace == second.trace
        assert first == second
        assert run(self.mode, FIRST + 2).digest != first.digest
