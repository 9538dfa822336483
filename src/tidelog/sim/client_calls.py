"""A simulated broker's handling of client calls: what the handlers do, without the wire.

Reading uses the handler's own code; only the response's frame is left out.
"""

from collections.abc import Callable
from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.delivery import deliver
from tidelog.broker.handlers.fetch import READ_COMMITTED, PendingFetch
from tidelog.broker.handlers.metadata import Absent, describe_topic
from tidelog.broker.partitions.partition import Partition
from tidelog.broker.requests.request import RequestContext
from tidelog.broker.transactions.produce import when_admitted
from tidelog.errors import ErrorCode, TidelogError
from tidelog.log.storage import Region
from tidelog.protocol.fetch import (
    FINAL_EPOCH,
    NO_SESSION,
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
)
from tidelog.replication.replica import Role
from tidelog.sim.clients.client import Call, LookupCall, ProduceCall, ReadCall, Reply, RequestCall

FETCH_VERSION = 12
MAX_WAIT_MS = 100

Answer = Callable[[Reply], None]


def serve(broker: Broker, call: Call, answer: Answer) -> None:
    match call:
        case ProduceCall():
            _produce(broker, call, answer)
        case ReadCall():
            _read(broker, call, answer)
        case LookupCall():
            _look_up(broker, call, answer)
        case RequestCall():
            _request(broker, call, answer)


def _produce(broker: Broker, call: ProduceCall, answer: Answer) -> None:
    records = memoryview(bytearray(call.records))
    partition, error = broker.partitions.find(call.topic, call.partition)
    if partition is None:
        _refuse(broker, call, records, error, answer)
        return
    if call.transactional_id is None:
        _append(broker, partition, call, records, answer, in_transaction=False)
        return
    when_admitted(
        broker.admission,
        partition,
        call.transactional_id,
        records,
        call.version,
        lambda batch, in_transaction: _append(
            broker, partition, call, batch, answer, in_transaction=in_transaction
        ),
        lambda refusal: _refuse(broker, call, records, refusal.code, answer),
    )


def _refuse(broker: Broker, call: ProduceCall, records: memoryview, error: ErrorCode, answer: Answer) -> None:
    broker.partitions.refused.note(call.topic, call.partition, records, error)
    answer(Reply(call.number, error, process=broker))


def _append(
    broker: Broker,
    partition: Partition,
    call: ProduceCall,
    records: memoryview,
    answer: Answer,
    *,
    in_transaction: bool,
) -> None:
    refused = broker.partitions.refused
    try:
        appended = partition.append(
            records,
            broker.services.now_ms(),
            call.version,
            call.acks,
            refused=refused.before(call.topic, call.partition, records) if refused.any else None,
            in_transaction=in_transaction,
        )
    except TidelogError as refusal:
        _refuse(broker, call, records, refusal.code, answer)
        return
    if refused.any:
        refused.appended(call.topic, call.partition, records)
    if call.acks == 0:
        return
    epoch = partition.leader_epoch
    partition.when_acknowledged(
        appended.end_offset,
        call.acks,
        call.timeout_ms,
        lambda code: answer(Reply(call.number, code, appended.base_offset, epoch, process=broker)),
    )


class _Read(PendingFetch):
    """A fetch of one partition with an unencoded response."""

    __slots__ = ("_call", "_tell")

    def __init__(self, broker: Broker, call: ReadCall, answer: Answer) -> None:
        wanted = FetchPartition(
            call.partition, call.leader_epoch, call.offset, call.last_epoch, -1, call.max_bytes
        )
        request = FetchRequest(
            -1,
            -1,
            MAX_WAIT_MS,
            1,
            call.max_bytes,
            READ_COMMITTED if call.committed else 0,
            NO_SESSION,
            FINAL_EPOCH,
            [(call.topic, [wanted])],
            [],
            "",
        )
        context = RequestContext(1, FETCH_VERSION, 0, "sim", "sim")
        super().__init__(broker, request, None, context, _nowhere, _nowhere)
        self._call = call
        self._tell = answer

    def _guarded(self, work: Callable[[], None]) -> None:
        """A defect ends the run, not the connection."""
        if not self._done:
            work()

    def _finish(self, answers: list[FetchPartitionResponse]) -> None:
        self._release()
        [told] = answers
        records = bytes(told.records.read()) if isinstance(told.records, Region) else b""
        start, diverging = told.log_start_offset, told.diverging
        aborted = tuple(told.aborted or ())
        self._tell(
            Reply(
                self._call.number, told.error, -1, -1, records, start, diverging, aborted=aborted,
                process=self._replica() or self._broker, watermark=told.high_watermark,
                stable=told.last_stable_offset, agreed_epoch=self._agreed_epoch(),
                follower_epoch=self._epoch(leads=False), led_epoch=self._epoch(leads=True),
            )
        )  # fmt: skip

    def _replica(self) -> Partition | None:
        return self._broker.partitions.find(self._call.topic, self._call.partition)[0]

    def _agreed_epoch(self) -> int:
        """Everything in a log was in that of the epoch's leader."""
        partition = self._replica()
        if partition is None:
            return -1
        replica = partition.replica
        led = replica.epoch if replica.role is Role.LEADER else -1
        return max(led, replica.watermark.agreed[0], replica.last_epoch)

    def _epoch(self, *, leads: bool) -> int | None:
        partition = self._replica()
        if partition is None or (partition.replica.role is Role.LEADER) is not leads:
            return None
        return partition.replica.epoch


def _request(broker: Broker, call: RequestCall, answer: Answer) -> None:
    def done(outcome: Any) -> None:
        if isinstance(outcome, TidelogError):
            answer(Reply(call.number, outcome.code))
        else:
            answer(Reply(call.number, ErrorCode.NONE, body=outcome))

    broker.services.soon(lambda: deliver(broker, call.api_key, call.body, done, call.version))


def _nowhere(_: object) -> None:
    """There are no frames here."""


def _read(broker: Broker, call: ReadCall, answer: Answer) -> None:
    _Read(broker, call, answer).start()


def _look_up(broker: Broker, call: LookupCall, answer: Answer) -> None:
    topic = broker.image.topics.get(call.topic)
    if topic is None:
        answer(Reply(call.number, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        return
    orphaning = broker.partitions.orphaning
    absent = Absent(orphaning, bool(orphaning))
    described = describe_topic(broker.newest(topic), broker.image, absent, reads=call.reads)["partitions"]
    leaders = tuple((each["leader_id"], each["leader_epoch"]) for each in described)
    answer(Reply(call.number, ErrorCode.NONE, leaders=leaders))
