"""The sequence rules once more, as simply as they can be said: a list of batches and no memory but that."""

from collections.abc import Iterable
from typing import NamedTuple

from tidelog.errors import ErrorCode
from tidelog.log.log import Log
from tidelog.log.producers import ProducerState, ProducerStates
from tidelog.log.scan import headers
from tidelog.protocol import batch as batches
from tidelog.protocol.batch import BatchHeader
from unit.log.log_model import append

SEQUENCES = 1 << 31
REMEMBERED = 5


class Sent(NamedTuple):
    """A batch of a producer, and where it lies in the log."""

    producer_id: int
    epoch: int
    sequence: int
    records: int
    base_offset: int = -1

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.records - 1

    @property
    def next_sequence(self) -> int:
        return (self.sequence + self.records) % SEQUENCES


def header_of(sent: Sent, *, attributes: int = 0, timestamp: int = 1000) -> BatchHeader:
    return batches.parse_header(encoded(sent, attributes=attributes, timestamp=timestamp))


def encoded(sent: Sent, *, attributes: int = 0, timestamp: int = 1000, epoch: int = 0) -> bytearray:
    """The batch with opaque records."""
    return batches.build(
        b"x" * 20, base_offset=sent.base_offset, last_offset_delta=sent.records - 1, count=sent.records,
        base_timestamp=timestamp, max_timestamp=timestamp, attributes=attributes, leader_epoch=epoch,
        producer_id=sent.producer_id, producer_epoch=sent.epoch, base_sequence=sent.sequence,
    )  # fmt: skip


def write(log: Log, sent: Sent, *, epoch: int = 0, now_ms: int = 1000) -> Sent:
    """Append without asking whether that is right; with its place."""
    placed = sent._replace(base_offset=log.end_offset)
    append(log, encoded(placed, epoch=epoch), now_ms)
    return placed


def remembered(history: Iterable[Sent], producer_id: int) -> list[Sent]:
    """Of one producer: its last five batches of its last epoch."""
    own = [sent for sent in history if sent.producer_id == producer_id]
    current: list[Sent] = []
    for sent in own:
        if current and current[-1].epoch != sent.epoch:
            current = []
        current.append(sent)
    return current[-REMEMBERED:]


def judge(history: list[Sent], sent: Sent) -> int | ErrorCode | None:
    """Where the original of a duplicate lies, the code of a refusal, or None: append it."""
    known = remembered(history, sent.producer_id)
    if not known:
        return None
    last = known[-1]
    if sent.epoch < last.epoch:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if sent.epoch > last.epoch:
        return None if sent.sequence == 0 else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    for each in known:
        if (each.sequence, each.records) == (sent.sequence, sent.records):
            return each.base_offset
    return None if sent.sequence == last.next_sequence else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def as_sent(producer_id: int, producer: ProducerState) -> list[Sent]:
    return [
        Sent(producer_id, producer.epoch, first, last_offset - base_offset + 1, base_offset)
        for first, _, base_offset, last_offset, _ in producer.batches
    ]


def known_to(states: ProducerStates) -> dict[int, list[Sent]]:
    return {producer_id: as_sent(producer_id, producer) for producer_id, producer in states}


def expected_of(history: list[Sent]) -> dict[int, list[Sent]]:
    return {key: remembered(history, key) for key in {sent.producer_id for sent in history}}


def history_in(log: Log) -> list[Sent]:
    """The producers' batches that the segments hold, deleted records included."""
    return [
        Sent(header.producer_id, header.producer_epoch, header.base_sequence, header.last_offset_delta + 1,
             header.base_offset)
        for segment in log.segments
        for _, header in headers(segment.file(), 0, segment.size)
        if header.producer_id >= 0
    ]  # fmt: skip
