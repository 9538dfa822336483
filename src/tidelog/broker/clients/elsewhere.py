"""Where clients should go while this broker cannot know who leads.

A broker without a session is not told of new leaders. A client that is connected only to this broker asks no
other one: librdkafka and Java clients send Metadata and FindCoordinator to a broker with an open connection,
whatever it answered before. LEADER_NOT_AVAILABLE alone would keep such a client here until the network heals.
So a Metadata response leaves out this broker, and clients turn to the others. FindCoordinator names another
replica, each of them in turn. It coordinates, or refuses, and the client asks there.

Metadata must not name another replica in this way. A consumer that takes a follower for the leader resets its
position if that log is shorter.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from tidelog.broker.links.ports import BrokerPorts
from tidelog.controller.image import ClusterImage, PartitionImage
from tidelog.protocol.messages import Fields
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


def without_me(broker: BrokerPorts, image: ClusterImage, fields: dict[str, Any]) -> Fields:
    """The Metadata response without this broker, if clients should ask others for leaders."""
    others = [each for each in fields["brokers"] if each["node_id"] != broker.broker_id]
    table = broker.partitions
    # If a majority of the controllers has ended, no other broker knows more.
    may_be_succeeded = table.may_be_fenced and not table.orphaning
    if others and may_be_succeeded and _knows_less(broker, image, fields["topics"]):
        fields["brokers"] = others
    return fields


def _knows_less(broker: BrokerPorts, image: ClusterImage, described: Sequence[Fields]) -> bool:
    """Whether this broker has given up a partition of the response and serves none of them."""
    gave_up = False
    for topic in described:
        named = image.topics.get(topic["name"] or "")
        if named is None:
            continue
        for before, partition in zip(named.partitions, topic["partitions"], strict=True):
            if partition["leader_id"] == broker.broker_id:
                return False
            was_led = before.leader != NO_BROKER and before.leader not in broker.lost_brokers
            gave_up = gave_up or (was_led and partition["leader_id"] == NO_BROKER)
    return gave_up
