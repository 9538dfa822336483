"""Real brokers for tests, without Docker: own processes, own directories, free ports.

Public: use it to test programs against a Kafka-compatible broker or cluster, as Tidelog's own tests do. The
pytest fixtures are in :mod:`tidelog.testing.plugin`; only the standard library (and, for the plugin, pytest)
is imported here, so that installing Tidelog does not slow down the start of tests. Clusters with faults
(:class:`BreakableCluster`) are imported when they are used.
"""

import importlib
from typing import TYPE_CHECKING, Any

from tidelog.lab.local.broker import Broker, BrokerError, Setting, running_broker
from tidelog.lab.local.cluster import Cluster, running_cluster
from tidelog.lab.local.network import Host, Network, NetworkUnavailable

if TYPE_CHECKING:
    from tidelog.lab.faults.breakable import BreakableCluster, breakable_cluster
    from tidelog.lab.faults.errors import FaultError

__all__ = [
    "BreakableCluster",
    "Broker",
    "BrokerError",
    "Cluster",
    "FaultError",
    "Host",
    "Network",
    "NetworkUnavailable",
    "Setting",
    "breakable_cluster",
    "running_broker",
    "running_cluster",
]

_LATER = {
    "BreakableCluster": "tidelog.lab.faults.breakable",
    "FaultError": "tidelog.lab.faults.errors",
    "breakable_cluster": "tidelog.lab.faults.breakable",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_LATER[name]), name)
