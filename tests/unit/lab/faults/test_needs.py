"""Only what an experiment needs is switched on."""

import pytest

from tidelog.lab.experiment.model import Experiment, FaultStep
from tidelog.lab.faults.needs import Needs


def experiment(*faults: str) -> Experiment:
    steps = tuple(FaultStep(at=float(n), fault=fault) for n, fault in enumerate(faults))
    return Experiment(name="e", title="t", timeline=steps)


@pytest.mark.parametrize(
    ("faults", "needs"),
    [
        ((), Needs("none")),
        (("kill", "wipe", "flipped-bit", "drain"), Needs("none")),
        (("kill", "cut"), Needs("relay")),
        (("clock-jump",), Needs("none", disk=True)),
        (("full-disk", "delay"), Needs("relay", disk=True, shaped=True)),
        (("power-failure",), Needs("none", disk=True, journal=True)),
    ],
)
def test_hooks_follow_from_the_faults(faults: tuple[str, ...], needs: Needs) -> None:
    assert Needs.of(experiment(*faults), namespaces=False) == needs


def test_namespaces_replace_the_relay() -> None:
    assert Needs.of(experiment("loss"), namespaces=True) == Needs("namespaces", shaped=True)
    assert Needs.of(experiment("cut", "one-way-cut"), namespaces=True) == Needs("namespaces")
    assert Needs.of(experiment("kill"), namespaces=True) == Needs("none")
