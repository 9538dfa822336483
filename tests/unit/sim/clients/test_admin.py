"""A topic that is created at the end of the faults belongs to the run like any other."""

import pytest

from tidelog.sim.clients import admin
from tidelog.sim.plan import draw
from tidelog.sim.run import Simulation

FAULTS_MS = 1000.0
LATE_MS = 2000.0  # after which the administrator looks again: longer than a healthy cluster takes to settle


@pytest.mark.parametrize("mode", ["isr", "quorum"])
def test_a_late_topic_takes_writes_and_its_clients_stop(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin, "AGAIN_MS", LATE_MS)
    wanted = {"faults_ms": FAULTS_MS, "administrated": False, "only_faults": (), "operations": ()}
    simulation = Simulation(1, draw(mode, 1, wanted))
    simulation.world.after(FAULTS_MS, simulation.admin.create)
    simulation.run()
    assert simulation.admin.topics == ["x1"]
    late = [producer for producer in simulation.producers if producer.topic == "x1"]
    assert [producer.acknowledged > 0 for producer in late] == [True]
    assert all(producer.stopped for producer in simulation.producers)
