"""One task's rows, from Arrow batches to acknowledged record batches.

Owns the loop: columns to rows, rows to open batches, full batches to brokers, and waiting only when there is
no room left. The producer and its transaction come from outside.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from tidelog.client.apis import Api
from tidelog.client.cluster import Cluster
from tidelog.client.errors import Refused
from tidelog.client.messages import TopicPartition
from tidelog.spark.writing import messages
from tidelog.spark.writing.columns import ColumnReader
from tidelog.spark.writing.encoder import Encoder, FinishedBatch, Producer
from tidelog.spark.writing.messages import ProducerId
from tidelog.spark.writing.sender import Sender
from tidelog.spark.writing.settings import WriterSettings

if TYPE_CHECKING:
    import pyarrow as pa

    from tidelog.spark.writing.kernel import Rows


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def idempotent_producer(cluster: Cluster) -> ProducerId:
    """A new producer id from any broker."""
    patience = cluster.patience()
    body = messages.init_producer_id_request(None, 60_000)
    while True:
        response = cluster.ask(Api.INIT_PRODUCER_ID, messages.VERSIONS[Api.INIT_PRODUCER_ID], body, patience)
        code, producer = messages.init_producer_id(response)
        if not code:
            return producer
        patience.pause(Refused("No producer id can be had", code))


class TaskWriter:
    """Writes for one producer. ``before_first`` is called with partitions before anything is sent to them."""

    def __init__(
        self,
        cluster: Cluster,
        settings: WriterSettings,
        producer: Producer,
        *,
        transactional_id: str | None = None,
        before_first: Callable[[list[TopicPartition]], None] | None = None,
    ) -> None:
        self._cluster = cluster
        self._columns = ColumnReader(settings.topic, settings.includes_headers, now_ms)
        self._encoder = Encoder(producer, settings.batch_bytes, settings.memory_bytes, settings.codec)
        self._sender = Sender(
            cluster,
            self._encoder.release,
            acks=settings.acks,
            transactional_id=transactional_id,
            delivery_timeout_ms=settings.delivery_timeout_ms,
            request_bytes_max=settings.request_bytes_max,
        )
        self._before_first = before_first
        self._partitions: list[TopicPartition] = []  # by slot
        self._met: set[TopicPartition] = set()
        self._known_topics = 0

    def write(self, batches: Iterable["pa.RecordBatch"]) -> int:
        """How many records were written and acknowledged."""
        try:
            for batch in batches:
                self._write_rows(self._columns.rows(batch), batch.num_rows)
            self._encoder.finish_all()
            self._hand_over()
            self._sender.flush()
            return self._sender.records
        finally:
            self._sender.close()

    @property
    def topics(self) -> list[str]:
        """The partitions that were written to."""
        return sorted({topic for topic, _ in self._met})

    def _write_rows(self, rows: "Rows", count: int) -> None:
        self._learn_topics()
        chosen = self._encoder.assign(rows, count)
        row = 0
        while (row := self._encoder.fill(rows, chosen, row, now_ms())) < count:
            self._make_room()
        self._hand_over()

    def _make_room(self) -> None:
        self._hand_over()
        if self._sender.is_idle:
            # All room is in open batches: there are more partitions than chunks.
            self._encoder.finish_all()
            self._hand_over()
        self._sender.wait()

    def _hand_over(self) -> None:
        sealed = list(self._with_partitions(self._encoder.take_finished()))
        fresh = [partition for partition, _ in sealed if partition not in self._met]
        if fresh:
            unique = list(dict.fromkeys(fresh))
            if self._before_first is not None:
                self._before_first(unique)
            self._met.update(unique)
        self._sender.offer(sealed)

    def _with_partitions(self, sealed: list[FinishedBatch]) -> Iterator[tuple[TopicPartition, FinishedBatch]]:
        for batch in sealed:
            yield self._partitions[batch.slot], batch

    def _learn_topics(self) -> None:
        fresh = self._columns.topics[self._known_topics :]
        if not fresh:
            return
        found = self._cluster.topics(fresh)
        for topic in fresh:
            count = len(found[topic].partitions)
            self._encoder.add_topic(count)
            self._partitions += [(topic, partition) for partition in range(count)]
        self._known_topics += len(fresh)
