"""Which seeds of which mode every test run tries. Each mode has a file of its own: workers share the files.

A failure names its seed; ``tidelog sim --seed N --mode M`` repeats it.
"""

from typing import ClassVar

import pytest

from tidelog.sim.run import run

SEEDS = {
    "controllers": range(50),
    "isr": range(60),
    "primary-backup": range(30),
    "quorum": range(30),
    "transactions": range(24),
    "changes": range(16),
}


class ModeSeeds:
    """Nothing lost, one leader per epoch, everything writable again after the faults; the same every time."""

    mode: ClassVar[str]

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if "seed" in metafunc.fixturenames:
            metafunc.parametrize("seed", SEEDS[self.mode])

    def test_promises_hold(self, seed: int) -> None:
        assert run(self.mode, seed).acknowledged > 0

    def test_the_same_seed_gives_the_same_run(self) -> None:
        first, second = run(self.mode, 1), run(self.mode, 1)
        assert first.trace == second.trace
        assert first == second
        assert run(self.mode, 2).digest != first.digest
