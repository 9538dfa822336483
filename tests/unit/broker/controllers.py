"""Controllers under simulated time, for tests: start some, wait for things, look at them."""

import logging
from collections.abc import Callable, Iterator

import pytest

from tidelog.broker.metadata.quorum import MetadataQuorum
from tidelog.replication.voters import Voter
from tidelog.sim.controllers import ControllerMachine, ControllersCluster


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


class Controllers(ControllersCluster):
    def __init__(
        self, size: int = 3, observers: int = 0, *, seed: int = 1, snapshot_bytes: int = 1 << 30
    ) -> None:
        super().__init__(seed, size, observers)
        self.snapshot_bytes = snapshot_bytes

    def run(self, milliseconds: float) -> None:
        self.world.run_until(self.world.now_ms + milliseconds)

    def until(
        self, condition: Callable[[], object], patience_ms: float = 20_000, step_ms: float = 1
    ) -> float:
        """How long it took."""
        began_ms = self.world.now_ms
        if not self.world.run_while(lambda: not condition(), patience_ms, step_ms):
            raise AssertionError(f"it did not happen:\n{self.story()}\n" + "\n".join(self.world.trace))
        return self.world.now_ms - began_ms

    def begin(self) -> "Controllers":
        """Start, and wait until everything is in order and every disk is known."""
        self.start()
        self.until(lambda: self.is_whole() and all(voter.directory for voter in self.voters()))
        self.run(50)  # The leader hears that everybody has everything.
        return self

    def voters(self) -> list[Voter]:
        leader = self.leader()
        return [] if leader is None else list(leader.voters.latest)

    def active(self) -> MetadataQuorum | None:
        return next((quorum for quorum in self.quorums() if quorum.active), None)

    def active_machine(self) -> ControllerMachine:
        return next(machine for machine in self.machines.values() if machine.quorum and machine.quorum.active)

    def followers(self) -> list[ControllerMachine]:
        return [machine for machine in self.machines.values() if machine.quorum and not machine.leads]

    def quorum(self, node_id: int) -> MetadataQuorum:
        found = self.machines[node_id].quorum
        assert found is not None
        return found

    def write_some(self, count: int = 1) -> None:
        """Values that are committed when this returns."""
        for _ in range(count):
            before = len(self.acknowledged)
            self.write()
            self.until(lambda before=before: len(self.acknowledged) > before)  # type: ignore[misc]
