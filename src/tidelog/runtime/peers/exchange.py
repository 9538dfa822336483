"""One kind of request between nodes, at both ends."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Generic, TypeVar, cast
from uuid import UUID

from tidelog.broker.node.ports import NodeMessage
from tidelog.errors import ErrorCode
from tidelog.protocol.messages import Fields
from tidelog.protocol.wire import Malformed
from tidelog.replication.messages import PartitionKey
from tidelog.types import METADATA_TOPIC_ID

A = TypeVar("A", bound=NodeMessage)
G = TypeVar("G", bound=NodeMessage)
X = TypeVar("X")

METADATA_TOPIC_NAME = "__cluster_metadata"
UNANSWERED = ErrorCode.REQUEST_TIMED_OUT


class Exchange(Generic[A, G]):
    api_key: int
    at_once_max = 1  # questions in one request; the receiver refuses more
    elements_max = 10_000  # in all arrays of a request
    one_way = False  # the response contains no answers

    def body(self, to: int, cluster_id: str, asks: Sequence[A]) -> Fields:
        """The request, on the sender's side."""
        raise NotImplementedError

    def asks(self, request: Any) -> list[A]:
        """The questions, on the receiver's side."""
        raise NotImplementedError

    def response(self, asks: Sequence[A], gots: Sequence[G | None]) -> Fields:
        """The response, on the receiver's side. ``gots`` has None for a question without an answer."""
        raise NotImplementedError

    def gots(self, peer: int, asks: Sequence[A], response: Any) -> Iterable[G]:
        """The answers, on the sender's side."""
        raise NotImplementedError

    def token(self, message: A | G) -> Hashable:
        """The same for a question and its answer."""
        raise NotImplementedError


# --- partitions ---------------------------------------------------------------------------------------------


def topic_id_of(key: PartitionKey) -> UUID:
    return cast(tuple[UUID, int], key)[0]


def index_of(key: PartitionKey) -> int:
    return cast(tuple[UUID, int], key)[1]


def name_of(topic_id: UUID) -> str:
    return METADATA_TOPIC_NAME if topic_id == METADATA_TOPIC_ID else str(topic_id)


def topic_of(name: str) -> UUID:
    if name == METADATA_TOPIC_NAME:
        return METADATA_TOPIC_ID
    try:
        return UUID(name)
    except ValueError:
        raise Malformed(f"{name!r} is not the id of a topic") from None


def by_topic(
    items: Iterable[X], key_of: Callable[[X], PartitionKey], make: Callable[[X], Fields]
) -> list[tuple[UUID, list[Fields]]]:
    """Group by topic, as in Kafka's requests. The order of topics and partitions is kept."""
    topics: dict[UUID, list[Fields]] = {}
    for item in items:
        topics.setdefault(topic_id_of(key_of(item)), []).append(make(item))
    return list(topics.items())
