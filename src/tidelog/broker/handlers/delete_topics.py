"""DeleteTopics, versions 1 to 6: by name, and from version 6 on by id. Ignored: the timeout."""

from collections import Counter
from collections.abc import Iterator
from typing import Any
from uuid import UUID

from tidelog.broker.broker import Broker
from tidelog.broker.requests.mutation_quota import MutationQuota
from tidelog.broker.requests.request import Outcome, RequestContext
from tidelog.broker.requests.submission import Decide, refuse, rows_in_slices, submit_each
from tidelog.controller import topics
from tidelog.controller.image import ClusterImage
from tidelog.controller.records import MetadataRecord
from tidelog.errors import ErrorCode, InvalidRequest, TidelogError
from tidelog.protocol.messages import Fields

STRICT_FROM = 5  # version in which clients understand THROTTLING_QUOTA_EXCEEDED


def handle(broker: Broker, request: Any, context: RequestContext) -> Outcome:
    by_id = context.version >= 6
    asked: list[tuple[str | None, UUID | None]] = []
    shown: list[Fields] = []
    times_named: Counter[tuple[str | None, UUID | None]] = Counter()
    quota = MutationQuota(broker, context, STRICT_FROM)

    def look_up() -> Iterator[None]:
        for each in request.topics if by_id else request.topic_names:
            name, topic_id = (each.name, each.topic_id) if by_id else (each, None)
            topic = _show(broker.image, name, topic_id)
            asked.append((name, topic_id))
            shown.append(topic)
            times_named[topic["name"], topic["topic_id"]] += 1
            yield

    def decisions() -> Iterator[Decide]:
        for (name, topic_id), topic in zip(asked, shown, strict=True):
            if times_named[topic["name"], topic["topic_id"]] > 1:
                yield refuse(InvalidRequest("the topic is named twice in the request"))
            else:
                yield _decide(broker, name, topic_id, quota)

    def respond(refusals: list[TidelogError | None]) -> Outcome:
        return rows_in_slices(
            broker,
            map(_row, shown, refusals),
            lambda rows: {"responses": rows, "throttle_time": quota.throttle_ms},
        )

    return submit_each(broker, decisions(), respond, before=look_up())


def _row(topic: Fields, refusal: TidelogError | None) -> Fields:
    if refusal is None:
        return topic
    return {**topic, "error_code": refusal.code, "error_message": refusal.message}


def _show(image: ClusterImage, name: str | None, topic_id: UUID | None) -> Fields:
    """Name and id of a topic, of which the client sent one."""
    if name is not None:
        known = image.topics.get(name)
        return {"name": name, "topic_id": known.topic_id if known else topic_id}
    known = None if topic_id is None else image.topic_by_id(topic_id)
    return {"name": known.name if known else None, "topic_id": topic_id}


def _decide(broker: Broker, name: str | None, topic_id: UUID | None, quota: MutationQuota) -> Decide:
    if (name is None) == (topic_id is None):
        return refuse(InvalidRequest("a topic needs either a name or an id"))

    def decide(image: ClusterImage) -> list[MetadataRecord]:
        if name is not None:
            return delete(image, name)
        # Looked up only now, because the name may belong to another topic since the request arrived.
        topic = None if topic_id is None else image.topic_by_id(topic_id)
        if topic is None:
            raise TidelogError(f"there is no topic with id {topic_id}", ErrorCode.UNKNOWN_TOPIC_ID)
        return delete(image, topic.name)

    def delete(image: ClusterImage, name: str) -> list[MetadataRecord]:
        deleted = topics.delete(image, name, broker.config)
        quota.use(len(image.topics[name].partitions))
        return [deleted]

    return decide
