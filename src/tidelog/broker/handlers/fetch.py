"""Fetch, versions 4 to 18: by consumers, with or without sessions, from leaders or (since 11) followers.

Honoured: min and max bytes (overall and per partition), max wait, sessions, the isolation level, leader
epochs, topic ids, racks. At least one batch is returned even if it exceeds the limits. Otherwise a consumer
with small limits could never read past a large batch.
"""

import logging
from collections.abc import Callable

from tidelog.broker.broker import Broker
from tidelog.broker.clients.fetch_sessions import FetchSession, Remembered
from tidelog.broker.clients.leader_hints import LEADER_ERRORS, leader_hint
from tidelog.broker.clients.nearer_replica import nearer_replica
from tidelog.broker.partitions.partition import MustConfirm, Partition
from tidelog.broker.requests.access import Access, access_of
from tidelog.broker.requests.request import RequestContext
from tidelog.errors import ErrorCode, TidelogError
from tidelog.log.index_build import Unindexed
from tidelog.log.reading import Unread
from tidelog.log.verification import DamagedSegment
from tidelog.protocol import fetch
from tidelog.protocol.fetch import (
    NO_SESSION,
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    Part,
    Records,
)
from tidelog.protocol.produce import NodeAddress, TopicKey
from tidelog.security.acls import Operation
from tidelog.services import Timer

logger = logging.getLogger(__name__)

Send = Callable[[list[Part]], None]
GiveUp = Callable[[str], None]

READ_COMMITTED = 1
WAIT_MAX_MS = 60_000  # Upper bound of max.wait: then the response may be empty, and a live consumer retries.
ASKED_MAX_MS = 1100  # A little longer than the followers are waited for.
_NO_ABORTED: list[tuple[int, int]] = []


class FetchHandler:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def handle(
        self,
        frame: memoryview,
        position: int,
        context: RequestContext,
        send: Send,
        give_up: GiveUp,
        bytes_max: int | None = None,
    ) -> "PendingFetch | None":
        """Send the response through ``send``. The returned fetch must be cancelled if the consumer
        disconnects first. ``give_up`` is called if an internal error leaves no response to send.
        ``bytes_max``: what the quota of the consumer leaves for one response.
        """
        request = fetch.decode(frame, position, context.version)
        owner = context.principal, context.host
        session, error = self._broker.fetch_sessions.begin(request, owner, self._broker.services.now_ms())
        if error:
            send(
                fetch.FetchResponseBuilder(
                    context.version, context.correlation_id, error, NO_SESSION, 0
                ).finish()
            )
            return None
        if bytes_max is not None and bytes_max < request.max_bytes:
            request = request._replace(max_bytes=bytes_max)
        pending = PendingFetch(self._broker, request, session, context, send, give_up)
        pending.start()
        return pending


class PendingFetch:
    """One fetch request until its response is sent."""

    __slots__ = (
        "_access",
        "_asked",
        "_broker",
        "_context",
        "_done",
        "_give_up",
        "_is_over",
        "_leaders",
        "_request",
        "_send",
        "_session",
        "_still_missing",
        "_timer",
        "_wanted",
        "_watched",
    )

    def __init__(
        self,
        broker: Broker,
        request: FetchRequest,
        session: FetchSession | None,
        context: RequestContext,
        send: Send,
        give_up: GiveUp,
    ) -> None:
        self._broker = broker
        # The partitions of a session are checked with every fetch, because the rules may have changed.
        self._access = None if broker.access is None else access_of(broker, context)
        self._give_up = give_up
        self._request = request
        self._session = session
        self._context = context
        self._send = send
        self._wanted: list[tuple[TopicKey, FetchPartition, Remembered | None]]
        if session is None:
            self._wanted = [
                (key, wanted, None) for key, partitions in request.topics for wanted in partitions
            ]
        else:
            self._wanted = [(key, kept.wanted, kept) for (key, _), kept in session.partitions.items()]
        self._watched: list[Partition] = []
        self._timer: Timer | None = None
        self._still_missing = 0  # bytes until min_bytes is reached
        self._is_over = False  # Its time is up: when it is its turn, it is answered with what there is.
        self._done = False
        self._leaders: dict[int, NodeAddress] = {}  # named in error responses
        # Partitions whose followers are asked whether they still follow: None until that is known.
        self._asked: dict[Partition, bool | None] | None = None

    def start(self) -> None:
        responses, size, final = self._read()
        request = self._request
        wait_ms = max(request.max_wait_ms, ASKED_MAX_MS) if self._asks else request.max_wait_ms
        is_enough = size >= request.min_bytes and not self._asks
        if final or is_enough or wait_ms <= 0 or not self._wanted:
            self._finish(responses)
            return
        self._still_missing = request.min_bytes - size
        self._watch(self._partitions())
        self._timer = self._broker.services.later(min(wait_ms, WAIT_MAX_MS), self._time_is_up)

    @property
    def peer(self) -> str:
        return self._context.peer

    @property
    def _asks(self) -> bool:
        return self._asked is not None and None in self._asked.values()

    def _ask(self, partition: Partition) -> None:
        """Ask the followers of a partition whether they still follow."""
        self._asked = asked = {} if self._asked is None else self._asked
        if partition in asked:
            return
        asked[partition] = None

        def told(certain: bool) -> None:
            asked[partition] = certain
            self._broker.woken_fetches.add(self)

        partition.when_followed(told)

    def _partitions(self) -> list[Partition]:
        find = self._broker.partitions.find
        found = (find(key, wanted.partition)[0] for key, wanted, _ in self._wanted)
        return [partition for partition in found if partition is not None]

    def _watch(self, partitions: list[Partition]) -> None:
        for partition in self._watched:
            partition.remove_fetch_waiter(self)
        for partition in partitions:
            partition.add_fetch_waiter(self)
        self._watched = partitions

    def data_arrived(self, size: int) -> None:
        if self._still_missing <= 0:
            return  # already scheduled
        self._still_missing -= size
        if self._still_missing <= 0:
            self._broker.woken_fetches.add(self)

    def _time_is_up(self) -> None:
        self._is_over = True
        self._broker.woken_fetches.add(self)

    def look_again(self) -> None:
        """It was woken, and it is its turn."""
        self._guarded(self._respond if self._is_over else self._recheck)

    def _recheck(self) -> None:
        """Respond if there is enough data now. The sizes passed to ``data_arrived`` are upper bounds."""
        responses, size, final = self._read()
        self._still_missing = self._request.min_bytes - size
        if final or (self._still_missing <= 0 and not self._asks):
            self._finish(responses)
        elif (partitions := self._partitions()) != self._watched:
            # A topic was deleted and created again: new data is appended to other Partition objects.
            self._watch(partitions)

    def finish_now(self) -> None:
        """Respond with the data that is available."""
        self._guarded(self._respond)

    def _respond(self) -> None:
        responses, _, _ = self._read()
        self._finish(responses)

    def _guarded(self, work: Callable[[], None]) -> None:
        """Run ``work`` for a timer or an append of another request. An error here must not propagate to
        those, and must not leave the consumer waiting forever.
        """
        if self._done:
            return
        try:
            work()
        except Exception:
            logger.exception("a fetch of %s failed", self._context.peer)
            self._release()
            self._give_up("a fetch failed with an internal error")

    def cancel(self) -> None:
        """The consumer has disconnected."""
        self._release()

    def _release(self) -> None:
        self._done = True
        if self._timer is not None:
            self._timer.cancel()
        self._watch([])

    def _read(self) -> tuple[list[FetchPartitionResponse], int, bool]:
        """The response for each partition, the total bytes of records, and whether the response must be sent
        immediately, for instance because of an error.
        """
        budget = min(self._request.max_bytes, self._broker.config.fetch_max_bytes)
        unread = Unread()
        responses = []
        total = 0
        final = False
        for key, wanted, _ in self._wanted:
            if self._access is not None and not self._may_read(self._access, key):
                denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                response = FetchPartitionResponse(wanted.partition, denied, -1, -1, -1)
            else:
                response = self._read_partition(
                    key, wanted, budget - total, unread, at_least_one_batch=total == 0
                )
            responses.append(response)
            if response.error or response.diverging is not None or response.preferred_read_replica >= 0:
                final = True
            elif response.records is not None:
                total += response.records.size
        return responses, total, final

    def _read_partition(
        self, key: TopicKey, wanted: FetchPartition, budget: int, unread: Unread, *, at_least_one_batch: bool
    ) -> FetchPartitionResponse:
        partition, error = self._broker.partitions.find(key, wanted.partition)
        if partition is None:
            return self._refusal(key, wanted.partition, error)
        error = partition.check_reader(
            wanted.current_leader_epoch, follower=self._context.version >= 11, rack=self._request.rack_id
        )
        if error:
            return self._refusal(key, wanted.partition, error)
        nearer = self._nearer_replica(partition, wanted.fetch_offset)
        if nearer is not None:
            return FetchPartitionResponse(
                wanted.partition, ErrorCode.NONE, partition.readable_end_offset, -1, -1,
                preferred_read_replica=nearer,
            )  # fmt: skip
        confirmed = self._asked is not None and self._asked.get(partition) is True
        try:
            diverging = partition.divergence(
                wanted.fetch_offset, wanted.last_fetched_epoch, confirmed=confirmed
            )
            if diverging is not None:
                return _respond_without_records(wanted, partition, diverging=diverging)
            return self._records_of(
                partition, wanted, budget, unread, at_least_one_batch, confirmed=confirmed
            )
        except MustConfirm:
            if self._asked is not None and self._asked.get(partition) is False:
                return self._refusal(key, wanted.partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            self._ask(partition)
            return _respond_without_records(wanted, partition)  # The fetch waits until they have responded.
        except Unindexed as unindexed:
            partition.driver.build_indexes(unindexed)  # The fetch waits as if there were no records.
            return _respond_without_records(wanted, partition)
        except TidelogError as refusal:
            response = _respond_without_records(wanted, partition, refusal.code)
            if isinstance(refusal, DamagedSegment):
                partition.driver.damage.found(refusal.offset, refusal.message)
            return response

    def _may_read(self, access: Access, key: TopicKey) -> bool:
        name = key if isinstance(key, str) else self._broker.image.topic_names.get(key)
        return name is None or access.topic(Operation.READ, name)

    def _records_of(
        self,
        partition: Partition,
        wanted: FetchPartition,
        budget: int,
        unread: Unread,
        at_least_one: bool,
        *,
        confirmed: bool,
    ) -> FetchPartitionResponse:
        """The records that can be read now. Raises the error for the consumer."""
        log, offset = partition.log, wanted.fetch_offset
        high_watermark, stable_offset = partition.readable_end_offset, partition.last_stable_offset
        read_committed = self._request.isolation_level == READ_COMMITTED
        end_offset = stable_offset if read_committed else high_watermark
        aborted = _NO_ABORTED if read_committed else None
        records: Records | None = None
        partition.check_position(offset, confirmed=confirmed)
        partition.check_may_go_on(offset)
        if offset < end_offset and (budget > 0 or at_least_one):
            limit = min(wanted.max_bytes, max(budget, 0))
            records = log.read(offset, limit, end_offset, at_least_one_batch=at_least_one, unread=unread)
            if read_committed and records.size:
                aborted = log.aborted_in(offset, records.size, end_offset)
        return FetchPartitionResponse(
            wanted.partition, ErrorCode.NONE, high_watermark, stable_offset, log.start_offset, records,
            aborted,
        )  # fmt: skip

    def _nearer_replica(self, partition: Partition, offset: int) -> int | None:
        rack = self._request.rack_id
        if not rack or not self._broker.config.replica_selector_class or not partition.leads:
            return None
        return nearer_replica(self._broker, partition.replica, rack, offset)

    def _refusal(self, key: TopicKey, index: int, error: ErrorCode) -> FetchPartitionResponse:
        response = FetchPartitionResponse(index, error, -1, -1, -1)
        hint = (
            leader_hint(self._broker, key, index, self._context.listener) if error in LEADER_ERRORS else None
        )
        if hint is None:
            return response
        self._leaders[hint.node.node_id] = hint.node
        return response._replace(leader=(hint.node.node_id, hint.epoch))

    def _finish(self, responses: list[FetchPartitionResponse]) -> None:
        self._release()
        by_topic: dict[TopicKey, list[FetchPartitionResponse]] = {}
        session = self._session
        for (key, _, remembered), response in zip(self._wanted, responses, strict=True):
            if session is not None and remembered is not None:
                has_data = response.records is not None and response.records.size > 0
                news = remembered.has_news(response.high_watermark, response.log_start_offset)
                # The first response of a session contains every partition, later ones only changes.
                moves = response.preferred_read_replica >= 0
                if not (has_data or news or moves or response.error or response.diverging):
                    continue
                if has_data:
                    session.served((key, response.partition))
            by_topic.setdefault(key, []).append(response)
            self._count(key, response)
        session_id = NO_SESSION if session is None else session.session_id
        frame = fetch.FetchResponseBuilder(
            self._context.version, self._context.correlation_id, ErrorCode.NONE, session_id, len(by_topic)
        )
        for key, partitions in by_topic.items():
            frame.topic(key, len(partitions))
            for response in partitions:
                frame.partition(response)
            frame.end_topic()
        self._send(frame.finish(list(self._leaders.values())))

    def _count(self, key: TopicKey, response: FetchPartitionResponse) -> None:
        if response.records is not None and response.records.size:
            partition, _ = self._broker.partitions.find(key, response.partition)
            if partition is not None:
                partition.bytes_out += response.records.size


def _respond_without_records(
    wanted: FetchPartition,
    partition: Partition,
    error: ErrorCode = ErrorCode.NONE,
    diverging: tuple[int, int] | None = None,
) -> FetchPartitionResponse:
    return FetchPartitionResponse(
        wanted.partition,
        error,
        partition.readable_end_offset,
        partition.last_stable_offset,
        partition.log.start_offset,
        diverging=diverging,
    )
