"""ElectLeaders, versions 0 to 2: elects the preferred (first) replica. An unclean election, on an operator's
request, elects any live replica of a partition without a leader. Ignored: the timeout.
"""

from collections.abc import Iterator
from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.requests.deciding import submit_together
from tidelog.broker.requests.request import Outcome, RequestContext
from tidelog.broker.requests.submission import Decide
from tidelog.controller import leadership
from tidelog.controller.image import ClusterImage
from tidelog.controller.rules import Rulebook
from tidelog.errors import ErrorCode, TidelogError
from tidelog.protocol.messages import Fields

PREFERRED, UNCLEAN = 0, 1


def handle(broker: Broker, request: Any, context: RequestContext) -> Outcome:
    kind = getattr(request, "election_type", PREFERRED)
    if kind not in (PREFERRED, UNCLEAN):
        return {"error_code": ErrorCode.INVALID_REQUEST}
    everything = request.topic_partitions is None
    wanted = list(dict.fromkeys(_all(broker.image) if everything else _named(request)))
    rules = Rulebook(broker.config)
    decisions = [_decision(rules, topic, index, unclean=kind == UNCLEAN) for topic, index in wanted]

    def respond(failure: TidelogError | None, refusals: list[TidelogError | None]) -> Fields:
        if failure is not None:
            return {"error_code": failure.code}
        results: dict[str, list[Fields]] = {}
        for (topic, index), refusal in zip(wanted, refusals, strict=True):
            # A request for all partitions gets only those that changed or could not be changed.
            if everything and refusal is not None and refusal.code is ErrorCode.ELECTION_NOT_NEEDED:
                continue
            results.setdefault(topic, []).append(_result(index, refusal))
        return {
            "error_code": ErrorCode.NONE,
            "replica_election_results": [
                {"topic": topic, "partition_result": partitions} for topic, partitions in results.items()
            ],
        }

    return submit_together(broker, decisions, respond)


def _all(image: ClusterImage) -> Iterator[tuple[str, int]]:
    return ((topic.name, index) for topic in image.topics.values() for index in range(len(topic.partitions)))


def _named(request: Any) -> Iterator[tuple[str, int]]:
    return ((each.topic, index) for each in request.topic_partitions for index in each.partitions)


def _decision(rules: Rulebook, topic: str, index: int, *, unclean: bool) -> Decide:
    return lambda image: leadership.elect(image, topic, index, rules.at(image), unclean=unclean)


def _result(index: int, refusal: TidelogError | None) -> Fields:
    if refusal is None:
        return {"partition_id": index, "error_code": ErrorCode.NONE, "error_message": None}
    return {"partition_id": index, "error_code": refusal.code, "error_message": refusal.message}
