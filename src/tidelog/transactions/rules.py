"""The rules of each request: functions from a transaction and a request to the next transaction.

A request is refused by raising a ``TidelogError`` with the code that Kafka's clients expect. A transaction
that is returned unchanged needs no record. ``busy`` means that an earlier change is still being written.
Its outcome is unknown, so no further change is decided until it is written.

The table shows the effect of EndTxn by state and by the client's transaction version. With version 2 each
EndTxn raises the producer's epoch, so the epoch tells a retry of the last EndTxn from the next EndTxn:

=================  ======================  =======================================================
state              versions 0 and 1        version 2
=================  ======================  =======================================================
Ongoing            begins                  begins
Empty              refused                 abort: begins; commit: refused
PrepareCommit      commit: wait            retried commit, or the next EndTxn: wait
PrepareAbort       abort: wait             retried abort, or the next EndTxn: wait
CompleteCommit     commit: done            retried commit: done; another abort: begins
CompleteAbort      abort: done             retried abort: done; another abort: begins
=================  ======================  =======================================================

Everything else is refused with INVALID_TXN_STATE.
"""

from collections.abc import Mapping, Set
from enum import Enum
from typing import NamedTuple, NoReturn

from tidelog.errors import ErrorCode, TidelogError
from tidelog.invariant import invariant
from tidelog.transactions.states import AT_REST, PREPARED, TransactionState
from tidelog.transactions.transaction import (
    EPOCH_BUMP_VERSION,
    EPOCH_MAX,
    NO_EPOCH,
    NO_PRODUCER_ID,
    NO_TIME,
    NO_VERSION,
    Transaction,
    is_exhausted,
)
from tidelog.types import TopicPartition


class ProducerIdAndEpoch(NamedTuple):
    producer_id: int
    epoch: int


def _refuse(code: ErrorCode, reason: str) -> NoReturn:
    raise TidelogError(reason, code)


def _wait(transaction: Transaction) -> NoReturn:
    _refuse(
        ErrorCode.CONCURRENT_TRANSACTIONS,
        f"the transaction of {transaction.transactional_id!r} before this one is still being finished",
    )


# -- InitProducerId ----------------------------------------------------------------


def needs_producer_id(transaction: Transaction, expected: ProducerIdAndEpoch | None) -> bool:
    """Whether the producer needs another id because its epochs are used up."""
    if transaction.state not in AT_REST or not transaction.epochs_exhausted:
        return False
    return expected is None or expected.epoch == transaction.epoch


def check_start(transaction: Transaction, busy: bool, expected: ProducerIdAndEpoch | None) -> None:
    """Raise if the producer must wait or was replaced by another. A producer that sends its id and epoch
    (``expected``) continues after an error, so it must be the current producer.
    """
    if busy:
        _wait(transaction)
    if expected is not None and not (
        transaction.epoch == NO_EPOCH
        or expected.producer_id == transaction.producer_id
        # The producer got another id, but may not have received the response.
        or (expected.producer_id == transaction.previous_producer_id and is_exhausted(expected.epoch))
    ):
        _fence(transaction, expected)
    if transaction.state in PREPARED:
        _wait(transaction)
    if transaction.state is TransactionState.ONGOING and expected is not None:
        # Without this check a replaced producer could abort its successor's transaction. Kafka allows that.
        _check_producer(transaction, expected)


def start(
    transaction: Transaction,
    expected: ProducerIdAndEpoch | None,
    timeout_ms: int,
    now_ms: int,
    new_id: int | None,
) -> Transaction:
    """Start a producer with the next epoch, which fences all earlier epochs."""
    producer_id, epoch = transaction.producer_id, transaction.epoch + 1
    if new_id is not None:
        producer_id, epoch = new_id, 0
        last_epoch = NO_EPOCH if expected is None else transaction.epoch
    elif expected is None:
        last_epoch = NO_EPOCH
    elif transaction.epoch in (NO_EPOCH, expected.epoch):
        last_epoch = transaction.epoch
    elif expected.epoch == transaction.last_epoch:
        # A retry. If another producer had started meanwhile, it would have cleared the last epoch.
        epoch, last_epoch = transaction.epoch, transaction.last_epoch
    else:
        _fence(transaction, expected)
    return transaction.to(
        TransactionState.EMPTY,
        producer_id=producer_id,
        epoch=epoch,
        last_epoch=last_epoch,
        timeout_ms=timeout_ms,
        partitions=frozenset(),
        started_ms=NO_TIME,
        updated_ms=now_ms,
    )


def _fence(transaction: Transaction, producer: ProducerIdAndEpoch) -> NoReturn:
    _refuse(
        ErrorCode.PRODUCER_FENCED,
        f"producer {producer.producer_id} with epoch {producer.epoch} was replaced by"
        f" {transaction.producer_id} with epoch {transaction.epoch}",
    )


# -- AddPartitionsToTxn and AddOffsetsToTxn ----------------------------------------


def _check_producer(transaction: Transaction, producer: ProducerIdAndEpoch) -> None:
    if producer.producer_id != transaction.producer_id:
        _refuse_id(transaction, producer)
    if producer.epoch != transaction.epoch:
        _fence(transaction, producer)


def _refuse_id(transaction: Transaction, producer: ProducerIdAndEpoch) -> NoReturn:
    _refuse(
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        f"{transaction.transactional_id!r} belongs to producer {transaction.producer_id}, not"
        f" {producer.producer_id}",
    )


def add_partitions(
    transaction: Transaction, busy: bool, producer: ProducerIdAndEpoch, partitions: Set[TopicPartition],
    client_version: int, now_ms: int,
) -> Transaction:  # fmt: skip
    """Add partitions to the transaction; the first partitions begin it."""
    _check_producer(transaction, producer)
    if busy or transaction.state in PREPARED:
        _wait(transaction)
    if transaction.state is TransactionState.ONGOING and partitions <= transaction.partitions:
        return transaction
    begins = transaction.state is not TransactionState.ONGOING
    return transaction.to(
        TransactionState.ONGOING,
        partitions=transaction.partitions | partitions,
        started_ms=now_ms if begins else transaction.started_ms,
        updated_ms=now_ms,
        client_version=client_version,
    )


def verify(
    transaction: Transaction, producer: ProducerIdAndEpoch, partitions: Set[TopicPartition]
) -> dict[TopicPartition, ErrorCode]:
    """Check that each partition is part of the transaction. Pending changes are ignored because the
    partition's leader checks again when it appends.
    """
    _check_producer(transaction, producer)
    if transaction.state in PREPARED:
        _wait(transaction)
    return {
        partition: ErrorCode.NONE if partition in transaction.partitions else ErrorCode.TRANSACTION_ABORTABLE
        for partition in partitions
    }


# -- EndTxn ------------------------------------------------------------------------


class EndRequest(NamedTuple):
    producer: ProducerIdAndEpoch
    commits: bool
    client_version: int

    @property
    def bumps_epoch(self) -> bool:
        return self.client_version >= EPOCH_BUMP_VERSION


class End(Enum):
    """The outcome of a request to end a transaction."""

    BEGINS = "begins"
    DONE = "done"
    WAIT = "wait"


COMMIT, ABORT = True, False
RETRY, NEXT = True, False

ENDS: Mapping[tuple[TransactionState, bool], End] = {
    (TransactionState.ONGOING, COMMIT): End.BEGINS,
    (TransactionState.ONGOING, ABORT): End.BEGINS,
    (TransactionState.PREPARE_COMMIT, COMMIT): End.WAIT,
    (TransactionState.PREPARE_ABORT, ABORT): End.WAIT,
    (TransactionState.COMPLETE_COMMIT, COMMIT): End.DONE,
    (TransactionState.COMPLETE_ABORT, ABORT): End.DONE,
}
"""For clients with a constant epoch: (state, commits). Combinations that are not listed are refused."""

ENDS_WITH_EPOCH: Mapping[tuple[TransactionState, bool, bool], End] = {
    (TransactionState.ONGOING, COMMIT, NEXT): End.BEGINS,
    (TransactionState.ONGOING, ABORT, NEXT): End.BEGINS,
    (TransactionState.EMPTY, ABORT, NEXT): End.BEGINS,
    (TransactionState.PREPARE_COMMIT, COMMIT, RETRY): End.WAIT,
    (TransactionState.PREPARE_ABORT, ABORT, RETRY): End.WAIT,
    (TransactionState.COMPLETE_COMMIT, COMMIT, RETRY): End.DONE,
    (TransactionState.COMPLETE_COMMIT, ABORT, NEXT): End.BEGINS,
    (TransactionState.COMPLETE_ABORT, ABORT, RETRY): End.DONE,
    (TransactionState.COMPLETE_ABORT, ABORT, NEXT): End.BEGINS,
}
"""For clients with an epoch per transaction: (state, commits, whether it is a retry of the last EndTxn)."""

_MAY_BE_RETRIED = frozenset({*PREPARED, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT})


def judge_end(transaction: Transaction, busy: bool, request: EndRequest) -> End:
    """The outcome of the request. Raises if the request is refused or must wait."""
    retried = _check_end(transaction, request)
    if busy:
        _wait(transaction)
    if request.bumps_epoch:
        end = ENDS_WITH_EPOCH.get((transaction.state, request.commits, retried))
    else:
        end = ENDS.get((transaction.state, request.commits))
    if end is None:
        _refuse(
            ErrorCode.INVALID_TXN_STATE,
            f"a transaction in state {transaction.state.label} cannot be"
            f" {'committed' if request.commits else 'aborted'}",
        )
    if end is End.WAIT:
        _wait(transaction)
    return end


def _check_end(transaction: Transaction, request: EndRequest) -> bool:
    """Raise if this is not the current producer; returns whether it is a retry of the last EndTxn."""
    producer = request.producer
    if not request.bumps_epoch:
        _check_producer(transaction, producer)
        return False
    if _is_retry_after_new_id(transaction, producer):
        return True
    if producer.producer_id != transaction.producer_id:
        _refuse_id(transaction, producer)
    if transaction.state in _MAY_BE_RETRIED and producer.epoch == transaction.last_epoch:
        return True
    if producer.epoch != transaction.epoch:
        _fence(transaction, producer)
    if transaction.state in PREPARED:
        # EndTxn of the next transaction. Kafka fences the producer here, although it did nothing wrong.
        _wait(transaction)
    return False


def _is_retry_after_new_id(transaction: Transaction, producer: ProducerIdAndEpoch) -> bool:
    return (
        transaction.state in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
        and producer.producer_id == transaction.previous_producer_id
        and producer.producer_id != transaction.producer_id
        and producer.epoch == EPOCH_MAX - 1
        and transaction.epoch == 0
    )


def end_needs_producer_id(transaction: Transaction, request: EndRequest) -> bool:
    """Whether the next transaction needs another id, because this one uses the last epoch."""
    return request.bumps_epoch and transaction.epochs_exhausted


def prepare(transaction: Transaction, request: EndRequest, now_ms: int, next_id: int | None) -> Transaction:
    """Decide to commit or to abort. Once this state is in the log, the decision is final."""
    invariant(next_id is None or request.bumps_epoch, "only an epoch per transaction runs out of epochs")
    begun = transaction.state is TransactionState.ONGOING
    epoch, last_epoch = transaction.epoch, transaction.last_epoch
    if request.bumps_epoch:
        epoch, last_epoch = transaction.epoch + 1, transaction.epoch
    return transaction.to(
        TransactionState.PREPARE_COMMIT if request.commits else TransactionState.PREPARE_ABORT,
        epoch=epoch,
        last_epoch=last_epoch,
        next_producer_id=NO_PRODUCER_ID if next_id is None else next_id,
        started_ms=transaction.started_ms if begun else now_ms,
        updated_ms=now_ms,
        client_version=request.client_version,
    )


def fence(transaction: Transaction, now_ms: int) -> Transaction:
    """Abort on behalf of the coordinator or a newer producer; the new epoch fences the current producer."""
    fenced = transaction.to(
        TransactionState.PREPARE_EPOCH_FENCE, epoch=transaction.epoch + 1, last_epoch=NO_EPOCH
    )
    return fenced.to(TransactionState.PREPARE_ABORT, updated_ms=now_ms, client_version=NO_VERSION)


def complete(transaction: Transaction, now_ms: int) -> Transaction:
    """The next state after all markers were written."""
    committed = transaction.state is TransactionState.PREPARE_COMMIT
    completed = transaction.to(
        TransactionState.COMPLETE_COMMIT if committed else TransactionState.COMPLETE_ABORT,
        partitions=frozenset(),
        next_producer_id=NO_PRODUCER_ID,
        updated_ms=now_ms,
    )
    if transaction.next_producer_id != NO_PRODUCER_ID:
        completed = completed._replace(producer_id=transaction.next_producer_id, epoch=0)
    return completed
