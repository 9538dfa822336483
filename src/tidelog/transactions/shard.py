"""One partition of ``__transaction_state``: all its transactional ids, and the pending work of each.

Every change is written before it appears in a response. While it is being written, the transactional id is
busy and requests that depend on the outcome get CONCURRENT_TRANSACTIONS. AddPartitionsToTxn waits instead: a
client that begins a transaction right after the last one would otherwise wait for its retry backoff, although
the write takes about a millisecond. Timers run in :meth:`TransactionShard.pass_to`, which must be called at
:attr:`TransactionShard.next_ms`.

An id has one pending change at most. So the transactional id is the token of the effects of a change, and the
entry of the id says what follows in :meth:`TransactionShard.appended` and
:meth:`TransactionShard.got_producer_id`.

After a crash the state is rebuilt from the log, and every decision in the log is completed.
"""

from collections.abc import Callable, Iterator, Set
from typing import Any

from tidelog.errors import ErrorCode, InvariantViolation, TidelogError
from tidelog.machine import Machine
from tidelog.transactions import records, rules
from tidelog.transactions.agenda import Agenda, ShardTimer, TimerKind
from tidelog.transactions.effects import (
    AppendRecords,
    Effects,
    Now,
    Respond,
    SendMarkers,
    TakeProducerId,
    Token,
    Waiter,
)
from tidelog.transactions.entry import (
    EndOfTransaction,
    Parked,
    StartOfProducer,
    StateWrite,
    TransactionEntry,
)
from tidelog.transactions.rules import End, EndRequest, ProducerIdAndEpoch
from tidelog.transactions.settings import Settings
from tidelog.transactions.states import AT_REST, PREPARED, TransactionState
from tidelog.transactions.transaction import NO_EPOCH, NO_PRODUCER_ID, NO_TIME, Transaction
from tidelog.types import TopicPartition

PATIENCE_MS = 1000  # How long adding partitions waits for the end of the previous transaction.
BUSY_RETRY_MS = 200
COMPLETION_DELAY_MS = 50  # A busy producer begins its next transaction much sooner; see _complete.


class TransactionShard(Machine):
    SURROUNDINGS = frozenset({"_settings"})

    def __init__(self, settings: Callable[[], Settings]) -> None:
        self._settings = settings
        self._entries: dict[Token, TransactionEntry] = {}  # by transactional id
        self._agenda = Agenda()
        self._stopped = False

    def __iter__(self) -> Iterator[Transaction]:
        """The transactions of all ids, without those that expire or are not in the log yet."""
        known = [
            entry.transaction
            for entry in self._entries.values()
            if entry.pending is not TransactionState.DEAD
        ]
        return iter([transaction for transaction in known if transaction.epoch != NO_EPOCH])

    def get(self, transactional_id: str) -> Transaction | None:
        entry = self._entries.get(transactional_id)
        if entry is None or entry.pending is TransactionState.DEAD or entry.transaction.epoch == NO_EPOCH:
            return None
        return entry.transaction

    # -- from one coordinator to the next ----------------------------------------------

    def replay(self, key: bytes | None, value: bytes | None) -> None:
        """Apply a record of the log while loading."""
        record = records.decode(key, value)
        if record is None:
            return
        if record.transaction is None:
            self._entries.pop(record.transactional_id, None)
        else:
            self._entries[record.transactional_id] = TransactionEntry(record.transaction)

    def start(self, now: Now) -> Effects:
        """Called after the replay: completes prepared transactions and starts the timers."""
        effects: Effects = []
        for entry in self._entries.values():
            if entry.transaction.state in PREPARED:
                effects += self._send_markers(entry, now)
            elif entry.transaction.state is TransactionState.ONGOING:
                # The wall clock may jump, so it is used only for the time before the start of this shard.
                transaction = entry.transaction
                gone_ms = min(max(0, now.wall_ms - transaction.started_ms), transaction.timeout_ms)
                self._watch(entry, now.uptime_ms + transaction.timeout_ms - gone_ms)
        self._plan_expiry(now)
        return effects

    def stop(self) -> Effects:
        """Another broker takes over: redirect all pending requests."""
        self._stopped = True
        refusal = TidelogError("another broker coordinates this now", ErrorCode.NOT_COORDINATOR)
        effects: Effects = []
        for entry in self._entries.values():
            parked, entry.parked = entry.parked, []
            effects += [Respond(each.waiter, refusal) for each in parked]
        return effects

    # -- the clock ---------------------------------------------------------------------

    @property
    def next_ms(self) -> int | None:
        return self._agenda.next_ms

    def pass_to(self, now: Now) -> Effects:
        effects: Effects = []
        if not self._stopped:
            for timer in self._agenda.due(now.uptime_ms):
                effects += self._fire(timer, now)
        return effects

    def _fire(self, timer: ShardTimer, now: Now) -> Effects:
        if timer.kind is TimerKind.EXPIRY:
            return self._expire(now)
        entry = self._entries.get(timer.transactional_id)
        if entry is None:
            return []
        if timer.kind is TimerKind.TIMEOUT:
            return self._look(entry, timer, now)
        if timer.kind is TimerKind.COMPLETION:
            return self._write_completion(entry, now)
        return self._resume(entry, now)

    # -- InitProducerId ----------------------------------------------------------------

    def init_producer(
        self,
        transactional_id: str,
        timeout_ms: int,
        expected: ProducerIdAndEpoch | None,
        waiter: Waiter,
        now: Now,
    ) -> Effects:
        """The response is a ProducerIdAndEpoch."""
        longest = self._settings().transaction_max_timeout_ms
        if not 0 < timeout_ms <= longest:
            raise TidelogError(
                f"a transaction timeout of {timeout_ms} ms is not in 1 to {longest} ms",
                ErrorCode.INVALID_TRANSACTION_TIMEOUT,
            )
        entry = self._entries.get(transactional_id)
        if entry is None:
            return self._new_id(transactional_id, timeout_ms, expected, waiter, now)
        rules.check_start(entry.transaction, entry.busy, expected)
        if entry.transaction.state is TransactionState.ONGOING:
            # The client retries until the transaction is aborted.
            refusal = TidelogError(
                "the transaction of the producer before this one is being aborted",
                ErrorCode.CONCURRENT_TRANSACTIONS,
            )
            return self._abort_by_force(entry, now, waiter, refusal)
        if not rules.needs_producer_id(entry.transaction, expected):
            return self._start_producer(entry, expected, timeout_ms, None, waiter, now)
        start = StartOfProducer(expected, timeout_ms, waiter)
        return self._take_producer_id(entry, TransactionState.EMPTY, start)

    def _new_id(
        self,
        transactional_id: str,
        timeout_ms: int,
        expected: ProducerIdAndEpoch | None,
        waiter: Waiter,
        now: Now,
    ) -> Effects:
        empty = Transaction(
            transactional_id, NO_PRODUCER_ID, NO_EPOCH, timeout_ms, TransactionState.EMPTY, frozenset(),
            NO_TIME, now.wall_ms,
        )  # fmt: skip
        entry = self._entries[transactional_id] = TransactionEntry(empty)
        start = StartOfProducer(expected, timeout_ms, waiter)
        return self._take_producer_id(entry, TransactionState.EMPTY, start)

    def _start_producer(
        self, entry: TransactionEntry, expected: ProducerIdAndEpoch | None, timeout_ms: int,
        new_id: int | None, waiter: Waiter, now: Now,
    ) -> Effects:  # fmt: skip
        started = rules.start(entry.transaction, expected, timeout_ms, now.wall_ms, new_id)
        producer = ProducerIdAndEpoch(started.producer_id, started.epoch)
        return self._write(entry, StateWrite(started, waiter, producer))

    # -- producer ids ------------------------------------------------------------------

    def _take_producer_id(
        self, entry: TransactionEntry, pending: TransactionState, change: StartOfProducer | EndOfTransaction
    ) -> Effects:
        entry.pending = pending
        entry.change = change
        return [TakeProducerId(entry.transaction.transactional_id)]

    def got_producer_id(self, token: Token, granted: int | TidelogError, now: Now) -> Effects:
        """An unused producer id, or the error if none is available."""
        entry = self._entries[token]
        change = entry.change
        entry.pending = entry.change = None
        if not isinstance(change, StartOfProducer | EndOfTransaction):
            raise InvariantViolation(f"nothing waits for this producer id: {token!r}")
        is_new = entry.transaction.epoch == NO_EPOCH
        if isinstance(granted, TidelogError):
            if is_new:
                del self._entries[token]
            return [Respond(change.waiter, granted), *self._resume(entry, now)]
        if isinstance(change, EndOfTransaction):
            return self._prepare(entry, change.request, granted, change.waiter, now)
        expected, timeout_ms, waiter = change
        if not is_new:
            return self._start_producer(entry, expected, timeout_ms, granted, waiter, now)
        entry.transaction = entry.transaction._replace(producer_id=granted)
        return self._start_producer(entry, expected, timeout_ms, None, waiter, now)

    # -- AddPartitionsToTxn and AddOffsetsToTxn ----------------------------------------

    def add_partitions(
        self, transactional_id: str, producer: ProducerIdAndEpoch, partitions: Set[TopicPartition],
        client_version: int, waiter: Waiter, now: Now,
    ) -> Effects:  # fmt: skip
        """The response is None."""
        until_ms = now.uptime_ms + PATIENCE_MS
        request = Parked(until_ms, waiter, producer, partitions, client_version)
        return self._add(self._entry(transactional_id), request, now)

    def _add(self, entry: TransactionEntry, request: Parked, now: Now) -> Effects:
        until_ms, waiter, producer, partitions, client_version = request
        try:
            added = rules.add_partitions(
                entry.transaction, entry.busy, producer, partitions, client_version, now.wall_ms
            )
        except TidelogError as refusal:
            if refusal.code != ErrorCode.CONCURRENT_TRANSACTIONS or now.uptime_ms >= until_ms:
                raise
            entry.parked.append(request)
            self._agenda.add(until_ms, TimerKind.RESUME, entry.transaction.transactional_id)
            return []
        if added is entry.transaction:
            return [Respond(waiter, None)]
        if entry.transaction.state is not TransactionState.ONGOING:
            self._watch(entry, now.uptime_ms + added.timeout_ms)
        return self._write(entry, StateWrite(added, waiter))

    def verify_partitions(
        self, transactional_id: str, producer: ProducerIdAndEpoch, partitions: Set[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        return rules.verify(self._entry(transactional_id).transaction, producer, partitions)

    def _entry(self, transactional_id: str) -> TransactionEntry:
        entry = self._entries.get(transactional_id)
        if entry is None:
            raise TidelogError(
                f"there is no producer with the transactional id {transactional_id[:60]!r}",
                ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            )
        return entry

    def _resume(self, entry: TransactionEntry, now: Now) -> Effects:
        """Retry pending requests; those that must still wait keep their deadline."""
        if not entry.parked:
            return []
        parked, entry.parked = entry.parked, []
        effects: Effects = []
        for each in parked:
            try:
                effects += self._add(self._entry(entry.transaction.transactional_id), each, now)
            except TidelogError as refusal:
                effects.append(Respond(each.waiter, refusal))
        return effects

    # -- EndTxn ------------------------------------------------------------------------

    def end(self, transactional_id: str, request: EndRequest, waiter: Waiter, now: Now) -> Effects:
        """The response is the ProducerIdAndEpoch of the next transaction."""
        entry = self._entry(transactional_id)
        transaction = entry.transaction
        if rules.judge_end(transaction, entry.busy, request) is End.DONE:
            return [Respond(waiter, ProducerIdAndEpoch(transaction.producer_id, transaction.epoch))]
        if not rules.end_needs_producer_id(transaction, request):
            return self._prepare(entry, request, None, waiter, now)
        pending = TransactionState.PREPARE_COMMIT if request.commits else TransactionState.PREPARE_ABORT
        return self._take_producer_id(entry, pending, EndOfTransaction(request, waiter))

    def _prepare(
        self, entry: TransactionEntry, request: EndRequest, next_id: int | None, waiter: Waiter, now: Now
    ) -> Effects:
        prepared = rules.prepare(entry.transaction, request, now.wall_ms, next_id)
        completed = rules.complete(prepared, now.wall_ms)
        producer = ProducerIdAndEpoch(completed.producer_id, completed.epoch)
        # The decision is final as soon as it is written, so the response does not wait for the markers.
        return self._write(entry, StateWrite(prepared, waiter, producer))

    def _abort_by_force(
        self, entry: TransactionEntry, now: Now, waiter: Waiter | None = None, response: Any = None
    ) -> Effects:
        """If no request waits for it, it is tried again."""
        fenced = rules.fence(entry.transaction, now.wall_ms)
        retry = TimerKind.TIMEOUT if waiter is None else None
        write = StateWrite(fenced, waiter, response, retry, now.uptime_ms + BUSY_RETRY_MS)
        return self._write(entry, write, TransactionState.PREPARE_EPOCH_FENCE)

    # -- markers -----------------------------------------------------------------------

    def _send_markers(self, entry: TransactionEntry, now: Now) -> Effects:
        transaction = entry.transaction
        if not transaction.partitions:
            return self._complete(entry, now)
        return [
            SendMarkers(
                transaction.transactional_id,
                transaction.producer_id,
                transaction.epoch,
                transaction.state is TransactionState.PREPARE_COMMIT,
                transaction.client_version,
                transaction.partitions,
            )
        ]

    def markers_written(self, sent: SendMarkers, now: Now) -> Effects:
        """Every partition has its marker."""
        entry = self._entries.get(sent.transactional_id)
        if entry is None or self._stopped or entry.busy:
            return []
        transaction = entry.transaction
        if transaction.state not in PREPARED or (transaction.producer_id, transaction.epoch) != sent[1:3]:
            return []
        return self._complete(entry, now)

    def _complete(self, entry: TransactionEntry, now: Now) -> Effects:
        """All markers are written. The completion takes effect before it is in the log: if it is lost, the
        next coordinator only writes the markers again. Writing it is delayed because the record of the
        producer's next transaction, if there is one soon, implies it.
        """
        entry.transaction = rules.complete(entry.transaction, now.wall_ms)
        entry.unwritten = True
        self._plan_completion(entry, now.uptime_ms + COMPLETION_DELAY_MS)
        return self._resume(entry, now)

    def _plan_completion(self, entry: TransactionEntry, at_ms: int) -> None:
        if not entry.completion_planned:
            entry.completion_planned = True
            self._agenda.add(at_ms, TimerKind.COMPLETION, entry.transaction.transactional_id)

    def _write_completion(self, entry: TransactionEntry, now: Now) -> Effects:
        entry.completion_planned = False
        if not entry.unwritten:
            return []
        if entry.busy:
            self._plan_completion(entry, now.uptime_ms + BUSY_RETRY_MS)  # The pending write may fail.
            return []
        retry_ms = now.uptime_ms + BUSY_RETRY_MS
        return self._write(
            entry, StateWrite(entry.transaction, retry=TimerKind.COMPLETION, retry_ms=retry_ms)
        )

    # -- timeouts and expiry -----------------------------------------------------------

    def _watch(self, entry: TransactionEntry, deadline_ms: int) -> None:
        """Abort the transaction if it takes longer than its timeout."""
        entry.deadline_ms = deadline_ms
        if entry.timer_ms is None or deadline_ms < entry.timer_ms:
            # Only one timer per id, however many transactions begin and end before it fires. Another one if
            # the next producer has a shorter timeout.
            entry.timer_ms = deadline_ms
            self._agenda.add(deadline_ms, TimerKind.TIMEOUT, entry.transaction.transactional_id)

    def _look(self, entry: TransactionEntry, timer: ShardTimer, now: Now) -> Effects:
        if timer.at_ms != entry.timer_ms:
            return []  # An earlier timer has taken its place.
        entry.timer_ms = None
        if (
            entry.transaction.state is not TransactionState.ONGOING
            and entry.pending is not TransactionState.ONGOING
        ):
            return []
        if now.uptime_ms < entry.deadline_ms:
            self._watch(entry, entry.deadline_ms)
        elif entry.busy:
            self._watch(entry, now.uptime_ms + BUSY_RETRY_MS)
        else:
            return self._abort_by_force(entry, now)
        return []

    def _plan_expiry(self, now: Now) -> None:
        interval_ms = self._settings().transaction_remove_expired_transaction_cleanup_interval_ms
        self._agenda.add(now.uptime_ms + interval_ms, TimerKind.EXPIRY)

    def _expire(self, now: Now) -> Effects:
        """Remove ids that were unused for ``transactional.id.expiration.ms``."""
        self._plan_expiry(now)
        oldest_ms = now.wall_ms - self._settings().transactional_id_expiration_ms
        effects: Effects = []
        for entry in list(self._entries.values()):
            transaction = entry.transaction
            if transaction.state in AT_REST and not entry.busy and transaction.updated_ms <= oldest_ms:
                effects.append(self._bury(entry))
        return effects

    def _bury(self, entry: TransactionEntry) -> AppendRecords:
        transactional_id = entry.transaction.transactional_id
        entry.pending = TransactionState.DEAD
        return AppendRecords([records.tombstone(transactional_id)], transactional_id)

    # -- writing -----------------------------------------------------------------------

    def _write(
        self, entry: TransactionEntry, write: StateWrite, pending: TransactionState | None = None
    ) -> Effects:
        """Write the next state of an id."""
        new = write.new
        entry.pending = new.state if pending is None else pending
        entry.change = write
        return [AppendRecords([records.record_of(new)], new.transactional_id)]

    def appended(self, token: Token, error: ErrorCode, now: Now) -> Effects:
        """The records of an effect are committed (NONE), or were refused."""
        entry = self._entries[token]
        pending, write = entry.pending, entry.change
        entry.pending = entry.change = None
        if pending is TransactionState.DEAD:
            if not error:
                del self._entries[token]
            return self._resume(entry, now)
        if not isinstance(write, StateWrite):
            raise InvariantViolation(f"no change of this id was being written: {token!r}")
        if error:
            return self._not_written(entry, write, _refusal(error)) + self._resume(entry, now)
        entry.transaction = new = write.new
        entry.unwritten = False
        effects: Effects = [] if write.waiter is None else [Respond(write.waiter, write.response)]
        if new.state in PREPARED:
            effects += self._send_markers(entry, now)
        return effects + self._resume(entry, now)

    def _not_written(self, entry: TransactionEntry, write: StateWrite, refusal: TidelogError) -> Effects:
        if entry.transaction.epoch == NO_EPOCH:
            del self._entries[entry.transaction.transactional_id]  # The log does not have it.
        if not self._stopped:
            if write.retry is TimerKind.COMPLETION:
                self._plan_completion(entry, write.retry_ms)
            elif write.retry is TimerKind.TIMEOUT:
                self._watch(entry, write.retry_ms)
        return [] if write.waiter is None else [Respond(write.waiter, refusal)]


def _refusal(error: ErrorCode) -> TidelogError:
    if error is ErrorCode.MESSAGE_TOO_LARGE:
        error = ErrorCode.UNKNOWN_SERVER_ERROR  # As in Kafka: the client cannot fix it.
    return TidelogError("the transaction's state could not be written", error)
