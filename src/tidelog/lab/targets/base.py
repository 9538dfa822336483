"""The interface of a target: a cluster that the lab starts, observes by the public protocol, and breaks."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol

from tidelog.client.cluster_view import ClusterView
from tidelog.lab.experiment.model import ClusterSpec
from tidelog.lab.faults.injected import Injected
from tidelog.lab.faults.parties import Parties
from tidelog.lab.faults.processes import is_alive


class TargetError(Exception):
    """Why the target cannot be used, in one sentence."""


class Target(Protocol):
    """``start`` may be called again after ``stop``, with another directory."""

    @property
    def name(self) -> str:
        """``tidelog``, ``kafka``, ``external``."""

    @property
    def version(self) -> str: ...

    @property
    def faults(self) -> frozenset[str]:
        """Names of the faults that can be made on it."""

    @property
    def modes(self) -> frozenset[str]:
        """Replication modes that its topics can have."""

    @property
    def bootstrap(self) -> str:
        """For clients."""

    @property
    def brokers(self) -> tuple[int, ...]: ...

    @property
    def voters(self) -> tuple[int, ...]:
        """Of the controllers' quorum; empty: they are not among the brokers."""

    @property
    def network(self) -> str:
        """How network faults are made: ``none``, ``relay`` or ``namespaces``."""

    @property
    def session_s(self) -> float:
        """After how much silence a broker counts as dead."""

    @property
    def lag_s(self) -> float:
        """After how much lag a follower leaves the in-sync set."""

    @property
    def notices_ends(self) -> bool:
        """Whether brokers notice at once that a broker's process has ended."""

    def start(self, directory: Path, spec: ClusterSpec, faults: Iterable[str]) -> None:
        """Start all brokers and wait until they know each other. ``faults`` are those that will be made: what
        they do not need is not there.
        """

    def stop(self) -> None:
        """End everything that was started, whatever state it is in."""

    def pid(self, number: int) -> int:
        """RuntimeError if that broker does not run here."""

    def launch(self, number: int) -> None:
        """Start a broker that is down, without waiting."""

    def check(self) -> None:
        """TargetError if a broker ended by itself."""

    def ended(self) -> tuple[int, ...]:
        """Brokers that were started and whose processes have ended; of a cluster elsewhere none is known."""

    def view(self, *topics: str) -> ClusterView:
        """What the brokers report about these topics; OSError if none answers."""

    def answering(self) -> frozenset[int]:
        """The brokers that answer now."""

    def controller(self) -> int:
        """The active one; -1: none is known."""

    def inject(self, fault: str, parties: Parties, parameters: Mapping[str, object]) -> Injected:
        """Make a fault now."""

    def votes_again(self) -> bool:
        """Whether every controller votes again that lost its disk and was started since."""


def pids_of(target: Target) -> dict[int, int]:
    """Of those brokers that run on this machine."""
    found = {}
    for number in target.brokers:
        try:
            found[number] = target.pid(number)
        except RuntimeError:
            continue
    return found


def ended_of(target: Target) -> tuple[int, ...]:
    """Of those brokers that were started on this machine."""
    return tuple(number for number, pid in pids_of(target).items() if not is_alive(pid))
