"""Sends finished batches to the leaders of their partitions, in order, with retries until a timeout.

Owns what is in flight: at most one request for each broker and one batch for each partition, so that a retry
never overtakes. While a broker works, the caller encodes: :meth:`Sender.offer` sends what can be sent and
returns; :meth:`Sender.wait` blocks for a response. A batch keeps its producer, epoch and sequence in every
retry: the broker recognises duplicates.
"""

import select
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tidelog.client.apis import Api
from tidelog.client.cluster import Cluster, Patience
from tidelog.client.connection import BrokerConnection
from tidelog.client.errors import ClientError, Refused, is_retriable
from tidelog.client.messages import TopicPartition
from tidelog.errors import ErrorCode
from tidelog.spark.writing import messages
from tidelog.spark.writing.encoder import FinishedBatch

_HAD_IT = ErrorCode.DUPLICATE_SEQUENCE_NUMBER
_RETRIED = frozenset({ErrorCode.CONCURRENT_TRANSACTIONS})
_PAUSE_S_MAX = 0.2


@dataclass(slots=True)
class Queue:
    """The queue of one partition."""

    pending: deque[FinishedBatch] = field(default_factory=deque)
    deadline: float = 0.0  # of the oldest batch
    busy: bool = False  # its oldest batch is in flight
    not_before: float = 0.0  # after a failure


@dataclass(slots=True)
class Sending:
    """One request in flight."""

    address: tuple[str, int]
    partitions: list[TopicPartition]


class Sender:
    """Not thread-safe."""

    def __init__(
        self,
        cluster: Cluster,
        release: Callable[[FinishedBatch], None],
        *,
        acks: int,
        transactional_id: str | None,
        delivery_timeout_ms: int,
        request_bytes_max: int,
    ) -> None:
        self._cluster = cluster
        self._release = release
        self._acks = acks
        self._transactional_id = transactional_id
        self._delivery_timeout_s = delivery_timeout_ms / 1000
        self._request_bytes_max = request_bytes_max
        self._queues: dict[TopicPartition, Queue] = {}
        # Connections of its own: others are used for metadata while responses are outstanding here.
        self._connections: dict[tuple[str, int], BrokerConnection] = {}
        self._under_way: dict[tuple[str, int], Sending] = {}  # by the broker's address
        self._failures = 0
        self.records = 0  # acknowledged
        self.bytes = 0

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    @property
    def is_idle(self) -> bool:
        return not any(queue.pending for queue in self._queues.values())

    def offer(self, sealed: Iterable[tuple[TopicPartition, FinishedBatch]]) -> None:
        """Queue these and send what can be sent; reads available responses, waits for none."""
        for partition, batch in sealed:
            queue = self._queues.setdefault(partition, Queue())
            if not queue.pending:
                queue.deadline = time.monotonic() + self._delivery_timeout_s
            queue.pending.append(batch)
        self._take_responses(timeout_s=0.0)
        self._send()

    def wait(self) -> None:
        """Until one more response has arrived, or nothing is left to wait for."""
        if self.is_idle:
            return
        self._send()
        if not self._under_way:
            # Every partition that has something to send failed a moment ago.
            soonest = min(queue.not_before for queue in self._queues.values() if queue.pending)
            time.sleep(max(soonest - time.monotonic(), 0.001))
        self._take_responses(timeout_s=self._cluster.settings.request_timeout_ms / 1000)
        self._send()

    def flush(self) -> None:
        """Until everything offered is acknowledged."""
        while not self.is_idle:
            self.wait()

    # -- out -------------------------------------------------------------------------------

    def _send(self) -> None:
        now = time.monotonic()
        ready: dict[tuple[str, int], list[TopicPartition]] = {}
        for partition, queue in self._queues.items():
            if not queue.pending or queue.busy or queue.not_before > now:
                continue
            leader = self._leader(partition, queue)
            if leader not in self._under_way:
                ready.setdefault(leader, []).append(partition)
        for leader, partitions in ready.items():
            self._send_to(leader, self._that_fit(partitions))

    def _leader(self, partition: TopicPartition, queue: Queue) -> tuple[str, int]:
        """Waits for a leader until the batch times out: nothing else can be done with it."""
        left_ms = max(int((queue.deadline - time.monotonic()) * 1000), 1)
        patience = Patience(left_ms, self._cluster.settings.retry_backoff_ms)
        return self._cluster.leader(*partition, patience).address

    def _connection(self, address: tuple[str, int]) -> BrokerConnection:
        if address not in self._connections:
            self._connections[address] = BrokerConnection(*address, self._cluster.settings)
        return self._connections[address]

    def _that_fit(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """As many as one request may carry; at least one."""
        taken: list[TopicPartition] = []
        size = 0
        for partition in partitions:
            size += len(self._queues[partition].pending[0].data)
            if taken and size > self._request_bytes_max:
                break
            taken.append(partition)
        return taken

    def _send_to(self, address: tuple[str, int], partitions: list[TopicPartition]) -> None:
        timeout_ms = self._cluster.settings.request_timeout_ms
        batches = {partition: self._queues[partition].pending[0].data for partition in partitions}
        pieces = messages.produce_request(self._transactional_id, self._acks, timeout_ms, batches)
        for partition in partitions:
            self._queues[partition].busy = True
        sending = Sending(address, partitions)
        try:
            self._connection(address).send(Api.PRODUCE, messages.VERSIONS[Api.PRODUCE], *pieces)
        except OSError as error:
            self._lost(sending, error)
            return
        self._under_way[address] = sending

    # -- in --------------------------------------------------------------------------------

    def _take_responses(self, timeout_s: float) -> None:
        if not self._under_way:
            return
        sockets = {self._connections[address].fileno(): address for address in self._under_way}
        readable, _, _ = select.select(list(sockets), [], [], timeout_s)
        if not readable and timeout_s:
            for sending in list(self._under_way.values()):
                self._lost(sending, TimeoutError(f"no answer for {timeout_s:g} s"))
        for number in readable:
            self._take_response(self._under_way[sockets[number]])

    def _take_response(self, sending: Sending) -> None:
        try:
            responses = messages.produced(self._connections[sending.address].receive())
        except OSError as error:
            self._lost(sending, error)
            return
        del self._under_way[sending.address]
        for partition in sending.partitions:
            self._judge(partition, responses.get(partition))

    def _judge(self, partition: TopicPartition, response: messages.Produced | None) -> None:
        queue = self._queues[partition]
        queue.busy = False
        if response is not None and response.error in (0, _HAD_IT):
            self._done(queue)
            return
        code = ErrorCode.UNKNOWN_SERVER_ERROR if response is None else response.error
        said = f" ({response.message})" if response is not None and response.message else ""
        refusal = Refused(f"{partition[0]}-{partition[1]} does not take a batch{said}", code)
        if not is_retriable(code) and code not in _RETRIED:
            raise refusal
        self._again(partition, queue, str(refusal))

    def _done(self, queue: Queue) -> None:
        batch = queue.pending.popleft()
        self.records += batch.records
        self.bytes += len(batch.data)
        self._failures = 0
        queue.deadline = time.monotonic() + self._delivery_timeout_s
        self._release(batch)

    def _lost(self, sending: Sending, error: OSError) -> None:
        """The connection cannot be used; whether the batches arrived is unknown, so they are sent again."""
        if sending.address in self._connections:
            self._connections.pop(sending.address).close()
        self._under_way.pop(sending.address, None)
        for partition in sending.partitions:
            queue = self._queues[partition]
            queue.busy = False
            self._again(partition, queue, f"{sending.address[0]}:{sending.address[1]}: {error}")

    def _again(self, partition: TopicPartition, queue: Queue, reason: str) -> None:
        self._check_deadline(partition, queue, reason)
        self._cluster.forget(*partition)
        self._failures += 1
        pause_s = min(self._cluster.settings.retry_backoff_ms / 1000, 0.02 * self._failures, _PAUSE_S_MAX)
        queue.not_before = time.monotonic() + pause_s

    def _check_deadline(self, partition: TopicPartition, queue: Queue, reason: str) -> None:
        if time.monotonic() >= queue.deadline:
            raise NotDelivered(
                f"{partition[0]}-{partition[1]} took nothing for {self._delivery_timeout_s:g} s "
                f"(kafka.delivery.timeout.ms); the last reason: {reason}"
            )


class NotDelivered(ClientError):
    """Retried until the timeout."""
