"""DeleteTopics, versions 1 to 6: by name, and from version 6 on by id. Ignored: the timeout."""

from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.handlers.submission import Decide, refuse, submit_each
from tidelog.broker.request import Outcome, RequestContext
from tidelog.controller import topics
from tidelog.errors import ErrorCode, InvalidRequest, TidelogError
from tidelog.protocol.messages import Fields


def handle(broker: Broker, request: Any, context: RequestContext) -> Outcome:
    if context.version >= 6:
        wishes = [(topic.name, topic.topic_id) for topic in request.topics]
    else:
        wishes = [(name, None) for name in request.topic_names]
    image = broker.image
    named: list[Fields] = []
    decisions = []
    for name, topic_id in wishes:
        by_id = None if topic_id is None else image.topic_by_id(topic_id)
        shown = name if by_id is None else by_id.name
        known = image.topics.get(shown) if shown is not None else None
        named.append({"name": shown, "topic_id": topic_id or (known.topic_id if known else None)})
        decisions.append(_decide(broker, name, topic_id, shown))

    def answer(refusals: list[TidelogError | None]) -> Fields:
        return {
            "responses": [
                {**shown, "error_code": refusal.code, "error_message": refusal.message} if refusal else shown
                for shown, refusal in zip(named, refusals, strict=True)
            ]
        }

    return submit_each(broker, decisions, answer)


def _decide(broker: Broker, name: str | None, topic_id: Any, shown: str | None) -> Decide:
    if name is not None and topic_id is not None:
        return refuse(InvalidRequest("name the topic or give its id, not both"))
    if shown is None:
        return refuse(TidelogError(f"there is no topic with id {topic_id}", ErrorCode.UNKNOWN_TOPIC_ID))
    return lambda image: [topics.delete(image, shown, broker.config)]
