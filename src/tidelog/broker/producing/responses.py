"""Responses to Produce: the result of each batch, and the leader if this broker is not the leader."""

from collections.abc import Callable

from tidelog.broker.clients.leader_hints import LEADER_ERRORS, leader_hint
from tidelog.broker.links.ports import BrokerPorts
from tidelog.broker.partitions.partition import Appended, Partition
from tidelog.broker.requests.request import RequestContext
from tidelog.errors import ErrorCode
from tidelog.protocol import produce
from tidelog.protocol.produce import (
    NodeAddress,
    PlainEncoder,
    ProducePartitionResponse,
    ProduceRequest,
    TopicKey,
    TopicResponses,
)

Send = Callable[[bytes | bytearray | None], None]
"""Takes the encoded response frame, or None if the client wants no response (acks=0)."""

MAX_TEMPLATES = 10_000


class ProduceResponses:
    def __init__(self, broker: BrokerPorts) -> None:
        self._broker = broker
        self._templates: dict[tuple[int, TopicKey, int], PlainEncoder] = {}

    def send(self, context: RequestContext, send: Send, responses: TopicResponses) -> None:
        nodes: list[NodeAddress] = []
        if any(each.error in LEADER_ERRORS for _, results in responses for each in results):
            responses, nodes = _with_hints(self._broker, responses, context.listener)
        send(produce.encode(context.version, context.correlation_id, responses, nodes))

    def template(self, version: int, key: TopicKey, index: int) -> PlainEncoder:
        name = (version, key, index)
        template = self._templates.get(name)
        if template is None:
            if len(self._templates) >= MAX_TEMPLATES:
                self._templates.clear()
            template = self._templates[name] = PlainEncoder(version, key, index)
        return template

    @staticmethod
    def refuse_all(request: ProduceRequest, error: ErrorCode) -> TopicResponses:
        return [
            (key, [ProducePartitionResponse(index, error) for index, _ in partitions])
            for key, partitions in request.topics
        ]


def _with_hints(
    broker: BrokerPorts, responses: TopicResponses, listener: str
) -> tuple[TopicResponses, list[NodeAddress]]:
    """Add the current leader to NOT_LEADER errors, so that the client need not ask for it (KIP-951)."""
    hinted: TopicResponses = []
    nodes: dict[int, NodeAddress] = {}
    for key, results in responses:
        row = []
        for each in results:
            hint = leader_hint(broker, key, each.partition, listener) if each.error in LEADER_ERRORS else None
            if hint is not None:
                nodes[hint.node.node_id] = hint.node
            row.append(each if hint is None else each._replace(leader=(hint.node.node_id, hint.epoch)))
        hinted.append((key, row))
    return hinted, list(nodes.values())


def outcome_of(
    partition: Partition, index: int, appended: Appended, error: ErrorCode
) -> ProducePartitionResponse:
    if error:
        return ProducePartitionResponse(index, error, message=_WHY_NOT.get(error))
    return ProducePartitionResponse(
        index, ErrorCode.NONE, appended.base_offset, appended.log_append_time_ms, partition.log.start_offset
    )


_WHY_NOT = {
    ErrorCode.KAFKA_STORAGE_ERROR: "the records were written but could not be made durable",
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: "the records were written to fewer replicas than required",
    ErrorCode.REQUEST_TIMED_OUT: "the records were written, but not copied in time",
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "the leader changed before the records were copied",
}
