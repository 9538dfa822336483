"""Sends the markers of ended transactions to the leaders of their partitions, with retries until all are
written.

There is at most one request in flight to each leader. Markers that are added meanwhile are sent together in
the next request. If the leader changes, is down or returns a temporary error, the marker is retried with the
leader of that time. A partition of a deleted topic needs no marker.
"""

import logging
from collections.abc import Callable, Iterable
from typing import Any

from tidelog.broker.coordinators.marking import CoordinatorOf, write_marker
from tidelog.broker.links.ports import BrokerPorts
from tidelog.errors import ErrorCode, TidelogError
from tidelog.protocol.markers import Marker
from tidelog.protocol.messages import Fields
from tidelog.transactions.effects import SendMarkers
from tidelog.types import NO_BROKER, TopicPartition

logger = logging.getLogger(__name__)

WRITE_TXN_MARKERS = 27
BACKOFF_MS = 20
BACKOFF_MAX_MS = 1000
LATE_MS = 200
ORDERS_PER_REQUEST = 500

_EXPECTED = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""Temporary errors, which need not be logged."""


class MarkerOrder:
    """The markers of one transaction, until all of its partitions have one."""

    __slots__ = (
        "_done", "backoff_ms", "closed", "coordinator_epoch", "coordinator_offset", "markers", "missing",
    )  # fmt: skip

    def __init__(
        self, markers: SendMarkers, coordinator_epoch: int, coordinator_offset: int, done: Callable[[], None]
    ) -> None:
        """``coordinator_offset``: log end offset of the coordinator's partition, above the decision."""
        self.markers = markers
        self.coordinator_epoch = coordinator_epoch
        # Grows with each transaction of a producer, because the next transaction is written only after all
        # markers of this one. A partition uses it to recognize late copies of markers.
        self.coordinator_offset = coordinator_offset
        self._done = done
        self.missing = set(markers.partitions)
        self.closed = False  # All markers are written, or another coordinator sends them.
        self.backoff_ms = BACKOFF_MS

    def close_if_complete(self) -> None:
        if not self.missing and not self.closed:
            self.closed = True
            self._done()

    def fields(self, partitions: Iterable[TopicPartition]) -> Fields:
        topics: dict[str, list[int]] = {}
        for topic, index in sorted(partitions):
            topics.setdefault(topic, []).append(index)
        return {
            "producer_id": self.markers.producer_id,
            "producer_epoch": self.markers.epoch,
            "transaction_result": self.markers.commits,
            "topics": [{"name": topic, "partition_indexes": indexes} for topic, indexes in topics.items()],
            "coordinator_epoch": self.coordinator_epoch,
            "coordinator_offset": self.coordinator_offset,
            "transaction_version": self.markers.client_version,
        }


Due = dict[MarkerOrder, set[TopicPartition]]


class MarkerSender:
    def __init__(self, broker: BrokerPorts, coordinator_of: CoordinatorOf) -> None:
        self._broker = broker
        self._coordinator_of = coordinator_of
        self._pending: dict[int, Due] = {}  # by leader
        self._asked: set[int] = set()  # leaders with a request in flight or scheduled

    def send(self, order: MarkerOrder) -> None:
        """Send markers to all partitions of the order; calls its ``done`` when all are written."""
        self._look_for_leaders(order, order.missing)

    def _look_for_leaders(self, order: MarkerOrder, partitions: Iterable[TopicPartition]) -> None:
        leaderless = set()
        for partition in sorted(partitions):
            leader = self._leader_of(partition)
            if leader is None:
                order.missing.discard(partition)  # Deleted.
            elif leader == NO_BROKER:
                leaderless.add(partition)
            elif leader == self._broker.broker_id:
                self._write_here(order, partition)
            else:
                self._pending.setdefault(leader, {}).setdefault(order, set()).add(partition)
                self._ask_soon(leader)
        if leaderless:
            self._try_later(order, leaderless)
        order.close_if_complete()

    def _write_here(self, order: MarkerOrder, partition: TopicPartition) -> None:
        markers = order.markers

        def done(code: ErrorCode) -> None:
            if order.closed:
                return
            if _is_done(order, partition, code):
                order.missing.discard(partition)
                order.close_if_complete()
            else:
                self._try_later(order, {partition})

        marker = Marker(markers.commits, order.coordinator_epoch, order.coordinator_offset)
        write_marker(
            self._broker,
            self._coordinator_of,
            partition,
            markers.producer_id,
            markers.epoch,
            marker,
            markers.client_version,
            done,
        )

    def _leader_of(self, partition: TopicPartition) -> int | None:
        topic = self._broker.image.topics.get(partition.topic)
        if topic is None or partition.partition >= len(topic.partitions):
            return None
        return topic.partitions[partition.partition].leader

    def _ask_soon(self, leader: int) -> None:
        if leader not in self._asked:
            self._asked.add(leader)
            services = self._broker.services
            if services.perturb("late markers"):
                services.later(LATE_MS, lambda: self._ask(leader))
            else:
                services.soon(lambda: self._ask(leader))

    def _ask(self, leader: int) -> None:
        pending = self._pending.get(leader, {})
        due: Due = {}
        for order in list(pending)[:ORDERS_PER_REQUEST]:
            partitions = pending.pop(order)
            if not order.closed:
                due[order] = partitions
        if not due:
            self._asked.discard(leader)
            return
        body = {"markers": [order.fields(partitions) for order, partitions in due.items()]}
        self._broker.links.request(
            leader, WRITE_TXN_MARKERS, body, lambda response: self._answered(leader, due, response)
        )

    def _answered(self, leader: int, due: Due, response: Any) -> None:
        errors = {} if isinstance(response, TidelogError) else _errors(response)
        for order, partitions in due.items():
            if order.closed:
                continue
            again = set()
            for partition in partitions:
                code = errors.get((order.markers.producer_id, partition), ErrorCode.REQUEST_TIMED_OUT)
                if _is_done(order, partition, code):
                    order.missing.discard(partition)
                else:
                    again.add(partition)
            if again:
                self._try_later(order, again)
            order.close_if_complete()
        self._ask(leader)

    def _try_later(self, order: MarkerOrder, partitions: set[TopicPartition]) -> None:
        def again() -> None:
            if not order.closed:
                self._look_for_leaders(order, partitions & order.missing)

        self._broker.services.later(order.backoff_ms, again)
        order.backoff_ms = min(2 * order.backoff_ms, BACKOFF_MAX_MS)


def _errors(response: Any) -> dict[tuple[int, TopicPartition], ErrorCode]:
    return {
        (marker.producer_id, TopicPartition(topic.name, partition.partition_index)): ErrorCode(
            partition.error_code
        )
        for marker in response.markers
        for topic in marker.topics
        for partition in topic.partitions
    }


def _is_done(order: MarkerOrder, partition: TopicPartition, code: ErrorCode) -> bool:
    """Whether the marker need not be sent to this partition again."""
    if code is ErrorCode.NONE:
        return True
    if code is ErrorCode.INVALID_PRODUCER_EPOCH:
        # The transaction was already ended there with a newer epoch, so this marker has nothing to end.
        logger.warning(
            "%s has a newer epoch of producer %s than the marker of its transaction",
            partition, order.markers.producer_id,
        )  # fmt: skip
        return True
    if code not in _EXPECTED:
        logger.warning(
            "the transaction marker of %s could not be written to %s: %s; retrying",
            order.markers.transactional_id, partition, code.name,
        )  # fmt: skip
    return False
