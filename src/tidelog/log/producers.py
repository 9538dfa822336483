"""What a log remembers of idempotent producers, and the rules by which a batch is new, duplicate or refused.

Owns the last five batches of each producer id: a producer may have that many requests in flight, so any
of them may be retried after a lost response. Pure: headers and the clock come in; files belong to
:mod:`tidelog.log.producer_snapshots`.

=========================================== =====================================================
a batch                                     is
=========================================== =====================================================
of an unknown producer                      accepted, whatever its sequence: its past was deleted,
                                            has expired, or never existed; but refused after a
                                            batch that was refused a moment ago
of an older epoch than the remembered one   refused: a newer incarnation has taken over
of a newer epoch                            accepted if its sequence begins at 0
that continues the sequence                 accepted
with the sequences of a remembered batch    a duplicate: acknowledged with the offset of the original
with any other sequence                     refused: a batch before it is missing; with the error of
                                            that one, if it was refused a moment ago
outside a transaction, while one is open    refused: it would be committed or aborted with it
=========================================== =====================================================

Batches that were refused a moment ago are known to the caller. Producers have several requests in flight: if
this broker refuses one and becomes leader, the next ones must wait until the first is sent again.

A transaction begins with its producer's first batch in the log and ends with the coordinator's marker;
whether the coordinator knows of it is checked before a batch comes here. Sequences count records and wrap to
0 after 2^31 - 1. Written batches are recorded, never judged: followers and recovery take the log as it is.
"""

import logging
from collections.abc import Iterator, Mapping
from struct import Struct
from typing import NamedTuple

from tidelog.errors import CorruptBatch, ErrorCode, TidelogError
from tidelog.log.aborted_index import AbortedTransaction
from tidelog.log.open_transactions import OpenTransactions
from tidelog.protocol.batch import (
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_MASK,
    BatchHeader,
    Buffer,
)
from tidelog.protocol.markers import Marker, decode_marker

BATCHES_REMEMBERED = 5  # The most requests an idempotent producer may have in flight; clients know it.
SEQUENCE_MASK = (1 << 31) - 1
_AHEAD_MAX = SEQUENCE_MASK // 2  # A sequence further ahead is one from before the wrap.
EXPIRATION_MS = 86_400_000
PRODUCERS_MAX = 10_000
NO_OFFSET = -1
ANY_OFFSET = -2
NO_COORDINATOR = -1
_FORGOTTEN_AT_ONCE = 10  # This fraction of the producers is removed at once, so that it happens rarely.

noted_fields = Struct(">q13xhi8xqqhi").unpack_from
"""Base offset, attributes, last offset delta, max timestamp, producer id, producer epoch and base sequence of
a batch."""

_logger = logging.getLogger(__name__)


class WrittenBatch(NamedTuple):
    """A batch in the log, as its producer knows it."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    append_time_ms: int  # -1 unless the broker's clock set the timestamp.


Refused = Mapping[int, ErrorCode]
"""Batches of one producer epoch that were refused a moment ago: base sequence and the error that later
batches get.
"""

Written = tuple[int, int, int, int, int]
"""The fields of a WrittenBatch as a plain tuple: one is created with every batch and rarely read."""


class LastWritten(NamedTuple):
    """What compaction must keep so that a producer is still known after a rebuild."""

    # Last offset of its last batch that cannot be truncated any more. NO_OFFSET: only a marker of its epoch
    # is known. ANY_OFFSET: it has written so much since that it is not known which batch that is.
    offset: int
    epoch: int


class ProducerState:
    """One producer id in one log."""

    __slots__ = (
        "batches", "coordinator_epoch", "coordinator_offset", "epoch", "marker_offset", "next_sequence",
        "seen_ms",
    )  # fmt: skip

    def __init__(self, epoch: int, seen_ms: int) -> None:
        self.seen_ms = seen_ms  # When it last wrote, by the broker's clock.
        self.coordinator_epoch = NO_COORDINATOR  # Of the newest marker.
        self.coordinator_offset = NO_OFFSET  # The newest in a marker of this coordinator epoch.
        self.marker_offset = NO_OFFSET  # Of the newest marker since the log was opened.
        self.begin_epoch(epoch)

    def begin_epoch(self, epoch: int) -> None:
        """Sequences begin again with every epoch."""
        self.epoch = epoch
        self.next_sequence = 0
        self.batches: list[Written] = []  # Oldest first.

    def add(self, written: Written) -> None:
        batches = self.batches
        if len(batches) >= BATCHES_REMEMBERED:
            del batches[0]
        batches.append(written)
        self.next_sequence = (written[1] + 1) & SEQUENCE_MASK

    @property
    def last(self) -> WrittenBatch | None:
        """None if only the end of a transaction is known of this epoch."""
        return WrittenBatch._make(self.batches[-1]) if self.batches else None

    def find(self, first_sequence: int, last_sequence: int) -> WrittenBatch | None:
        for written in self.batches:
            if written[0] == first_sequence and written[1] == last_sequence:
                return WrittenBatch._make(written)
        return None


class ProducerStates:
    """All producers of one log."""

    __slots__ = ("_name", "_producers", "clock_ms", "expiration_ms", "newest_offset", "producers_max",
                 "transactions")  # fmt: skip

    def __init__(self, name: str, now_ms: int = 0) -> None:
        self._name = name  # For log lines.
        self._producers: dict[int, ProducerState] = {}
        self.transactions = OpenTransactions()
        self.clock_ms = now_ms  # Latest time known: when batches read from the log count as written.
        self.newest_offset = NO_OFFSET  # Last offset of the newest batch that changed anything here.
        self.expiration_ms = EXPIRATION_MS
        self.producers_max = PRODUCERS_MAX

    def __len__(self) -> int:
        return len(self._producers)

    def __iter__(self) -> Iterator[tuple[int, ProducerState]]:
        return iter(self._producers.items())

    def get(self, producer_id: int) -> ProducerState | None:
        return self._producers.get(producer_id)

    # -- rules -------------------------------------------------------------------------

    def check(self, header: BatchHeader, now_ms: int, refused: Refused | None = None) -> WrittenBatch | None:
        """None if the batch may be appended; the original if it is a duplicate. Raises the refusal."""
        sequence = header.base_sequence
        if sequence < 0 or header.producer_epoch < 0:
            raise TidelogError(
                f"producer {header.producer_id} sent sequence {sequence} of epoch {header.producer_epoch}",
                ErrorCode.INVALID_RECORD,
            )
        producer = self._producers.get(header.producer_id)
        if producer is None or (
            now_ms - producer.seen_ms >= self.expiration_ms
            and header.producer_id not in self.transactions.open
        ):
            if refused:
                _check_follows_none(header, refused)
            return None
        if header.producer_epoch != producer.epoch:
            _check_epoch(header, producer, refused)
            self._check_transaction(header)
            return None
        if sequence == producer.next_sequence:
            self._check_transaction(header)
            return None
        original = producer.find(sequence, (sequence + header.last_offset_delta) & SEQUENCE_MASK)
        if original is None:
            raise _gap(
                f"producer {header.producer_id} sent sequence {sequence}, {producer.next_sequence} is next",
                producer.next_sequence,
                refused,
            )
        return original

    def _check_transaction(self, header: BatchHeader) -> None:
        if not header.attributes & TRANSACTIONAL_MASK and header.producer_id in self.transactions.open:
            raise TidelogError(
                f"producer {header.producer_id} has a transaction open and sent a batch outside of it",
                ErrorCode.INVALID_TXN_STATE,
            )

    def check_coordinators(self, header: BatchHeader) -> None:
        """The same for a batch that a coordinator writes for a producer: it has no sequence."""
        producer = self._producers.get(header.producer_id)
        if producer is not None and header.producer_epoch < producer.epoch:
            _check_epoch(header, producer)

    def check_marker(self, producer_id: int, epoch: int, coordinator_epoch: int) -> None:
        """Raises the refusal of a marker that is about to be appended."""
        producer = self._producers.get(producer_id)
        if producer is None:
            return
        if epoch < producer.epoch:
            raise TidelogError(
                f"the marker of producer {producer_id} has epoch {epoch}, current: {producer.epoch}",
                ErrorCode.INVALID_PRODUCER_EPOCH,
            )
        if coordinator_epoch < producer.coordinator_epoch:
            raise TidelogError(
                f"the marker of producer {producer_id} comes from coordinator epoch {coordinator_epoch},"
                f" current: {producer.coordinator_epoch}",
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
            )

    def is_late(self, producer_id: int, epoch: int, marker: Marker) -> bool:
        """Whether a marker that :meth:`check_marker` accepts is already in the log, itself or a later one of
        its coordinator: an open transaction began later.
        """
        producer = self._producers.get(producer_id)
        return (
            producer is not None
            and marker.coordinator_offset != NO_OFFSET
            and producer.epoch == epoch
            and producer.coordinator_epoch == marker.coordinator_epoch
            and marker.coordinator_offset <= producer.coordinator_offset
        )

    def is_in_transaction(self, producer_id: int, epoch: int) -> bool:
        """Whether this incarnation has a transaction open here."""
        if producer_id not in self.transactions.open:
            return False
        return self._producers[producer_id].epoch == epoch

    def left_open(self, producer_id: int, epoch: int) -> ProducerState | None:
        """The producer, if an earlier incarnation than this one has a transaction open here."""
        if producer_id not in self.transactions.open:
            return None
        producer = self._producers[producer_id]
        return producer if producer.epoch < epoch else None

    def marker_offset(self, producer_id: int) -> int:
        """The offset of the newest marker of this producer, if known."""
        producer = self._producers.get(producer_id)
        return NO_OFFSET if producer is None else producer.marker_offset

    # -- what is in the log ------------------------------------------------------------

    def note(self, header: BatchHeader, now_ms: int) -> None:
        """A batch of a producer is in the log, its offsets assigned. (Markers: :meth:`note_marker`.)"""
        self.note_fields(
            (
                header.base_offset, header.attributes, header.last_offset_delta, header.max_timestamp,
                header.producer_id, header.producer_epoch, header.base_sequence,
            ),
            now_ms,
        )  # fmt: skip

    def note_fields(self, noted: tuple[int, ...], now_ms: int) -> None:
        """The same, from :data:`noted_fields` of a batch: the hot path needs no whole header."""
        base_offset, attributes, delta, max_timestamp, producer_id, epoch, sequence = noted
        producer = self._producers.get(producer_id)
        if producer is None:
            producer = self._add(producer_id, epoch, now_ms)
        elif producer.epoch != epoch:
            producer.begin_epoch(epoch)
        producer.seen_ms = self.clock_ms = now_ms
        last_offset = self.newest_offset = base_offset + delta
        if attributes & TRANSACTIONAL_MASK:
            self.transactions.begin(producer_id, base_offset)
        time_ms = max_timestamp if attributes & TIMESTAMP_TYPE_MASK else -1
        last_sequence = (sequence + delta) & SEQUENCE_MASK
        producer.add((sequence, last_sequence, base_offset, last_offset, time_ms))

    def note_marker(self, header: BatchHeader, batch: Buffer, now_ms: int) -> AbortedTransaction | None:
        """A control batch with a producer id is in the log. Returns the transaction that it aborts."""
        producer_id, epoch = header.producer_id, header.producer_epoch
        producer = self._producers.get(producer_id)
        if producer is None:
            producer = self._add(producer_id, epoch, now_ms)
        elif producer.epoch != epoch:
            producer.begin_epoch(epoch)
        producer.seen_ms = self.clock_ms = now_ms
        last_offset = self.newest_offset = header.last_offset
        marker = self._read_marker(header, batch)
        if marker is None:
            return None
        told = marker.coordinator_offset
        if marker.coordinator_epoch == producer.coordinator_epoch:
            told = max(told, producer.coordinator_offset)  # Markers of administrators have none.
        producer.coordinator_epoch, producer.coordinator_offset = marker.coordinator_epoch, told
        producer.marker_offset = last_offset
        ended = self.transactions.end(producer_id, last_offset)
        if ended is None or marker.commits:
            return None
        stable = self.transactions.first_open_offset(last_offset + 1)
        return AbortedTransaction(producer_id, ended.first_offset, last_offset, stable)

    def _read_marker(self, header: BatchHeader, batch: Buffer) -> Marker | None:
        try:
            return decode_marker(batch, header)
        except CorruptBatch as error:
            # Its CRC is valid, so other replicas hold the same; refusing it would not help.
            _logger.error("%s: no marker at offset %d: %s", self._name, header.base_offset, error.message)
            return None

    def restore(
        self, producers: dict[int, ProducerState], transactions: OpenTransactions, end_offset: int
    ) -> None:
        """Start with a snapshot of everything before ``end_offset``."""
        self._producers = producers
        self.transactions = transactions
        self.newest_offset = end_offset - 1 if producers or transactions.ended else NO_OFFSET

    def _add(self, producer_id: int, epoch: int, now_ms: int) -> ProducerState:
        if len(self._producers) >= self.producers_max:
            self._make_room(now_ms)
        producer = self._producers[producer_id] = ProducerState(epoch, now_ms)
        return producer

    # -- forgetting --------------------------------------------------------------------

    def _make_room(self, now_ms: int) -> None:
        """Producers do not say when they end: the longest idle ones have most probably ended."""
        self.expire(now_ms)
        surplus = len(self._producers) - self.producers_max + self.producers_max // _FORGOTTEN_AT_ONCE + 1
        if surplus <= 0:
            return
        by_age = sorted(
            (producer_id for producer_id in self._producers if producer_id not in self.transactions.open),
            key=lambda producer_id: self._producers[producer_id].seen_ms,
        )
        for producer_id in by_age[:surplus]:
            del self._producers[producer_id]
        _logger.warning(
            "%s: more than %d producers; forgot the %d longest idle, whose retries are no longer"
            " recognised", self._name, self.producers_max, surplus,
        )  # fmt: skip

    def expire(self, now_ms: int) -> None:
        """Remove producers that have not written for ``producer.id.expiration.ms`` and have no open
        transaction.
        """
        oldest_ms = now_ms - self.expiration_ms
        in_transaction = self.transactions.open
        expired = [
            key
            for key, producer in self._producers.items()
            if producer.seen_ms <= oldest_ms and key not in in_transaction
        ]
        for producer_id in expired:
            del self._producers[producer_id]

    def clear(self) -> None:
        self._producers.clear()
        self.transactions.clear()
        self.newest_offset = NO_OFFSET

    def last_written(self, end_offset: int) -> dict[int, LastWritten]:
        """For each producer: what compaction must keep, if everything from ``end_offset`` on may still be
        truncated.
        """
        return {key: _last_before(end_offset, producer) for key, producer in self._producers.items()}


def _last_before(end_offset: int, producer: ProducerState) -> LastWritten:
    for written in reversed(producer.batches):
        if written[3] < end_offset:
            return LastWritten(written[3], producer.epoch)
    return LastWritten(ANY_OFFSET if producer.batches else NO_OFFSET, producer.epoch)


def is_ahead(sequence: int, other: int) -> bool:
    """Whether a producer sends ``sequence`` after ``other``. Sequences begin again at 0."""
    return 0 < (sequence - other) & SEQUENCE_MASK <= _AHEAD_MAX


def _check_follows_none(header: BatchHeader, refused: Refused) -> None:
    """An unknown producer may begin anywhere, but not after a batch that it will send again."""
    for sequence, error in refused.items():
        if is_ahead(header.base_sequence, sequence):
            raise TidelogError(
                f"producer {header.producer_id} sent sequence {header.base_sequence} after {sequence},"
                " which was refused a moment ago",
                error,
            )


def _gap(reason: str, next_sequence: int, refused: Refused | None) -> TidelogError:
    """To a producer whose batch was refused, OUT_OF_ORDER_SEQUENCE_NUMBER for the next one would mean that
    the log has lost records.
    """
    error = None if refused is None else refused.get(next_sequence)
    if error is None:
        return TidelogError(reason, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    return TidelogError(f"{reason} and was refused a moment ago", error)


def _check_epoch(header: BatchHeader, producer: ProducerState, refused: Refused | None = None) -> None:
    if header.producer_epoch < producer.epoch:
        raise TidelogError(
            f"producer {header.producer_id} sent epoch {header.producer_epoch}, current: {producer.epoch}",
            ErrorCode.INVALID_PRODUCER_EPOCH,
        )
    if header.base_sequence != 0:
        raise _gap(
            f"producer {header.producer_id} began epoch {header.producer_epoch} with sequence"
            f" {header.base_sequence}, 0 is next",
            0,
            refused,
        )
