"""AlterPartitionReassignments, versions 0 and 1: start or cancel reassignments of partitions.
Ignored: the timeout.
"""

from collections.abc import Sequence
from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.requests.deciding import submit_together
from tidelog.broker.requests.request import Outcome, RequestContext
from tidelog.broker.requests.submission import Decide
from tidelog.controller import reassignment
from tidelog.controller.image import ClusterImage
from tidelog.controller.records import MetadataRecord
from tidelog.controller.rules import Rulebook
from tidelog.errors import ErrorCode, TidelogError
from tidelog.protocol.messages import Fields


def handle(broker: Broker, request: Any, context: RequestContext) -> Outcome:
    may_resize = getattr(request, "allow_replication_factor_change", True)
    wanted = [(topic.name, each) for topic in request.topics for each in topic.partitions]
    rules = Rulebook(broker.config)
    decisions = [_decision(rules, topic, each, may_resize=may_resize) for topic, each in wanted]

    def respond(failure: TidelogError | None, refusals: list[TidelogError | None]) -> Fields:
        if failure is not None:
            return {"error_code": failure.code, "error_message": failure.message}
        results: dict[str, list[Fields]] = {}
        for (topic, each), refusal in zip(wanted, refusals, strict=True):
            results.setdefault(topic, []).append(_result(each.partition_index, refusal))
        return {
            "error_code": ErrorCode.NONE,
            "error_message": None,
            "allow_replication_factor_change": may_resize,
            "responses": [{"name": topic, "partitions": parts} for topic, parts in results.items()],
        }

    return submit_together(broker, decisions, respond)


def _decision(rules: Rulebook, name: str, partition: Any, *, may_resize: bool) -> Decide:
    index, replicas = partition.partition_index, partition.replicas

    def decide(image: ClusterImage) -> Sequence[MetadataRecord]:
        rules_of = rules.at(image)
        if replicas is None:
            return reassignment.cancel(image, name, index, rules_of)
        return reassignment.begin(image, name, index, replicas, rules_of, may_resize=may_resize)

    return decide


def _result(index: int, refusal: TidelogError | None) -> Fields:
    if refusal is None:
        return {"partition_index": index, "error_code": ErrorCode.NONE, "error_message": None}
    return {"partition_index": index, "error_code": refusal.code, "error_message": refusal.message}
