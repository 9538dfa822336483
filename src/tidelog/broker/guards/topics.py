"""Guards of APIs that create, change and delete topics."""

from dataclasses import replace
from typing import Any
from uuid import UUID

from tidelog.broker.guards.parts import TOPIC_DENIED, Admitted, Forbidden, GuardedRequest, error
from tidelog.errors import ErrorCode
from tidelog.protocol.messages import Fields
from tidelog.security.acls import CLUSTER_NAME, Operation, ResourceType


def create(asked: GuardedRequest) -> Admitted | Forbidden:
    """CREATE on the cluster, or on each topic. Without DESCRIBE_CONFIGS the response has no settings."""
    access = asked.access
    everywhere = access.sees(Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME)
    may_create = {
        name: everywhere or access.topic(Operation.CREATE, name)
        for name in dict.fromkeys(topic.name for topic in asked.request.topics)
    }
    denied: list[Fields] = [
        {"name": name, **error(TOPIC_DENIED), "num_partitions": -1, "replication_factor": -1, "configs": None}
        for name, may in may_create.items()
        if not may
    ]
    allowed = tuple(topic for topic in asked.request.topics if may_create[topic.name])
    if denied and not allowed:
        return Forbidden({"topics": denied})

    def merge(fields: Fields) -> Fields:
        rows = [
            row
            if row["error_code"] or access.sees(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, row["name"])
            else {**row, **_WITHOUT_SETTINGS}
            for row in ({"error_code": ErrorCode.NONE, **row} for row in fields["topics"])
        ]
        return {**fields, "topics": [*rows, *denied]}

    return Admitted(replace(asked.request, topics=allowed), merge)


_WITHOUT_SETTINGS: Fields = {
    "topic_config_error_code": TOPIC_DENIED,
    "num_partitions": -1,
    "replication_factor": -1,
    "configs": None,
}


_NO_TOPIC: Fields = {
    "error_code": ErrorCode.INVALID_REQUEST,
    "error_message": "a topic needs either a name or an id",
}
_UNKNOWN_ID: Fields = {
    "error_code": ErrorCode.UNKNOWN_TOPIC_ID,
    "error_message": "there is no topic with this id",
}


def delete(asked: GuardedRequest) -> Admitted | Forbidden:
    """A client that may not describe a topic does not learn its name from its id, or the other way round."""
    if hasattr(asked.request, "topic_names"):
        names = asked.request.topic_names
        refusals = {name: _refusal(asked, name, None) for name in dict.fromkeys(names)}
        kept = tuple(name for name in names if refusals[name] is None)
        request = replace(asked.request, topic_names=kept)
        denied = [refusal for refusal in refusals.values() if refusal is not None]
    else:
        judged = [(topic, _refusal(asked, topic.name, topic.topic_id)) for topic in asked.request.topics]
        kept = tuple(topic for topic, refusal in judged if refusal is None)
        request = replace(asked.request, topics=kept)
        denied = [refusal for _, refusal in judged if refusal is not None]
    if not denied:
        return Admitted(asked.request)
    if not kept:
        return Forbidden({"responses": denied})
    return Admitted(request, lambda fields: {**fields, "responses": [*fields["responses"], *denied]})


def _refusal(asked: GuardedRequest, name: str | None, topic_id: UUID | None) -> Fields | None:
    """Also for a topic that is not there: no client has a right to it, even if it is created meanwhile."""
    known = asked.image.topic_names.get(topic_id) if name is None and topic_id is not None else name
    if known is None:
        return {"name": None, "topic_id": topic_id, **(_UNKNOWN_ID if topic_id is not None else _NO_TOPIC)}
    if asked.access.topic(Operation.DELETE, known):
        return None
    shown = name
    if name is None and asked.access.sees(Operation.DESCRIBE, ResourceType.TOPIC, known):
        shown = known
    return {"name": shown, "topic_id": topic_id, **error(TOPIC_DENIED)}


def add_partitions(asked: GuardedRequest) -> Admitted | Forbidden:
    names = dict.fromkeys(topic.name for topic in asked.request.topics)
    may_alter = {name: asked.access.topic(Operation.ALTER, name) for name in names}
    denied = [{"name": name, **error(TOPIC_DENIED)} for name, may in may_alter.items() if not may]
    if not denied:
        return Admitted(asked.request)
    allowed: tuple[Any, ...] = tuple(topic for topic in asked.request.topics if may_alter[topic.name])
    if not allowed:
        return Forbidden({"results": denied})
    request = replace(asked.request, topics=allowed)
    return Admitted(request, lambda fields: {**fields, "results": [*fields["results"], *denied]})
