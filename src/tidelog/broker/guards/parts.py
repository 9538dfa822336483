"""What all guards have in common: admitted and refused requests, and parts of them."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from tidelog.broker.requests.access import Access
from tidelog.controller.image import ClusterImage
from tidelog.errors import ErrorCode
from tidelog.protocol.messages import Fields
from tidelog.security.acls import Operation

Merge = Callable[[Fields], Fields]

CODES = {
    "topic": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    "group": ErrorCode.GROUP_AUTHORIZATION_FAILED,
    "cluster": ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    "transactional_id": ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
TOPIC_DENIED = CODES["topic"]
GROUP_DENIED = CODES["group"]
CLUSTER_DENIED = CODES["cluster"]
TRANSACTIONAL_ID_DENIED = CODES["transactional_id"]
MESSAGES = {
    TOPIC_DENIED: "Topic authorization failed.",
    GROUP_DENIED: "Group authorization failed.",
    CLUSTER_DENIED: "Cluster authorization failed.",
    TRANSACTIONAL_ID_DENIED: "Transactional Id authorization failed.",
}


class Admitted(NamedTuple):
    request: Any  # what is left of it
    merge: Merge | None = None  # adds the refused parts to the response


class Forbidden(NamedTuple):
    fields: Fields  # the whole response


class GuardedRequest(NamedTuple):
    """A request with what a guard needs to judge it."""

    request: Any
    access: Access
    image: ClusterImage
    version: int


Guard = Callable[[GuardedRequest], Admitted | Forbidden]


def error(code: ErrorCode) -> Fields:
    return {"error_code": code, "error_message": MESSAGES[code]}


def refuse(code: ErrorCode) -> Forbidden:
    """For responses with one error for everything."""
    return Forbidden(error(code))


def name_of_topic(asked: GuardedRequest, topic: Any) -> str | None:
    """The name of a topic that is identified by name or id; None for an unknown id, which the handler
    refuses.
    """
    name: str | None = getattr(topic, "name", None)
    if name is None:
        name = getattr(topic, "topic", None)
    if not name and getattr(topic, "topic_id", None) is not None:
        return asked.image.topic_names.get(topic.topic_id)
    return name


def split(asked: GuardedRequest, operation: Operation, topics: Iterable[Any]) -> tuple[list[Any], list[Any]]:
    """Topics that the client may use for this, and the others."""
    allowed: list[Any] = []
    denied: list[Any] = []
    for topic in topics:
        name = name_of_topic(asked, topic)
        fits = name is None or asked.access.topic(operation, name)
        (allowed if fits else denied).append(topic)
    return allowed, denied


def with_topics(asked: GuardedRequest, allowed: list[Any], denied: list[Fields]) -> Admitted | Forbidden:
    """The request with the allowed topics; the rows of the others follow in the response."""
    if not denied:
        return Admitted(asked.request)
    if not allowed:
        return Forbidden({"topics": denied})
    request = replace(asked.request, topics=tuple(allowed))
    return Admitted(request, lambda fields: {**fields, "topics": [*fields["topics"], *denied]})


class TopicShape(NamedTuple):
    """How the topics of an API name themselves and their partitions, in request and response."""

    name: str = "name"
    partitions: str = "partitions"  # in the request
    number: str | None = "partition_index"  # None: the partitions are plain numbers
    number_in_response: str = "partition_index"

    def refuse(self, topic: Any, code: ErrorCode, **more: Any) -> Fields:
        """The row of a topic, with the same error for all of its partitions."""
        partitions = getattr(topic, self.partitions)
        indexes = partitions if self.number is None else (getattr(each, self.number) for each in partitions)
        names = {name: getattr(topic, name, None) for name in (self.name, "topic_id")}
        rows = [{self.number_in_response: index, "error_code": code, **more} for index in indexes]
        return {**names, "partitions": rows}


def each_topic(operation: Operation, shape: TopicShape) -> Guard:
    """For APIs with errors for each partition of each topic."""

    def guard(asked: GuardedRequest) -> Admitted | Forbidden:
        allowed, denied = split(asked, operation, asked.request.topics)
        return with_topics(asked, allowed, [shape.refuse(topic, TOPIC_DENIED) for topic in denied])

    return guard


def each_name(
    field: str,
    may: Callable[[Access, str], bool],
    answered: str,
    refusal: Callable[[str], Mapping[str, Any]],
) -> Guard:
    """For APIs that name resources in a list of strings."""

    def guard(asked: GuardedRequest) -> Admitted | Forbidden:
        names = list(dict.fromkeys(getattr(asked.request, field)))
        may_use = {name: may(asked.access, name) for name in names}
        denied = [refusal(name) for name in names if not may_use[name]]
        if not denied:
            return Admitted(asked.request)
        allowed = tuple(name for name in getattr(asked.request, field) if may_use[name])
        if not allowed:
            return Forbidden({"error_code": ErrorCode.NONE, answered: denied})
        request = replace(asked.request, **{field: allowed})
        return Admitted(request, lambda fields: {**fields, answered: [*fields.get(answered, ()), *denied]})

    return guard


def free(asked: GuardedRequest) -> Admitted:
    """An API that needs no right, or one whose handler asks for itself."""
    return Admitted(asked.request)
