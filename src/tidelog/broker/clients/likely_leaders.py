"""Which broker a client should try while this broker cannot know who leads.

A broker without a session is not told of new leaders. A client that is connected only to this broker asks no
other one: librdkafka and the Java client send Metadata and FindCoordinator to a broker with an open
connection, whatever it answered before. LEADER_NOT_AVAILABLE alone would keep such a client here until the
network heals. So the response names another replica, each of them in turn. That one leads, or knows the
leader; if it is down, the next one is tried.
"""

from collections.abc import Iterable

from tidelog.broker.links.ports import BrokerPorts
from tidelog.controller.image import PartitionImage
from tidelog.types import NO_BROKER

EACH_FOR_MS = 3000  # librdkafka takes up to a second before it connects to a broker


def likely_leader(broker: BrokerPorts, partition: PartitionImage) -> int:
    """Another replica, for a partition without a known leader; -1 if this broker would know the leader."""
    return another_broker(broker, partition.replicas) if broker.partitions.may_be_fenced else NO_BROKER


def another_broker(broker: BrokerPorts, among: Iterable[int]) -> int:
    """One of these brokers that may be available, as far as the metadata says; -1: none."""
    nodes, me, lost = broker.image.brokers, broker.broker_id, broker.lost_brokers
    able = [
        each for each in among if each in nodes and not nodes[each].fenced and each != me and each not in lost
    ]
    return able[broker.services.uptime_ms() // EACH_FOR_MS % len(able)] if able else NO_BROKER
