"""Flipped bits in files beside the records: indexes, checkpoints, ballots, the metadata and its snapshots.

None of them is worth more than the records: damage is noticed and repaired from them or from other nodes, or
the process reports that it cannot continue and its operator replaces the disk. So the checkers are not told:
every promise must hold as if nothing had happened. One machine at a time, as for a replaced disk; with a
restart at once or after a while. Batches of the metadata log are damaged like other batches
(:mod:`tidelog.sim.decay`): while the process restarts, and only where a checksum covers them.
"""

import random
from collections.abc import Callable
from typing import TYPE_CHECKING

from tidelog.protocol.batch import iterate
from tidelog.sim.budget import Budget
from tidelog.sim.decay import covered
from tidelog.sim.machine import DATA

if TYPE_CHECKING:
    from tidelog.sim.cluster import BrokerMachine, SimCluster

LATER_MS = (100.0, 4000.0)
LOOKS_MS = 500.0
METADATA = f"{DATA}/__cluster_metadata-0/"

KINDS: dict[str, Callable[[str], bool]] = {
    "index": lambda path: path.endswith((".index", ".timeindex")),
    "aborted transactions": lambda path: path.endswith(".txnindex"),
    "producer snapshot": lambda path: path.endswith(".snapshot"),
    "epochs": lambda path: path.endswith("leader-epoch-checkpoint"),
    "partition": lambda path: path.endswith("partition.metadata"),
    "recovery points": lambda path: path.endswith("recovery-point-offset-checkpoint"),
    "watermarks": lambda path: path.endswith("replication-offset-checkpoint"),
    "log starts": lambda path: path.endswith("log-start-offset-checkpoint"),
    "cleaner": lambda path: path.endswith("cleaner-offset-checkpoint"),
    "identity": lambda path: path.endswith("meta.properties"),
    "ballots": lambda path: path.endswith(("ballots", "quorum-state")),
    "metadata": lambda path: path.startswith(METADATA) and path.endswith(".log"),
    "metadata snapshot": lambda path: path.startswith(METADATA) and path.endswith(".checkpoint"),
}
"""Name → which files."""

BATCHES = frozenset({"metadata"})
"""Those that consist of batches."""


class Rot:
    def __init__(self, cluster: "SimCluster", budget: Budget, seed: int) -> None:
        self._cluster = cluster
        self._budget = budget
        self._chance = random.Random(f"rot {seed}")

    def strike(self, kind: str) -> str:
        """Flip one bit of one file on a disk, if the budget allows it; returns what was done."""
        chance = self._chance
        machines = list(self._cluster.machines.values())
        machine = chance.choice([each for each in machines if self._budget.may_lose_disk(each)] or [None])
        if machine is None:
            return "nobody's"
        paths = [path for path in machine.disk.paths() if KINDS[kind](path)]
        paths = [path for path in paths if machine.disk.size(path)]
        if not paths:
            return f"{machine.node_id}: there is none"
        path = chance.choice(paths)
        self._budget.suspect(machine)
        at_once = chance.random() < 0.5 or kind in BATCHES
        if at_once:
            machine.kill()
        at = self._position(machine, path) if kind in BATCHES else chance.randrange(machine.disk.size(path))
        machine.disk.flip(path, at, chance.randrange(8))
        if at_once:
            self._start(machine)
        else:
            self._cluster.world.after(chance.uniform(*LATER_MS), lambda: self._restart(machine))
        return f"{machine.node_id} {path} at {at}"

    def _position(self, machine: "BrokerMachine", path: str) -> int:
        """A byte of a batch that its checksum covers."""
        data = machine.disk.contents(path.rpartition("/")[0])[path]
        batches = [(start, header.size) for start, header in iterate(data)]
        start, size = self._chance.choice(batches or [(0, len(data))])
        return start + self._chance.choice(covered(size))

    def _restart(self, machine: "BrokerMachine") -> None:
        machine.kill()
        self._start(machine)

    def _start(self, machine: "BrokerMachine") -> None:
        machine.start()
        if not machine.alive and machine.damaged:
            # Its operator waits until the disk works again, and looks then whether the process starts.
            self._cluster.world.after(LOOKS_MS, lambda: self._start(machine))
            return
        if not machine.alive:
            self._cluster.world.note(f"node {machine.node_id} gets a new disk")
            machine.lose_disk()
            machine.start()
        self._budget.looked_at()
