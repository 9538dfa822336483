"""CreatePartitions, versions 0 to 3. Ignored: the timeout."""

from collections import Counter
from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.handlers.submission import Decide, refuse, submit_each
from tidelog.broker.request import Outcome, RequestContext
from tidelog.controller import topics
from tidelog.errors import InvalidRequest, TidelogError
from tidelog.protocol.messages import Fields


def handle(broker: Broker, request: Any, context: RequestContext) -> Outcome:
    names = Counter(topic.name for topic in request.topics)
    unique = list({topic.name: topic for topic in request.topics}.values())
    decisions = [
        refuse(InvalidRequest(f"topic {topic.name!r} is named twice in the request"))
        if names[topic.name] > 1
        else _decide(topic)
        for topic in unique
    ]

    def answer(refusals: list[TidelogError | None]) -> Fields:
        return {
            "results": [
                {"name": topic.name, "error_code": refusal.code, "error_message": refusal.message}
                if refusal
                else {"name": topic.name}
                for topic, refusal in zip(unique, refusals, strict=True)
            ]
        }

    return submit_each(broker, decisions, answer, validate_only=request.validate_only)


def _decide(topic: Any) -> Decide:
    assignments = None if topic.assignments is None else [list(item.broker_ids) for item in topic.assignments]
    return lambda image: [topics.add_partitions(image, topic.name, topic.count, assignments)]
