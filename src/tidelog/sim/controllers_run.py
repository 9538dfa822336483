"""One run of the controllers alone: a phase with faults, then a healthy one in which everything
must recover.
"""

import random
from collections.abc import Mapping
from typing import Any, NamedTuple

from tidelog.invariant import invariant
from tidelog.sim.checkers.violation import Violation
from tidelog.sim.controllers import HASTY, ControllersCluster
from tidelog.sim.faults import Nemesis
from tidelog.sim.machine import DISK_DELAY_MS
from tidelog.sim.result import RunResult

FAULTS_MS = 20_000.0
PACES_MS: tuple[tuple[float, float], ...] = ((100, 1500), (50, 400), (20, 200))  # between two faults
WAIT_MS = 15_000.0  # within which healthy controllers must be whole again


class ControllersPlan(NamedTuple):
    """The plan of one run."""

    size: int
    hasty: bool  # elections without end
    zeal: float
    operator_ms: float  # between changes of the voters, on average; 0: none, but disks are replaced
    disk_delay_ms: tuple[float, float]
    only_faults: tuple[int, ...] | None = None  # numbers of the drawn faults that are done; None: all
    luck: int = 0  # Another number: another course of everything but this plan and its faults.
    pace_ms: tuple[float, float] = PACES_MS[0]
    faults_ms: float = FAULTS_MS


def draw(seed: int, wanted: Mapping[str, Any]) -> ControllersPlan:
    """``wanted`` fixes parts of the plan."""
    chance = random.Random(f"plan {seed}")
    plan = ControllersPlan(
        size=5 if seed % 3 == 0 else 3,
        hasty=chance.random() < 0.5,
        zeal=chance.choice([0.0, 0.0, 0.5]),
        operator_ms=chance.choice([0, 500, 3000]),
        disk_delay_ms=chance.choice([DISK_DELAY_MS, DISK_DELAY_MS, (2.0, 30.0)]),
        pace_ms=random.Random(f"pace {seed}").choice(PACES_MS),
    )
    return plan._replace(**wanted)


class ControllersSimulation:
    def __init__(self, seed: int, plan: ControllersPlan) -> None:
        self.plan = plan
        observers = seed % 2 + 1
        self.cluster = ControllersCluster(seed, plan.size, observers)
        self.world = self.cluster.world
        self.world.reshuffle(plan.luck)
        self.nemesis = Nemesis(
            self.world,
            self.cluster.network,
            self.cluster.machines,
            without=["damage", "rot", "desert", "old letters"],  # About brokers.
            numbers=plan.only_faults,
            pace_ms=plan.pace_ms,
            may_fail_syncs=self.cluster.may_fail_syncs,
            favourites=self.cluster.leaders,
        )

    def run(self) -> RunResult:
        world, plan, cluster = self.world, self.plan, self.cluster
        world.note(f"plan: {plan}")
        cluster.ill_luck = 0.3
        if plan.hasty:
            cluster.timing = HASTY
            cluster.ill_luck = 0.6
            cluster.network.weather.delay_ms = (0.1, 20.0)
            self._again(cluster.usurp, 250)
        cluster.zeal = plan.zeal
        for machine in cluster.machines.values():
            machine.disk_delay_ms = plan.disk_delay_ms
        cluster.start()
        self._load()
        self.nemesis.rage()
        if plan.operator_ms:
            self._again(cluster.change_voters, plan.operator_ms)
        else:
            self._again(cluster.wipe, 300)
        world.run_until(world.now_ms + plan.faults_ms)
        cluster.calm()
        self.nemesis.calm()
        self._expect(cluster.is_whole, "healthy controllers are not whole again")
        before = len(cluster.acknowledged)
        self._load(lambda: len(cluster.acknowledged) < before + 10)
        self._expect(lambda: len(cluster.acknowledged) >= before + 10, "healthy controllers decide nothing")
        self._expect(cluster.is_whole, "healthy controllers do not settle")
        cluster.check_acknowledged()
        # What is known must also be on the disks.
        for machine in cluster.machines.values():
            machine.kill()
            machine.start()
        self._expect(cluster.is_whole, "controllers that were started anew are not whole")
        cluster.check_acknowledged()
        invariant(len(cluster.acknowledged) >= 10, "a run without load proves nothing")
        return self._result()

    def _load(self, wanted: Any = None) -> None:
        wanted = wanted or (lambda: self.nemesis.raging or self.world.elapsed_ms < 1000)

        def again() -> None:
            if wanted():
                self.cluster.write()
                self.world.after(self.world.chance.expovariate(1 / 25.0), again)

        again()

    def _again(self, action: Any, mean_ms: float) -> None:
        def again() -> None:
            if self.nemesis.raging:
                action()
                self.world.after(self.world.chance.expovariate(1 / mean_ms), again)

        self.world.after(mean_ms, again)

    def _expect(self, condition: Any, otherwise: str) -> None:
        if not self.world.run_while(lambda: not condition(), WAIT_MS):
            raise Violation(f"{otherwise}:\n{self.cluster.story()}")

    def _result(self) -> RunResult:
        world, cluster = self.world, self.cluster
        return RunResult(
            "controllers",
            world.seed,
            world.digest(),
            world.steps,
            cluster.network.messages,
            cluster.sent,
            len(cluster.acknowledged),
            self.nemesis.struck,
            world.elapsed_ms,
            tuple(world.trace),
        )
