"""A producer: one value after another to one partition, with retries until a timeout.

Without idempotence a retry may double a value, so it has one request in flight at a time; with it, several.
An expired batch leaves a gap in the sequence, and it is unknown whether it was written: the producer
continues in a new epoch, as Kafka's do.
"""

from collections import deque
from enum import Enum

from tidelog.errors import ErrorCode
from tidelog.protocol.records import Record, encode_batch
from tidelog.sim.checkers.history import PartitionHistory, Write
from tidelog.sim.checkers.sequences import SequenceCheck
from tidelog.sim.clients.client import RETRIABLE, Client, ProduceCall, Reply
from tidelog.sim.plan import LoadPlan

PATIENCE_MS = 12_000.0  # delivery.timeout.ms
BROKER_TIMEOUT_MS = 1500
FIRST_PRODUCER_ID = 1_000_000  # Brokers give out smaller ones.
USUAL = LoadPlan()


class State(Enum):
    READY = "to be sent"
    UNDER_WAY = "sent, no answer yet"
    RESTING = "to be sent again in a while"


class Batch:
    __slots__ = ("acks", "born_ms", "epoch", "number", "sequence", "state", "values")

    def __init__(
        self, number: int, values: list[bytes], acks: int, sequence: int, epoch: int, born_ms: float
    ) -> None:
        self.number = number  # of the first value
        self.values = values
        self.acks = acks
        self.sequence = sequence
        self.epoch = epoch
        self.born_ms = born_ms
        self.state = State.READY


class Producer:
    def __init__(
        self,
        client: Client,
        history: PartitionHistory,
        topic: str,
        partition: int,
        *,
        acks: int = -1,
        idempotent: bool = False,
        load: LoadPlan = USUAL,
    ) -> None:
        self._client = client
        self._world = client.world
        self._history = history
        self.topic = topic
        self._partition = partition
        self.acks = acks
        self._idempotent = idempotent
        self._in_flight_max = 3 if idempotent else 1
        self._queue: deque[Batch] = deque()  # sent and not settled, in order
        self._sequence = 0
        self._epoch = 0
        self._check = self._new_check()
        self.sent = 0
        self.acknowledged = 0
        self._load = load
        self._padding = b"." * load.value_bytes
        self.pause_ms = load.produce_pause_ms
        self.stopped = False

    def _new_check(self) -> SequenceCheck:
        return SequenceCheck(f"producer {self._client.client_id}, epoch {self._epoch}")

    def start(self) -> None:
        self._world.after(self._world.chance.expovariate(1 / self.pause_ms), self._produce)

    def _produce(self) -> None:
        if self.stopped:
            return
        if len(self._queue) < self._in_flight_max:
            batch = self._new_batch()
            self._queue.append(batch)
            self._pump()
        self.start()

    def _new_batch(self) -> Batch:
        first = self.sent + 1
        self.sent += self._world.chance.choice(self._load.batch_sizes)
        acks = self.acks
        if acks and self._load.mixed_acks:
            acks = self._world.chance.choice((-1, 1))
        values = []
        for number in range(first, self.sent + 1):
            value = b"%d/%d%s" % (self._client.client_id, number, self._padding)
            self._history.sent(value, Write(self._client.client_id, number, acks, self._idempotent))
            values.append(value)
        batch = Batch(first, values, acks, self._sequence, self._epoch, self._world.now_ms)
        self._sequence += len(values)
        return batch

    # --- sending --------------------------------------------------------------------------------------------

    def _pump(self) -> None:
        """Send what is ready, in order: nothing overtakes a batch that waits for a retry."""
        for batch in list(self._queue):
            if batch.state is State.RESTING:
                return
            if batch.state is State.READY and not self._send(batch):
                return

    def _send(self, batch: Batch) -> bool:
        known = self._client.leader_of(self.topic, self._partition)
        if known is None:
            self._rest(batch)
            return False
        call = ProduceCall(
            self._client.client_id, self._client.next_number(), self.topic, self._partition,
            self._encode(batch), batch.acks, BROKER_TIMEOUT_MS,
        )  # fmt: skip
        if self.acks == 0:
            self._client.tell(known[0], call)
            self._queue.remove(batch)
            return True
        batch.state = State.UNDER_WAY
        self._check.sent(batch.sequence, known[0])
        self._client.ask(known[0], call, lambda reply: self._answered(batch, reply))
        return True

    def _encode(self, batch: Batch) -> bytes:
        now_ms = int(self._world.now_ms)
        records = [Record(place, now_ms, None, value, ()) for place, value in enumerate(batch.values)]
        if not self._idempotent:
            return bytes(encode_batch(records))
        return bytes(
            encode_batch(
                records,
                producer_id=FIRST_PRODUCER_ID + self._client.client_id,
                producer_epoch=batch.epoch,
                base_sequence=batch.sequence,
            )
        )

    def _answered(self, batch: Batch, reply: Reply) -> None:
        if batch not in self._queue:
            return
        self._world.note(
            f"producer {self._client.client_id}: {batch.number} at {reply.offset} {reply.error.name}"
        )
        if self._idempotent:
            self._judge(batch, reply)
        if reply.error is ErrorCode.NONE:
            self._queue.remove(batch)
            self.acknowledged += len(batch.values)
            if reply.left_ms <= self._history.forgiven_ms:
                return  # An acknowledgement from before all copies were lost.
            for place, value in enumerate(batch.values):
                self._history.told(value, reply.offset + place, reply.epoch)
        elif reply.error in RETRIABLE or (self._idempotent and self._may_come_later(batch, reply.error)):
            self._client.look_up(self.topic)
            self._rest(batch)
        else:
            self._give_up(batch)

    def _judge(self, batch: Batch, reply: Reply) -> None:
        if self._history.forgiven_ms or not self._history.is_safe(batch.acks):
            self._check.forgive()
        if reply.error is ErrorCode.NETWORK_EXCEPTION:
            self._check.unanswered(batch.sequence)
        elif reply.error is ErrorCode.NONE:
            self._check.acknowledged(batch.sequence, reply.process)
        elif reply.offset >= 0:
            self._check.failed_in_the_log(batch.sequence, reply.process)
        else:
            self._check.refused(batch.sequence, reply.error, reply.process, self._queue[0].sequence)

    def _may_come_later(self, batch: Batch, error: ErrorCode) -> bool:
        """A gap in the sequence is normal while a batch before this one is in flight."""
        return error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and self._queue[0] is not batch

    def _rest(self, batch: Batch) -> None:
        if self._world.now_ms - batch.born_ms > PATIENCE_MS:
            self._give_up(batch)
            return
        batch.state = State.RESTING

        def rested() -> None:
            batch.state = State.READY
            self._pump()

        self._world.after(self._client.backoff_ms(), rested)

    def _give_up(self, batch: Batch) -> None:
        if not self._idempotent:
            self._queue.remove(batch)
            return
        # The following ones were numbered after it: all are dropped, and the sequence restarts.
        self._queue.clear()
        self._epoch += 1
        self._sequence = 0
        self._check = self._new_check()
