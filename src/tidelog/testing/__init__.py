"""Real brokers for tests, without Docker: processes of their own, directories of their own, free ports.

Public: people who test programs against a Kafka-compatible broker or cluster use it as Tidelog's own tests
do. The pytest fixtures are in :mod:`tidelog.testing.plugin`; nothing beyond the standard library (and, for
the plugin, pytest) is imported here, so that installing Tidelog slows nobody's test start.
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
