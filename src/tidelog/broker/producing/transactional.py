"""Produce with a transactional id. Each partition is handled separately, because one may have to wait for the
coordinator and must not delay the others.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol, cast

from tidelog.broker.future import Gather
from tidelog.broker.partitions.partition import Appended, Partition
from tidelog.broker.partitions.table import PartitionTable
from tidelog.broker.partitions.validation import MustOpen
from tidelog.broker.producing.opening import BatchOpening, Costly, RequestSource
from tidelog.broker.producing.responses import ProduceResponses, Send, outcome_of
from tidelog.broker.requests.request import RequestContext
from tidelog.broker.transactions.admission import Admission, AsOfNow, client_of_produce
from tidelog.broker.transactions.produce import when_admitted
from tidelog.errors import ErrorCode, TidelogError
from tidelog.protocol.batch import parse_header
from tidelog.protocol.produce import ProducePartitionResponse, ProduceRequest, TopicKey, TopicResponses

Outcome = tuple[Partition | None, Appended | None, ProducePartitionResponse | None]
"""The partition of a batch, and its position or the error."""


class Appender(Protocol):
    """Appends batches, transactional or not."""

    def handle_one(
        self, key: TopicKey, index: int, records: memoryview | None, acks: int, timeout_ms: int,
        context: RequestContext, send: Send, asker: RequestSource, *, in_transaction: bool = False,
        when_checked: Callable[[], Callable[[RequestContext], None]] | None = None,
    ) -> None:  # fmt: skip
        """Append the only batch of a request and send the response. ``when_checked``: returns what to do with
        a batch of a transaction after it was checked in a thread.
        """

    def append(
        self, key: TopicKey, index: int, records: memoryview | None, acks: int, context: RequestContext, *,
        in_transaction: bool = False,
    ) -> Outcome:  # fmt: skip
        """Append one batch. Raises MustOpen."""

    def forbids(self, key: TopicKey, partition: Partition | None, context: RequestContext) -> bool:
        """Whether the access rules forbid to write to this topic. :meth:`append` refuses it then."""


def is_single(request: ProduceRequest) -> bool:
    """Whether the request has one batch and needs a response."""
    return len(request.topics) == 1 and len(request.topics[0][1]) == 1 and bool(request.acks)


class _Queue:
    """The batches of a request for one partition. The next one has its turn when the last one is appended or
    refused: each may have to wait for the coordinator or a thread.
    """

    __slots__ = ("_begins", "_is_taking", "_under_way")

    def __init__(self) -> None:
        self._begins: deque[Callable[[], None]] = deque()
        self._under_way = self._is_taking = False

    def add(self, begin: Callable[[], None]) -> None:
        self._begins.append(begin)

    def go_on(self) -> None:
        """The last one is appended or refused, or there was none."""
        self._under_way = False
        if self._is_taking:
            return
        self._is_taking = True
        while self._begins and not self._under_way:
            self._under_way = True
            self._begins.popleft()()
        self._is_taking = False


class TransactionalProduce:
    def __init__(
        self,
        partitions: PartitionTable,
        admission: Admission,
        opening: BatchOpening,
        responses: ProduceResponses,
        appender: Appender,
    ) -> None:
        self._partitions = partitions
        self._admission = admission
        self._opening = opening
        self._responses = responses
        self._appender = appender

    def handle(
        self,
        request: ProduceRequest,
        transactional_id: str,
        context: RequestContext,
        send: Send,
        asker: RequestSource,
    ) -> None:
        if is_single(request):
            self._one(request, transactional_id, context, send, asker)
            return
        responses: TopicResponses = []
        gather = Gather(sum(len(partitions) for _, partitions in request.topics))
        queues: dict[tuple[TopicKey, int], _Queue] = {}
        for key, partitions in request.topics:
            results = [ProducePartitionResponse(index) for index, _ in partitions]
            responses.append((key, results))
            for place, (index, records) in enumerate(partitions):
                complete = _result_setter(results, place, gather)
                queue = queues.setdefault((key, index), _Queue())
                queue.add(
                    partial(
                        self._begin,
                        request,
                        transactional_id,
                        key,
                        index,
                        records,
                        context,
                        complete,
                        asker,
                        queue.go_on,
                    )
                )
        for queue in queues.values():
            queue.go_on()
        gather.future.then(
            lambda _: self._responses.send(context, send, responses) if request.acks else send(None)
        )

    def _one(
        self,
        request: ProduceRequest,
        transactional_id: str,
        context: RequestContext,
        send: Send,
        asker: RequestSource,
    ) -> None:
        key, [(index, records)] = request.topics[0]

        def append(batch: memoryview, in_transaction: bool, known: RequestContext = context) -> None:
            acks, timeout_ms = request.acks, request.timeout_ms

            def checked() -> Callable[[RequestContext], None]:
                return _when_checked(
                    cast(Partition, partition), batch, context.version, partial(append, batch, True), refuse
                )

            self._appender.handle_one(
                key, index, batch, acks, timeout_ms, known, send, asker,
                in_transaction=in_transaction, when_checked=checked if in_transaction else None,
            )  # fmt: skip

        def refuse(refusal: TidelogError) -> None:
            self._partitions.refused.note(key, index, records, refusal.code)
            response = ProducePartitionResponse(index, refusal.code, message=refusal.message)
            self._responses.send(context, send, [(key, [response])])

        partition, _ = self._partitions.find(key, index)
        if partition is None or records is None or self._appender.forbids(key, partition, context):
            self._appender.handle_one(
                key, index, records, request.acks, request.timeout_ms, context, send, asker
            )
        else:
            when_admitted(
                self._admission, partition, transactional_id, records, context.version, append, refuse
            )

    def _begin(
        self,
        request: ProduceRequest,
        transactional_id: str,
        key: TopicKey,
        index: int,
        records: memoryview | None,
        context: RequestContext,
        complete: Callable[[ProducePartitionResponse], None],
        asker: RequestSource,
        go_on: Callable[[], None],
    ) -> None:
        """``go_on`` is called when the batch is appended or refused."""

        def append(batch: memoryview | None, in_transaction: bool, known: RequestContext = context) -> None:
            try:
                partition, appended, refusal = self._appender.append(
                    key, index, batch, request.acks, known, in_transaction=in_transaction
                )
            except MustOpen as doubt:
                self._partitions.refused.note_open(key, index, batch)
                doubtful = [Costly(key, index, cast(memoryview, batch), doubt.rules)]
                then: Callable[[RequestContext], None] = partial(append, batch, in_transaction)
                found, _ = self._partitions.find(key, index)
                if in_transaction and found is not None and batch is not None:
                    then = _when_checked(found, batch, context.version, then, refuse_admission)
                self._opening.first(doubtful, context, asker, then)
                return
            if partition is None or appended is None:
                refuse(refusal or ProducePartitionResponse(index))
                return

            def done(error: ErrorCode) -> None:
                complete(outcome_of(partition, index, appended, error))

            partition.when_acknowledged(appended.end_offset, request.acks, request.timeout_ms, done)
            go_on()

        def refuse(response: ProducePartitionResponse) -> None:
            complete(response)
            go_on()

        def refuse_admission(refusal: TidelogError) -> None:
            self._partitions.refused.note(key, index, records, refusal.code)
            refuse(ProducePartitionResponse(index, refusal.code, message=refusal.message))

        partition, _ = self._partitions.find(key, index)
        if partition is None or records is None or self._appender.forbids(key, partition, context):
            append(records, False)
            return
        when_admitted(
            self._admission,
            partition,
            transactional_id,
            records,
            context.version,
            append,
            refuse_admission,
        )


def _when_checked(
    partition: Partition,
    records: memoryview,
    version: int,
    append: Callable[[RequestContext], None],
    refuse: Callable[[TidelogError], None],
) -> Callable[[RequestContext], None]:
    """What to do with an admitted batch after it was checked in a thread, which begins now. The transaction
    may end meanwhile: then the batch would begin one that never ends.
    """
    before, producer_id = AsOfNow(partition, client_of_produce(version)), parse_header(records).producer_id

    def checked(known: RequestContext) -> None:
        refusal = before.refusal(producer_id)
        if refusal is None:
            append(known)
        else:
            refuse(refusal)

    return checked


def _result_setter(
    results: list[ProducePartitionResponse], place: int, gather: Gather
) -> Callable[[ProducePartitionResponse], None]:
    def complete(response: ProducePartitionResponse) -> None:
        results[place] = response
        gather.one_done()

    return complete
