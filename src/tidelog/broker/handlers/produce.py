"""Produce, versions 3 to 13.

Honoured: acks 0, 1 and all, the timeout, topic ids, transactions. A request with several partitions is
answered when the last of them is done.

A batch whose records must be looked at, as on a compacted topic, is looked at in a thread first where that
takes long. So is one whose header and records do not seem to fit, before it is refused or put right. Its
connection takes up nothing more meanwhile, so that the order of a producer's batches stays,
and no more than one request of it waits.
"""

import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, cast

from tidelog.broker.broker import Broker
from tidelog.broker.clients.leader_hints import LEADER_ERRORS, leader_hint
from tidelog.broker.partitions.partition import Appended, Partition
from tidelog.broker.partitions.validation import AppendRules, Checked, MustOpen, check_opened
from tidelog.broker.promise import Gather
from tidelog.broker.requests.request import HangUp, RequestContext
from tidelog.broker.transactions.produce import when_admitted
from tidelog.controller.topics import INTERNAL_TOPICS
from tidelog.errors import ErrorCode, TidelogError
from tidelog.protocol import produce
from tidelog.protocol.produce import (
    NodeAddress,
    PartitionAnswer,
    PlainEncoder,
    ProduceRequest,
    Shape,
    TopicAnswers,
    TopicKey,
)

logger = logging.getLogger(__name__)

Outcome = tuple[Partition | None, Appended | None, PartitionAnswer | None]
"""A batch's partition, where it was appended, or why not."""

Send = Callable[[bytes | bytearray | None], None]
"""Takes the finished answer frame, or None where the client wants no answer (acks=0)."""

Work = Callable[[], list[Checked | TidelogError]]
Compute = Callable[[Work, Callable[[list[Checked | TidelogError] | BaseException], None]], None]
"""Runs work in a thread; what comes of it, or its exception, comes back in order with events."""


class Costly(NamedTuple):
    """A batch that must be opened, and by which rules."""

    key: TopicKey
    partition: int
    records: memoryview
    rules: AppendRules


class Asker(Protocol):
    """Whoever sent a request: its connection."""

    def hold(self) -> None:
        """Take up nothing more."""

    def resume(self) -> None: ...

    def close(self, reason: str) -> None: ...


class _Nobody:
    def hold(self) -> None: ...

    def resume(self) -> None: ...

    def close(self, reason: str) -> None: ...


NOBODY = _Nobody()
PLAIN_FROM_VERSION = 5
MAX_TEMPLATES = 10_000


class ProduceHandler:
    def __init__(
        self, broker: Broker, compute: Compute | None = None, give_way: Callable[[], None] = lambda: None
    ) -> None:
        """``give_way``: called from the thread that computes, about once a millisecond."""
        self._broker = broker
        self._compute: Compute = compute if compute is not None else broker.services.offload
        self._give_way = give_way
        self.opened_batches = 0  # in a thread
        self._templates: dict[tuple[int, TopicKey, int], PlainEncoder] = {}

    def handle(
        self,
        frame: memoryview,
        position: int,
        context: RequestContext,
        send: Send,
        asker: Asker = NOBODY,
    ) -> Shape | None:
        """Answer through ``send``. What is returned may be shown to :meth:`handle_alike` with the next
        request.
        """
        request = produce.decode(frame, position, context.version)
        if request.acks not in (-1, 0, 1):
            self._answer(context, send, self._refuse_all(request, ErrorCode.INVALID_REQUIRED_ACKS))
            return None
        costly = self._costly(request)
        if costly:
            self._open_first(costly, context, asker, lambda known: self._take(request, known, send, asker))
            return None
        if request.transactional_id is not None:
            self._handle_transactional(request, request.transactional_id, context, send, asker)
            return None
        if len(request.topics) != 1 or len(request.topics[0][1]) != 1 or not request.acks:
            self._handle_many(request, context, send, asker)
            return None
        key, [(index, records)] = request.topics[0]
        self._handle_one(key, index, records, request.acks, request.timeout_ms, context, send, asker)
        if records is None:
            return None
        shape = Shape(frame, records, context.version, request.acks, request.timeout_ms, key, index)
        return shape if shape.fits(frame) else None

    def handle_alike(
        self,
        shape: Shape,
        records: memoryview,
        context: RequestContext,
        send: Send,
        asker: Asker = NOBODY,
    ) -> None:
        """The same again with other records."""
        partition, _ = self._broker.partitions.find(shape.key, shape.index)
        if partition is not None and partition.rules.opens and partition.must_open(records):
            self._open_first(
                [Costly(shape.key, shape.index, records, partition.rules)],
                context,
                asker,
                lambda known: self._handle_one(
                    shape.key, shape.index, records, shape.acks, shape.timeout_ms, known, send, asker
                ),
            )
            return
        acks, timeout_ms = shape.acks, shape.timeout_ms
        self._handle_one(
            shape.key, shape.index, records, acks, timeout_ms, context, send, asker, partition=partition
        )

    def _take(self, request: ProduceRequest, context: RequestContext, send: Send, asker: Asker) -> None:
        if request.transactional_id is not None:
            self._handle_transactional(request, request.transactional_id, context, send, asker)
        elif len(request.topics) == 1 and len(request.topics[0][1]) == 1 and request.acks:
            key, [(index, records)] = request.topics[0]
            self._handle_one(key, index, records, request.acks, request.timeout_ms, context, send, asker)
        else:
            self._handle_many(request, context, send, asker)

    def _costly(self, request: ProduceRequest) -> list[Costly]:
        costly = []
        for key, partitions in request.topics:
            for index, records in partitions:
                partition, _ = self._broker.partitions.find(key, index)
                if partition is not None and records is not None and partition.must_open(records):
                    costly.append(Costly(key, index, records, partition.rules))
        return costly

    def _by_other_rules(self, costly: Sequence[Costly]) -> list[Costly] | None:
        """The same by the rules that are in force now; None where they are the same."""
        now = []
        for each in costly:
            partition, _ = self._broker.partitions.find(each.key, each.partition)
            if partition is not None and partition.must_open(each.records):
                each = each._replace(rules=partition.rules)
            now.append(each)
        return None if now == costly else now

    def _open_first(
        self,
        costly: Sequence[Costly],
        context: RequestContext,
        asker: Asker,
        go_on: Callable[[RequestContext], None],
    ) -> None:
        """What may happen meanwhile: the log is cut, rolled or deleted, another broker leads. All of that is
        looked at when the batch is appended, as for one that has just come. Where the settings change, it is
        opened once more.
        """
        now_ms, version, pace = self._broker.services.now_ms(), context.version, self._give_way

        def opened(found: list[Checked | TidelogError] | BaseException) -> None:
            try:
                if isinstance(found, BaseException):
                    raise found
                self.opened_batches += len(found)
                if (again := self._by_other_rules(costly)) is not None:
                    self._open_first(again, context, asker, go_on)
                    return
                known = {id(each.records): outcome for each, outcome in zip(costly, found, strict=True)}
                go_on(context._replace(checked=known))
            except HangUp as error:
                asker.close(error.message)
            except Exception:
                logger.exception("a produce request of %s failed", context.peer)
                asker.close("a request that could not be answered")
            asker.resume()

        asker.hold()
        self._compute(
            lambda: [check_opened(each.records, each.rules, now_ms, version, pace) for each in costly], opened
        )

    def _handle_one(
        self,
        key: TopicKey,
        index: int,
        records: memoryview | None,
        acks: int,
        timeout_ms: int,
        context: RequestContext,
        send: Send,
        asker: Asker,
        *,
        in_transaction: bool = False,
        partition: Partition | None = None,
    ) -> None:
        """One batch for one partition: the usual case, without any bookkeeping."""
        try:
            partition, appended, refusal = self._append(
                key, index, records, acks, context, in_transaction=in_transaction, partition=partition
            )
        except MustOpen as doubt:

            def again(known: RequestContext) -> None:
                self._handle_one(
                    key, index, records, acks, timeout_ms, known, send, asker, in_transaction=in_transaction
                )

            doubtful = Costly(key, index, cast(memoryview, records), doubt.rules)
            self._open_first([doubtful], context, asker, again)
            return
        if partition is None or appended is None:
            self._answer(context, send, [(key, [refusal or PartitionAnswer(index)])])
            return

        def done(error: ErrorCode) -> None:
            if error or context.version < PLAIN_FROM_VERSION:
                self._answer(context, send, [(key, [_outcome(partition, index, appended, error)])])
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
        self,
        request: ProduceRequest,
        context: RequestContext,
        send: Send,
        asker: Asker,
        outcomes: dict[tuple[int, int], Outcome] | None = None,
    ) -> None:
        """``outcomes``: of batches, by their places in the request, that did not have to wait until others
        were opened.
        """
        outcomes = {} if outcomes is None else outcomes
        doubts: list[Costly] = []
        for number, (key, partitions) in enumerate(request.topics):
            for place, (index, records) in enumerate(partitions):
                if (number, place) in outcomes:
                    continue
                try:
                    outcomes[number, place] = self._append(key, index, records, request.acks, context)
                except MustOpen as doubt:
                    doubts.append(Costly(key, index, cast(memoryview, records), doubt.rules))
        if doubts:
            self._open_first(
                doubts,
                context,
                asker,
                lambda known: self._handle_many(request, known, send, asker, outcomes),
            )
            return
        self._answer_many(request, context, send, outcomes)

    def _answer_many(
        self,
        request: ProduceRequest,
        context: RequestContext,
        send: Send,
        outcomes: dict[tuple[int, int], Outcome],
    ) -> None:
        answers: TopicAnswers = []
        waiting: list[tuple[Partition, Appended, list[PartitionAnswer], int]] = []
        for number, (key, partitions) in enumerate(request.topics):
            results: list[PartitionAnswer] = []
            answers.append((key, results))
            for place, (index, _) in enumerate(partitions):
                partition, appended, refusal = outcomes[number, place]
                results.append(refusal or PartitionAnswer(index))
                if partition is not None and appended is not None:
                    waiting.append((partition, appended, results, place))
        if request.acks == 0:
            failed = [answer for _, results in answers for answer in results if answer.error]
            if failed:
                raise HangUp(f"records sent with acks=0 were refused: {failed[0].error.name}")
            send(None)
            return
        gather = Gather(len(waiting))
        for partition, appended, results, place in waiting:
            partition.when_acknowledged(
                appended.end_offset,
                request.acks,
                request.timeout_ms,
                _settle(partition, appended, results, place, gather),
            )
        gather.promise.then(lambda _: self._answer(context, send, answers))

    def _handle_transactional(
        self,
        request: ProduceRequest,
        transactional_id: str,
        context: RequestContext,
        send: Send,
        asker: Asker,
    ) -> None:
        """Each partition for itself: one may have to wait for the coordinator, the next must not."""
        if len(request.topics) == 1 and len(request.topics[0][1]) == 1 and request.acks:
            self._handle_one_transactional(request, transactional_id, context, send, asker)
            return
        answers: TopicAnswers = []
        gather = Gather(sum(len(partitions) for _, partitions in request.topics))
        for key, partitions in request.topics:
            results = [PartitionAnswer(index) for index, _ in partitions]
            answers.append((key, results))
            for place, (index, records) in enumerate(partitions):
                settle = _settle_at(results, place, gather)
                self._begin_transactional(
                    request, transactional_id, key, index, records, context, settle, asker
                )
        gather.promise.then(lambda _: self._answer(context, send, answers) if request.acks else send(None))

    def _handle_one_transactional(
        self,
        request: ProduceRequest,
        transactional_id: str,
        context: RequestContext,
        send: Send,
        asker: Asker,
    ) -> None:
        key, [(index, records)] = request.topics[0]

        def append(batch: memoryview | None, in_transaction: bool) -> None:
            acks, timeout_ms = request.acks, request.timeout_ms
            self._handle_one(
                key, index, batch, acks, timeout_ms, context, send, asker, in_transaction=in_transaction
            )

        def refuse(refusal: TidelogError) -> None:
            answer = PartitionAnswer(index, refusal.code, message=refusal.message)
            self._answer(context, send, [(key, [answer])])

        partition, _ = self._broker.partitions.find(key, index)
        if partition is None or records is None:
            append(records, False)
        else:
            when_admitted(
                self._broker.admission, partition, transactional_id, records, context.version, append, refuse
            )

    def _begin_transactional(
        self,
        request: ProduceRequest,
        transactional_id: str,
        key: TopicKey,
        index: int,
        records: memoryview | None,
        context: RequestContext,
        settle: Callable[[PartitionAnswer], None],
        asker: Asker,
    ) -> None:
        def append(batch: memoryview | None, in_transaction: bool, known: RequestContext = context) -> None:
            try:
                partition, appended, refusal = self._append(
                    key, index, batch, request.acks, known, in_transaction=in_transaction
                )
            except MustOpen as doubt:
                doubtful = [Costly(key, index, cast(memoryview, batch), doubt.rules)]
                self._open_first(doubtful, context, asker, lambda seen: append(batch, in_transaction, seen))
                return
            if partition is None or appended is None:
                settle(refusal or PartitionAnswer(index))
                return

            def done(error: ErrorCode) -> None:
                settle(_outcome(partition, index, appended, error))

            partition.when_acknowledged(appended.end_offset, request.acks, request.timeout_ms, done)

        partition, _ = self._broker.partitions.find(key, index)
        if partition is None or records is None:
            append(records, False)
            return
        when_admitted(
            self._broker.admission,
            partition,
            transactional_id,
            records,
            context.version,
            append,
            lambda refusal: settle(PartitionAnswer(index, refusal.code, message=refusal.message)),
        )

    def _append(
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
        """The partition, unless it is known, and what became of the batch, or why not. Raises MustOpen."""
        if partition is None:
            partition, error = self._broker.partitions.find(key, index)
            if partition is None:
                return None, None, PartitionAnswer(index, error)
        if records is None:
            return None, None, PartitionAnswer(index, ErrorCode.INVALID_RECORD, message="no records")
        try:
            if partition.name.topic in INTERNAL_TOPICS:
                # What clients write there would be taken for the coordinators' own word.
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
                in_transaction=in_transaction,
            )
        except TidelogError as refusal:
            self._broker.partitions.refused(partition, refusal, context.peer)
            return (
                partition,
                None,
                PartitionAnswer(
                    index, refusal.code, message=refusal.message, refused_records=refusal.records
                ),
            )
        return partition, appended, None

    def _answer(self, context: RequestContext, send: Send, answers: TopicAnswers) -> None:
        nodes: list[NodeAddress] = []
        if any(each.error in LEADER_ERRORS for _, results in answers for each in results):
            answers, nodes = _with_hints(self._broker, answers)
        send(produce.encode(context.version, context.correlation_id, answers, nodes))

    def _template(self, version: int, key: TopicKey, index: int) -> PlainEncoder:
        name = (version, key, index)
        template = self._templates.get(name)
        if template is None:
            if len(self._templates) >= MAX_TEMPLATES:
                self._templates.clear()
            template = self._templates[name] = PlainEncoder(version, key, index)
        return template

    def _refuse_all(self, request: ProduceRequest, error: ErrorCode) -> TopicAnswers:
        return [
            (key, [PartitionAnswer(index, error) for index, _ in partitions])
            for key, partitions in request.topics
        ]


def _with_hints(broker: Broker, answers: TopicAnswers) -> tuple[TopicAnswers, list[NodeAddress]]:
    """Refusals for the want of leadership say who leads, so that the client need not ask (KIP-951)."""
    hinted: TopicAnswers = []
    nodes: dict[int, NodeAddress] = {}
    for key, results in answers:
        row = []
        for each in results:
            hint = leader_hint(broker, key, each.partition) if each.error in LEADER_ERRORS else None
            if hint is not None:
                nodes[hint.node.node_id] = hint.node
            row.append(each if hint is None else each._replace(leader=(hint.node.node_id, hint.epoch)))
        hinted.append((key, row))
    return hinted, list(nodes.values())


def _outcome(partition: Partition, index: int, appended: Appended, error: ErrorCode) -> PartitionAnswer:
    if error:
        return PartitionAnswer(index, error, message=_WHY_NOT.get(error))
    return PartitionAnswer(
        index, ErrorCode.NONE, appended.base_offset, appended.log_append_time_ms, partition.log.start_offset
    )


_WHY_NOT = {
    ErrorCode.KAFKA_STORAGE_ERROR: "the records were written but could not be made durable",
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: "the records were written to fewer replicas than required",
    ErrorCode.REQUEST_TIMED_OUT: "the records were written, but not copied in time",
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "the leader changed before the records were copied",
}


def _settle(
    partition: Partition, appended: Appended, results: list[PartitionAnswer], place: int, gather: Gather
) -> Callable[[ErrorCode], None]:
    def done(error: ErrorCode) -> None:
        results[place] = _outcome(partition, results[place].partition, appended, error)
        gather.one_done()

    return done


def _settle_at(
    results: list[PartitionAnswer], place: int, gather: Gather
) -> Callable[[PartitionAnswer], None]:
    def settle(answer: PartitionAnswer) -> None:
        results[place] = answer
        gather.one_done()

    return settle
