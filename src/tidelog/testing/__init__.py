"""A real broker for tests, without Docker: a process of its own, a directory of its own, a free port.

Public: people who test programs against a Kafka-compatible broker use it as Tidelog's own tests do. The
pytest fixtures are in :mod:`tidelog.testing.plugin`; nothing beyond the standard library (and, for the
plugin, pytest) is imported here, so that installing Tidelog slows nobody's test start.
"""

from tidelog.testing.broker import Broker, BrokerError, Setting, running_broker

__all__ = ["Broker", "BrokerError", "Setting", "running_broker"]
