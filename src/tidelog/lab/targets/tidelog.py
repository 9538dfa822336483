"""Tidelog's own brokers as processes of this machine, with the hooks that the faults need."""

import importlib.metadata
from collections.abc import Iterable, Mapping
from pathlib import Path

from tidelog.client.cluster_view import ClusterView
from tidelog.config import BROKER_SETTINGS, MODES
from tidelog.lab.experiment.model import ClusterSpec
from tidelog.lab.faults.catalog import FAULTS
from tidelog.lab.faults.cluster import LabCluster
from tidelog.lab.faults.errors import FaultError
from tidelog.lab.faults.inject import inject
from tidelog.lab.faults.injected import Injected
from tidelog.lab.faults.needs import Needs
from tidelog.lab.faults.parties import Parties, brokers_of
from tidelog.lab.local.broker import BrokerError
from tidelog.lab.local.network import NetworkUnavailable
from tidelog.lab.targets.base import TargetError, ended_of
from tidelog.lab.targets.readmission import Readmissions
from tidelog.lab.targets.viewing import Viewer

START_TIMEOUT_S = 60.0
WIPE = "wipe"


class TidelogTarget:
    name = "tidelog"
    faults = frozenset(FAULTS)
    modes = frozenset(MODES)
    notices_ends = True

    def __init__(self, *, namespaces: bool = False) -> None:
        """``namespaces``: network faults by network namespaces, which need root."""
        self._namespaces = namespaces
        self._cluster: LabCluster | None = None
        self._settings: Mapping[str, object] = {}
        self._viewer = Viewer(self._addresses)
        self._readmissions = Readmissions(self._viewer.voters)

    @property
    def version(self) -> str:
        return importlib.metadata.version("tidelog")

    @property
    def cluster(self) -> LabCluster:
        if self._cluster is None:
            raise RuntimeError("the cluster is not started")
        return self._cluster

    @property
    def bootstrap(self) -> str:
        return self.cluster.client_bootstrap

    @property
    def brokers(self) -> tuple[int, ...]:
        return self.cluster.brokers

    @property
    def voters(self) -> tuple[int, ...]:
        return tuple(self.cluster.controllers())

    @property
    def network(self) -> str:
        return self.cluster.network

    @property
    def session_s(self) -> float:
        return self._milliseconds("broker.session.timeout.ms") / 1000

    @property
    def lag_s(self) -> float:
        return self._milliseconds("replica.lag.time.max.ms") / 1000

    def start(self, directory: Path, spec: ClusterSpec, faults: Iterable[str]) -> None:
        self._settings = spec.settings
        try:
            self._cluster = LabCluster(directory, spec, Needs.of_faults(faults, self._namespaces))
            self._cluster.start(START_TIMEOUT_S)
        except (BrokerError, NetworkUnavailable, FaultError, OSError, RuntimeError) as error:
            self.stop()
            raise TargetError(_why(error, directory)) from error

    def stop(self) -> None:
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None
            self._readmissions = Readmissions(self._viewer.voters)

    def pid(self, number: int) -> int:
        return self.cluster.pid(number)

    def launch(self, number: int) -> None:
        self.cluster.launch(number)

    def check(self) -> None:
        """Faults end brokers, too: :meth:`ended` says which have, once all faults are healed."""

    def ended(self) -> tuple[int, ...]:
        return ended_of(self)

    def view(self, *topics: str) -> ClusterView:
        return self._viewer.view(*topics)

    def answering(self) -> frozenset[int]:
        return self._viewer.answering()

    def controller(self) -> int:
        return self._viewer.controller()

    def inject(self, fault: str, parties: Parties, parameters: Mapping[str, object]) -> Injected:
        def make() -> Injected:
            return inject(self.cluster, fault, parties, parameters)

        return self._readmissions.wiping(brokers_of(parties.first), make) if fault == WIPE else make()

    def votes_again(self) -> bool:
        return self._readmissions.are_over()

    def _addresses(self) -> dict[int, tuple[str, int]]:
        return {
            broker.node_id: (broker.host, broker.port) for broker in self.cluster.cluster if broker.is_running
        }

    def _milliseconds(self, name: str) -> float:
        return float(str(self._settings.get(name, BROKER_SETTINGS[name].default)))


def _why(error: Exception, directory: Path) -> str:
    """One sentence."""
    if isinstance(error, NetworkUnavailable):
        return f"This experiment cannot be run with --namespaces: {error}; without it, a relay is used."
    if isinstance(error, OSError) and error.errno == 28:
        return f"There is no space left on the disk of {directory}."
    if isinstance(error, BrokerError):
        text = str(error)
        last = text.strip().splitlines()[-1].rstrip(":")
        if "No space left" in text:
            return f"There is no space left on the disk of {directory}."
        told = "" if last.startswith("<") else f" The last line of the log: {last}"
        return f"The brokers did not start: {text.partition(';')[0]}.{told}"
    return f"The brokers did not start: {error}."
