"""Real brokers for tests, without Docker: own processes, own directories, free ports.

Public: use it to test programs against a Kafka-compatible broker or cluster, as Tidelog's own tests do. The
pytest fixtures are in :mod:`tidelog.testing.plugin`; only the standard library (and, for the plugin, pytest)
is imported here, so that installing Tidelog does not slow down the start of tests.
"""

from tidelog.testing.broker import Broker, BrokerError, Setting, running_broker
from tidelog.testing.cluster import Cluster, running_cluster
from tidelog.testing.network import Host, Network, NetworkUnavailable

__all__ = [
    "Broker",
    "BrokerError",
    "Cluster",
    "Host",
    "Network",
    "NetworkUnavailable",
    "Setting",
    "running_broker",
    "running_cluster",
]
