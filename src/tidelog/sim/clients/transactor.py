"""A transactional producer: values for one or more partitions at a time, which are seen together or not at
all. Now and then another producer takes over its transactional id while it still runs: a zombie, which must
not commit any more.
"""

from collections.abc import Callable
from typing import Any

from tidelog.errors import ErrorCode
from tidelog.protocol.batch import iterate
from tidelog.protocol.records import Record, encode_batch
from tidelog.sim.checkers.batches import entries
from tidelog.sim.checkers.history import PartitionHistory, Write
from tidelog.sim.checkers.transactions import Transaction, TransactionHistory, Value
from tidelog.sim.clients.client import PRODUCE_VERSION, RETRIABLE, Client, ProduceCall, ReadCall, Reply
from tidelog.sim.clients.coordinator import TRANSACTION, CoordinatorLink
from tidelog.sim.clients.offset_sender import OffsetSender
from tidelog.sim.clients.reader import AbortedBatches

INIT_PRODUCER_ID, END_TXN = 22, 26
BROKER_TIMEOUT_MS = 1500
TIMEOUT_MS = 5000  # transaction.timeout.ms
PAUSE_MS = 150.0  # between transactions, on average
ABORTS = 0.25  # how often it aborts
PATIENCE_MS = 4000.0  # for one value
READS = 0.5  # how often a transaction reads before it writes
READ_BYTES = 4096
SENDS = 0.4  # how often it sends an offset before it ends
ADMISSION = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""A partition's leader could not ask the coordinator about the transaction yet."""


class Transactor:
    produce_version = PRODUCE_VERSION
    end_version: int | None = None  # of EndTxn
    offset_version: int | None = None  # of TxnOffsetCommit

    def __init__(
        self,
        client: Client,
        name: str,
        topic: str,
        partitions: int,
        histories: Callable[[str, int], PartitionHistory],
        transactions: TransactionHistory,
        offsets: OffsetSender | None = None,
    ) -> None:
        """``offsets``: through which it sends some as part of its transactions."""
        self._client = client
        self._world = client.world
        self._name = name  # transactional.id
        self._topic = topic
        self._partitions = partitions
        self._histories = histories
        self._transactions = transactions
        self._link = CoordinatorLink(client, TRANSACTION, name)
        self._producer = (-1, -1)  # id and epoch
        self._sequences: dict[int, int] = {}
        self._numbers = 0
        self._positions: dict[int, int] = {}  # up to where it has read what others wrote
        self._open: Transaction | None = None
        self._offsets = offsets
        self._sent: int | None = None  # the offset that is part of the open transaction
        self.ended = 0
        self.stopped = False  # begins no more transactions
        self.gone = False  # another producer has its transactional id for good

    def start(self) -> None:
        if self.gone:
            return
        self._link.ask(INIT_PRODUCER_ID, self._init_body, _code, self._started)

    def _init_body(self) -> dict[str, Any]:
        return {
            "transactional_id": self._name, "transaction_timeout": TIMEOUT_MS, "producer_id": -1,
            "producer_epoch": -1, "enable2_pc": False, "keep_prepared_txn": False,
        }  # fmt: skip

    def _started(self, code: ErrorCode, answer: Any) -> None:
        self._note(f"init {code.name}")
        if code is not ErrorCode.NONE:
            self._later(self.start)
            return
        self._become(answer)
        self._transactions.taken_over(self._name, self._producer)
        if self._offsets is None:
            self._later(self._begin)
        else:
            self._offsets.fetch(self._found)

    def _found(self, offset: int) -> None:
        """Its predecessors' position."""
        if self._transactions.is_newest(self._name, self._producer) and self._offsets_count:
            self._transactions.offsets(self._name).found(offset)
        self._later(self._begin)

    def _become(self, answer: Any) -> None:
        """A new epoch restarts its sequences."""
        producer = (answer.producer_id, answer.producer_epoch)
        if producer != self._producer:
            self._producer, self._sequences = producer, {}

    def _later(self, callback: Callable[[], None]) -> None:
        self._world.after(self._world.chance.expovariate(1 / PAUSE_MS), callback)

    def _note(self, text: str) -> None:
        self._world.note(f"transactor {self._client.client_id} ({self._name}): {text}")

    # --- one transaction ------------------------------------------------------------------------------------

    def _begin(self) -> None:
        if self.stopped:
            return
        chance = self._world.chance
        transaction = self._open = self._transactions.begin(self._name, self._producer)
        places = [chance.randrange(self._partitions) for _ in range(chance.randint(1, 3))]
        if chance.random() < READS:
            self._read(transaction, chance.randrange(self._partitions), places)
        else:
            self._write_next(transaction, places)

    def _read(self, transaction: Transaction, partition: int, places: list[int]) -> None:
        """What others have committed since its last position; then it writes."""
        known = self._client.leader_of(self._topic, partition)
        if known is None:
            self._write_next(transaction, places)
            return
        position = self._positions.get(partition, 0)
        call = ReadCall(
            self._client.client_id, self._client.next_number(), self._topic, partition, position, known[1],
            -1, READ_BYTES, True,
        )  # fmt: skip

        def got(reply: Reply) -> None:
            if reply.error is ErrorCode.OFFSET_OUT_OF_RANGE:
                self._positions[partition] = max(0, reply.start_offset)
            elif reply.error is not ErrorCode.NONE:
                self._client.look_up(self._topic)
            elif reply.left_ms > self._histories(self._topic, partition).forgiven_ms:
                self._take(transaction, partition, reply)
            self._write_next(transaction, places)

        self._client.ask(known[0], call, got)

    def _take(self, transaction: Transaction, partition: int, reply: Reply) -> None:
        aborting = AbortedBatches(reply.aborted)
        for place, header in iterate(reply.records):
            self._positions[partition] = header.next_offset
            if not aborting.contain(header):
                for entry in entries(reply.records[place : place + header.size]):
                    self._transactions.read(transaction, entry.value)

    def _write_next(self, transaction: Transaction, places: list[int]) -> None:
        if places:
            partition, *rest = places
            self._numbers += 1
            value = b"%s/%d/%d" % (self._name.encode(), self._client.client_id, self._numbers)
            # Once producer ids and epochs may be given out twice, nothing prevents duplicates.
            write = Write(self._client.client_id, self._numbers, -1, not self._transactions.void)
            self._histories(self._topic, partition).sent(value, write)
            self._transactions.wrote(transaction, Value(self._topic, partition, value))
            done = lambda: self._write_next(transaction, rest)  # noqa: E731
            self._send(partition, value, self._world.now_ms, done)
        else:
            commit = self._world.chance.random() >= ABORTS
            if self._offsets is not None and transaction.values and self._world.chance.random() < SENDS:
                self._send_offset(commit=commit)
            else:
                self._end(commit=commit)

    def _send_offset(self, *, commit: bool) -> None:
        offset = self._transactions.offsets(self._name).next()

        def heard(code: ErrorCode) -> None:
            if code is ErrorCode.NONE:
                self._sent = offset
                self._end(commit=commit)
            else:
                self._note(f"offset {offset} {code.name}")
                self._end(commit=False)

        if self._offsets is not None:
            self._offsets.send(self._producer, offset, self.offset_version, heard)

    def _send(self, partition: int, value: bytes, born_ms: float, done: Callable[[], None]) -> None:
        def again() -> None:
            if self._world.now_ms - born_ms > PATIENCE_MS:
                self._end(commit=False)
            else:
                self._world.after(
                    self._client.backoff_ms(), lambda: self._send(partition, value, born_ms, done)
                )

        def answered(reply: Reply) -> None:
            if reply.error is ErrorCode.NONE:
                self._sequences[partition] = self._sequences.get(partition, 0) + 1
                history = self._histories(self._topic, partition)
                if reply.left_ms > history.forgiven_ms and not self._transactions.void:
                    history.told(value, reply.offset, reply.epoch)
                done()
            elif reply.error in RETRIABLE or reply.error in ADMISSION:
                self._client.look_up(self._topic)
                again()
            else:
                self._note(f"{value!r} {reply.error.name}")
                self._end(commit=False)

        known = self._client.leader_of(self._topic, partition)
        if known is None:
            again()
            return
        call = ProduceCall(
            self._client.client_id, self._client.next_number(), self._topic, partition,
            self._encode(partition, value), -1, BROKER_TIMEOUT_MS, self._name, self.produce_version,
        )  # fmt: skip
        self._client.ask(known[0], call, answered)

    def _encode(self, partition: int, value: bytes) -> bytes:
        producer_id, epoch = self._producer
        record = Record(0, int(self._world.now_ms), None, value, ())
        sequence = self._sequences.get(partition, 0)
        return bytes(
            encode_batch(
                [record],
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=sequence,
                transactional=True,
            )
        )

    def _end(self, *, commit: bool) -> None:
        transaction = self._open
        if transaction is None:
            return
        self._transactions.ending(transaction, commit=commit)
        sent, self._sent = self._sent, None
        if commit and sent is not None:
            self._transactions.offsets(self._name).committing(sent)
        producer_id, epoch = self._producer
        body = {
            "transactional_id": self._name, "producer_id": producer_id, "producer_epoch": epoch,
            "committed": commit,
        }  # fmt: skip

        def heard(code: ErrorCode, answer: Any) -> None:
            self._note(f"{'commit' if commit else 'abort'} {code.name}")
            self._open = None
            if code is ErrorCode.NONE:
                self._transactions.ended(transaction, commit=commit)
                if commit and sent is not None and self._offsets_count:
                    self._transactions.offsets(self._name).committed(sent)
                self.ended += 1
                self._resume(answer)
            elif self.gone:
                self._link.closed = True
            else:
                self._later(self.start)  # Its epoch is over, or nothing was ever written: it starts again.

        self._link.ask(END_TXN, lambda: body, _code, heard, version=self.end_version)

    def _resume(self, answer: Any) -> None:
        """With an epoch for the next transaction."""
        self._become(answer)
        self._later(self._begin)

    @property
    def _offsets_count(self) -> bool:
        """Whether no coordinator has lost anything."""
        offsets = self._offsets
        return offsets is not None and not offsets.is_given_up() and not self._transactions.void

    @property
    def busy(self) -> bool:
        return self._open is not None


def _code(answer: Any) -> ErrorCode:
    return ErrorCode(answer.error_code)
