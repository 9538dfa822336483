"""Which hooks an experiment needs: none costs anything where it is not needed."""

from collections.abc import Iterable
from typing import NamedTuple

from tidelog.lab.experiment.model import Experiment
from tidelog.lab.faults.catalog import CLOCK, DISK, FAULTS, NETWORK

NONE, RELAY, NAMESPACES = "none", "relay", "namespaces"

_CUTS = frozenset({"cut", "one-way-cut"})
_WITHOUT_HOOK = frozenset({"flipped-bit", "wipe"})  # faults of disks that are made from outside


class Needs(NamedTuple):
    network: str = NONE  # NONE, RELAY or NAMESPACES
    disk: bool = False  # disk faults and the clock, made inside of the broker process
    journal: bool = False  # of what is synced, for power failures
    shaped: bool = False  # lines that are slow or lossy, not only cut

    @classmethod
    def of(cls, experiment: Experiment, namespaces: bool) -> "Needs":
        """``namespaces``: network faults by namespaces and netem (root), not by the relay."""
        return cls.of_faults((step.fault for step in experiment.timeline), namespaces)

    @classmethod
    def of_faults(cls, faults: Iterable[str], namespaces: bool = False) -> "Needs":
        kinds = [FAULTS[fault] for fault in faults]
        network = any(kind.group == NETWORK for kind in kinds)
        journal = any(kind.name == "power-failure" for kind in kinds)
        disk = any(kind.group in (DISK, CLOCK) and kind.name not in _WITHOUT_HOOK for kind in kinds)
        shaped = any(kind.group == NETWORK and kind.name not in _CUTS for kind in kinds)
        return cls((NAMESPACES if namespaces else RELAY) if network else NONE, disk, journal, shaped)
