"""The leader of a partition and its address, for error responses to clients that asked the wrong broker."""

from typing import NamedTuple
from uuid import UUID

from tidelog.broker.links.ports import BrokerPorts
from tidelog.controller.endpoints import endpoint_for
from tidelog.controller.successions import acting_leader
from tidelog.errors import ErrorCode
from tidelog.protocol.produce import NodeAddress, TopicKey

LEADER_ERRORS = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


class LeaderHint(NamedTuple):
    node: NodeAddress
    epoch: int


def leader_hint(broker: BrokerPorts, key: TopicKey, index: int, listener: str = "") -> LeaderHint | None:
    """The leader according to this broker's metadata. None if the metadata names this broker, which is then
    out of date. None as well for a broker that was just lost: the client would treat it as the new leader.
    ``listener``: the one that the client came in by.
    """
    image = broker.image
    topic = image.topic_by_id(key) if isinstance(key, UUID) else image.topics.get(key)
    if topic is None or not 0 <= index < len(topic.partitions):
        return None
    partition = broker.newest_partition(topic, index)
    leader = image.brokers.get(acting_leader(partition))
    if leader is None or leader.broker_id == broker.broker_id or leader.broker_id in broker.lost_brokers:
        return None
    endpoint = endpoint_for(image, broker.broker_id, leader, listener)
    if endpoint is None:
        return None
    node = NodeAddress(leader.broker_id, endpoint.host, endpoint.port, leader.rack)
    return LeaderHint(node, partition.leader_epoch)
