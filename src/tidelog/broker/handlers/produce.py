"""Produce, versions 3 to 13.

Honoured: acks 0, 1 and all, the timeout, topic ids, transactions. The response to a request with several
partitions is sent when the last of them is done.

Some batches must be decoded before the append, for instance those for a compacted topic. If that takes long,
it is done in a thread. So is the check of a batch whose header does not seem to match its records, before it
is refused or corrected. Meanwhile its connection handles no further request. This keeps the order of a
producer's batches, and limits the pending requests of the connection to one. The same holds while the batches
of a request with many partitions are appended in slices.

A batch that follows a refused one of its producer is refused as well, because the first is sent again
(:mod:`~tidelog.broker.partitions.refused_batches`).

A request may name a partition several times. All its batches are appended and answered, in their order. Kafka
appends the last one only, and its response does not mention the others.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, cast

from tidelog.broker.broker import Broker
from tidelog.broker.future import Gather
from tidelog.broker.partitions.partition import Partition
from tidelog.broker.partitions.validation import AppendRules, MustOpen
from tidelog.broker.producing.opening import NO_SOURCE, BatchOpening, Compute, Costly, RequestSource
from tidelog.broker.producing.responses import ProduceResponses, Send, outcome_of
from tidelog.broker.producing.transactional import Outcome, TransactionalProduce, is_single
from tidelog.broker.requests.access import Access, access_of
from tidelog.broker.requests.request import HangUp, RequestContext
from tidelog.broker.slices import take_slice
from tidelog.controller.topics import INTERNAL_TOPICS
from tidelog.errors import ErrorCode, TidelogError
from tidelog.protocol import produce
from tidelog.protocol.produce import ProducePartitionResponse, ProduceRequest, Shape, TopicKey, TopicResponses
from tidelog.security.acls import Operation, ResourceType
from tidelog.services import ignore

PLAIN_FROM_VERSION = 5
APPENDED_PER_SLICE = 50  # batches: about 3 ms
# Of a request around its records. Clients need less, unless their id is very long; tagged fields may be as
# large as a request, and connections keep shapes.
SHAPE_BYTES_MAX = 1024

logger = logging.getLogger(__name__)


class Place(NamedTuple):
    """A batch of a request with several, and where its answer belongs."""

    key: TopicKey
    partition: int
    records: memoryview | None
    row: list[ProducePartitionResponse]
    number: int  # in the row

    def set_result(self, response: ProducePartitionResponse, gather: Gather) -> None:
        self.row[self.number] = response
        gather.one_done()


class ProduceHandler:
    def __init__(
        self, broker: Broker, compute: Compute | None = None, give_way: Callable[[], None] = ignore
    ) -> None:
        """``give_way`` is called about once a millisecond in the thread that decodes batches."""
        self._broker = broker
        self._access = broker.access  # None: every client may write
        self._refused = broker.partitions.refused
        self.opening = BatchOpening(broker.partitions, broker.services, compute, give_way)
        self._responses = responses = ProduceResponses(broker)
        self._respond, self._template = responses.send, responses.template
        self._transactional = TransactionalProduce(
            broker.partitions, broker.admission, self.opening, responses, self
        )

    def handle(
        self,
        frame: memoryview,
        position: int,
        context: RequestContext,
        send: Send,
        asker: RequestSource = NO_SOURCE,
    ) -> Shape | None:
        """Send the response through ``send``. The returned shape can be passed to :meth:`handle_repeated` if
        the next request has the same shape.
        """
        request = produce.decode(frame, position, context.version)
        if request.acks not in (-1, 0, 1):
            self._respond(context, send, self._responses.refuse_all(request, ErrorCode.INVALID_REQUIRED_ACKS))
            return None
        if self._access is not None and self._refuse_transaction(request, context, send):
            return None
        costly = self.opening.costly(request)
        if costly and self._access is not None:
            costly = [each for each in costly if not self.forbids(each.key, None, context)]
        if costly:
            self.opening.first(costly, context, asker, lambda known: self._take(request, known, send, asker))
            return None
        if request.transactional_id is not None:
            self._transactional.handle(request, request.transactional_id, context, send, asker)
            return None
        if len(request.topics) != 1 or len(request.topics[0][1]) != 1 or not request.acks:
            self._handle_many(request, context, send, asker)
            return None
        key, [(index, records)] = request.topics[0]
        self.handle_one(key, index, records, request.acks, request.timeout_ms, context, send, asker)
        if records is None or len(frame) - len(records) > SHAPE_BYTES_MAX:
            return None
        shape = Shape(frame, records, context.version, request.acks, request.timeout_ms, key, index)
        return shape if shape.fits(frame) else None

    def handle_repeated(
        self,
        shape: Shape,
        records: memoryview,
        context: RequestContext,
        send: Send,
        asker: RequestSource = NO_SOURCE,
    ) -> None:
        """Handle a request that differs from an earlier one only in its records."""
        partition, _ = self._broker.partitions.find(shape.key, shape.index)
        if (
            partition is not None
            and partition.rules.opens
            and partition.must_open(records)
            and not self.forbids(shape.key, partition, context)
        ):
            self.opening.first(
                [Costly(shape.key, shape.index, records, partition.rules)],
                context,
                asker,
                lambda known: self.handle_one(
                    shape.key, shape.index, records, shape.acks, shape.timeout_ms, known, send, asker
                ),
            )
            return
        acks, timeout_ms = shape.acks, shape.timeout_ms
        self.handle_one(
            shape.key, shape.index, records, acks, timeout_ms, context, send, asker, partition=partition
        )

    def _take(
        self, request: ProduceRequest, context: RequestContext, send: Send, asker: RequestSource
    ) -> None:
        if request.transactional_id is not None:
            self._transactional.handle(request, request.transactional_id, context, send, asker)
        elif is_single(request):
            key, [(index, records)] = request.topics[0]
            self.handle_one(key, index, records, request.acks, request.timeout_ms, context, send, asker)
        else:
            self._handle_many(request, context, send, asker)

    def handle_one(
        self,
        key: TopicKey,
        index: int,
        records: memoryview | None,
        acks: int,
        timeout_ms: int,
        context: RequestContext,
        send: Send,
        asker: RequestSource,
        *,
        in_transaction: bool = False,
        partition: Partition | None = None,
        when_checked: Callable[[], Callable[[RequestContext], None]] | None = None,
    ) -> None:
        """Handle one batch for one partition: the usual case. ``when_checked``: returns what to do with a
        batch of a transaction after it was checked in a thread.
        """
        try:
            partition, appended, refusal = self.append(
                key, index, records, acks, context, in_transaction=in_transaction, partition=partition
            )
        except MustOpen as doubt:
            if in_transaction:
                self._refused.note_open(key, index, records)

            def again(known: RequestContext) -> None:
                self.handle_one(key, index, records, acks, timeout_ms, known, send, asker)

            doubtful = Costly(key, index, cast(memoryview, records), doubt.rules)
            then = again if when_checked is None else when_checked()
            self.opening.first([doubtful], context, asker, then)
            return
        if partition is None or appended is None:
            self._respond(context, send, [(key, [refusal or ProducePartitionResponse(index)])])
            return

        def done(error: ErrorCode) -> None:
            if error or context.version < PLAIN_FROM_VERSION:
                self._respond(context, send, [(key, [outcome_of(partition, index, appended, error)])])
                return
            template = self._template(context.version, key, index)
            base_offset, _, append_time_ms = appended
            send(
                template.encode(
                    context.correlation_id, base_offset, append_time_ms, partition.log.start_offset
                )
            )

        partition.when_acknowledged(appended.end_offset, acks, timeout_ms, done)

    def _handle_many(
        self, request: ProduceRequest, context: RequestContext, send: Send, asker: RequestSource
    ) -> None:
        responses: TopicResponses = [(key, []) for key, _ in request.topics]
        gather = Gather(sum(len(partitions) for _, partitions in request.topics))
        if request.acks:
            gather.future.then(lambda _: self._respond(context, send, responses))
        self._append_each(_places(request, responses), request, responses, gather, context, send, asker)

    def _append_each(
        self,
        places: Iterable[Place],
        request: ProduceRequest,
        responses: TopicResponses,
        gather: Gather,
        context: RequestContext,
        send: Send,
        asker: RequestSource,
    ) -> None:
        """Append the batches of these places. Those that must be decoded first follow afterwards, and with
        them later ones for the same partition.
        """
        doubts: list[Place] = []
        rules: list[AppendRules | None] = []  # None: the batch only waits for an earlier one
        pending: set[tuple[TopicKey, int]] = set()

        def append_each() -> Iterator[None]:
            for place in places:
                if (place.key, place.partition) in pending:
                    doubts.append(place)
                    rules.append(None)
                    yield
                    continue
                try:
                    outcome = self.append(place.key, place.partition, place.records, request.acks, context)
                except MustOpen as doubt:
                    pending.add((place.key, place.partition))
                    doubts.append(place)
                    rules.append(doubt.rules)
                else:
                    _await(outcome, place, request, gather)
                yield

        def conclude() -> None:
            if doubts:
                costly = [
                    Costly(place.key, place.partition, cast(memoryview, place.records), rule)
                    for place, rule in zip(doubts, rules, strict=True)
                    if rule is not None
                ]
                self.opening.first(
                    costly,
                    context,
                    asker,
                    lambda known: self._append_each(doubts, request, responses, gather, known, send, asker),
                )
            elif not request.acks:
                _check_unanswered(responses)
                send(None)

        steps = append_each()
        if take_slice(self._broker.services, steps, APPENDED_PER_SLICE):
            asker.hold()
            self._broker.services.in_turn(lambda: self._resume(steps, context, asker, conclude))
        else:
            conclude()

    def _resume(
        self,
        steps: Iterator[None],
        context: RequestContext,
        asker: RequestSource,
        conclude: Callable[[], None],
    ) -> None:
        """The next batches. The connection is held, so that a producer's batches keep their order."""
        try:
            if take_slice(self._broker.services, steps, APPENDED_PER_SLICE):
                self._broker.services.in_turn(lambda: self._resume(steps, context, asker, conclude))
                return
            conclude()
        except HangUp as error:
            asker.close(error.message)
        except Exception:
            logger.exception("a produce request of %s failed", context.peer)
            asker.close("a request that could not be answered")
        asker.resume()

    def forbids(self, key: TopicKey, partition: Partition | None, context: RequestContext) -> bool:
        """Whether the access rules forbid to write to this topic. ``partition``: if it is known already."""
        if self._access is None:
            return False
        if partition is not None:
            name: str | None = partition.name.topic
        else:
            name = key if isinstance(key, str) else self._broker.image.topic_names.get(key)
        access = self._access
        host = context.host
        if name is None or access.permits(context.principal, host, Operation.WRITE, ResourceType.TOPIC, name):
            return False
        Access(access, self._broker.audit, context).note_refusal(Operation.WRITE, ResourceType.TOPIC, name)
        return True

    def _refuse_transaction(self, request: ProduceRequest, context: RequestContext, send: Send) -> bool:
        """Refuse the request if its transactional id is not the client's."""
        access = access_of(self._broker, context)
        transactional_id = request.transactional_id
        if access is None or transactional_id is None:
            return False
        if access.transactional_id(Operation.WRITE, transactional_id):
            return False
        error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        if not request.acks:
            raise HangUp(f"{error.name}: {transactional_id[:100]!r}")
        self._respond(context, send, self._responses.refuse_all(request, error))
        return True

    def append(
        self,
        key: TopicKey,
        index: int,
        records: memoryview | None,
        acks: int,
        context: RequestContext,
        *,
        in_transaction: bool = False,
        partition: Partition | None = None,
    ) -> Outcome:
        """Append a batch. Returns the partition and the result or the error. Raises MustOpen if the batch
        must be decoded first.
        """
        refused = self._refused
        if partition is None:
            partition, error = self._broker.partitions.find(key, index)
            if partition is None and not self.forbids(key, None, context):
                refused.note(key, index, records, error)
                return None, None, ProducePartitionResponse(index, error)
        if self._access is not None and self.forbids(key, partition, context):
            # Not noted as refused: the producer id may be another producer's.
            return None, None, ProducePartitionResponse(index, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        if partition is None or records is None:
            return None, None, ProducePartitionResponse(index, ErrorCode.INVALID_RECORD, message="no records")
        try:
            if partition.name.topic in INTERNAL_TOPICS:
                # Coordinators would replay records of clients as their own state.
                raise TidelogError(
                    f"{partition.name.topic} is written by coordinators only",
                    ErrorCode.INVALID_TOPIC_EXCEPTION,
                )
            appended = partition.append(
                records,
                self._broker.services.now_ms(),
                context.version,
                acks,
                None if context.checked is None else context.checked.get(id(records)),
                refused.before(key, index, records) if refused.any else None,
                in_transaction=in_transaction,
            )
        except TidelogError as refusal:
            refused.note(key, index, records, refusal.code)
            self._broker.partitions.refusals.note(partition.name, refusal, context.peer)
            return (
                partition,
                None,
                ProducePartitionResponse(
                    index, refusal.code, message=refusal.message, refused_records=refusal.records
                ),
            )
        if refused.any:
            refused.appended(key, index, records)
        return partition, appended, None


def _places(request: ProduceRequest, responses: TopicResponses) -> Iterator[Place]:
    """Each makes room for its answer when it has its turn."""
    for (key, partitions), (_, row) in zip(request.topics, responses, strict=True):
        for index, records in partitions:
            row.append(ProducePartitionResponse(index))
            yield Place(key, index, records, row, len(row) - 1)


def _await(outcome: Outcome, place: Place, request: ProduceRequest, gather: Gather) -> None:
    """In the same turn as the append: in a later one another broker may lead, and the offset may be that of
    its records.
    """
    partition, appended, refusal = outcome
    if partition is None or appended is None:
        place.set_result(refusal or ProducePartitionResponse(place.partition), gather)
        return

    def done(error: ErrorCode) -> None:
        place.set_result(outcome_of(partition, place.partition, appended, error), gather)

    if request.acks:
        partition.when_acknowledged(appended.end_offset, request.acks, request.timeout_ms, done)


def _check_unanswered(responses: TopicResponses) -> None:
    """The client wants no response, so errors are told by closing the connection."""
    failed = next((response for _, row in responses for response in row if response.error), None)
    if failed is not None:
        raise HangUp(f"records sent with acks=0 were refused: {failed.error.name}")
