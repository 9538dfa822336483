"""A second client beside the load, without any back-off: is it the cluster that does not serve, or the client
that waits?

A Kafka client waits before it tries again: for a reconnect, for new metadata, for a broker that does not
answer. Its time without acknowledged writes is longer than that of the cluster. This client tries **every
broker** all the time, each over a connection of its own, so that one that hangs does not hold up the others.
A write goes through as soon as any broker takes it. A read counts if a broker names itself as the leader and
returns records. Owns the tries; their successes are the events ``plain-write`` and ``plain-read``, with
``sent_us`` as the moment since when it was tried. Its records are left out of accounts.
"""

import asyncio
import struct
import time

from tidelog.client import messages
from tidelog.client.apis import Api
from tidelog.lab.history import HistoryWriter, now_us
from tidelog.lab.load import value_of
from tidelog.lab.workload import plain_wire
from tidelog.lab.workload.jobs import PLAIN_PRODUCER, Job
from tidelog.lab.workload.progress import Reporter

PARTITIONS_MAX = 8  # that are watched; more would be a load of their own
HEALTHY_S = 0.05  # between two tries while they succeed
TRYING_S = 0.02  # while none does
IDLE_S = 0.2  # between two looks at a broker that does not lead
CONNECT_S = 0.5
RESPONSE_S = 1.0  # then the connection is given up
_OUT_OF_RANGE = 1  # the log begins later: answered all the same


class Wire:
    """One connection, one request at a time."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._count = 0

    async def call(self, api: int, version: int, body: bytes) -> memoryview:
        """The body of the response; OSError or TimeoutError, and the connection is gone."""
        try:
            # Not wait_for: Python 3.11's forgets a cancellation that comes together with the result.
            if self._streams is None:
                async with asyncio.timeout(CONNECT_S):
                    self._streams = await asyncio.open_connection(*self._address)
            async with asyncio.timeout(RESPONSE_S):
                return await self._exchange(*self._streams, api, version, body)
        except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
            self.close()
            raise ConnectionError(str(error)) from error

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None

    async def _exchange(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, api: int, version: int, body: bytes
    ) -> memoryview:
        self._count += 1
        head = struct.pack(">hhih", api, version, self._count, len(PLAIN_PRODUCER)) + PLAIN_PRODUCER.encode()
        writer.write(struct.pack(">i", len(head) + len(body)) + head + body)
        size, _ = struct.unpack(">ii", await reader.readexactly(8))
        return memoryview(await reader.readexactly(size - 4))


class Served:
    """When a partition last took a write, or returned a record, from whichever broker, and since when it is
    tried in vain.
    """

    def __init__(self) -> None:
        self.at = 0.0
        self.by = -1
        self.tried_us: int | None = None

    def trying(self, broker: int) -> int:
        """A try begins; since when there was no success."""
        now = now_us()
        if self.tried_us is None and self.by in (broker, -1):
            self.tried_us = now
        return now

    def succeeded(self, broker: int, began_us: int) -> int:
        """Since when it was tried."""
        since = began_us if self.tried_us is None else min(self.tried_us, began_us)
        self.at, self.by, self.tried_us = time.monotonic(), broker, None
        return since

    def failed(self, broker: int) -> None:
        if self.by == broker:
            self.by = -1

    def pause_s(self, broker: int, share: float) -> float:
        """Before the next try with this broker."""
        if self.by == broker:
            return HEALTHY_S * share
        is_served = time.monotonic() - self.at < 3 * HEALTHY_S * share
        return IDLE_S * share if is_served else TRYING_S * share


class PlainClient:
    def __init__(self, job: Job, history: HistoryWriter) -> None:
        self._job, self._history = job, history
        self._acks = plain_wire.ACKS.get(job.load.acks if job.load else "all", -1)
        step = max(job.partitions // PARTITIONS_MAX, 1)
        self._partitions = list(range(0, job.partitions, step))[:PARTITIONS_MAX]
        self._share = max(len(self._partitions) / 3, 1.0)  # the more there are, the less often each
        self._sequence = 0

    async def run(self, reporter: Reporter) -> None:
        brokers = await self._brokers(reporter)
        tasks = []
        for partition in self._partitions:
            writes, reads = Served(), Served()
            for broker, address in brokers.items():
                tasks.append(asyncio.create_task(self._write_all(partition, broker, Wire(address), writes)))
                tasks.append(asyncio.create_task(self._read_all(partition, broker, Wire(address), reads)))
        while not reporter.is_stopping:
            await asyncio.sleep(0.05)
            reporter.tell()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _brokers(self, reporter: Reporter) -> dict[int, tuple[str, int]]:
        body = messages.metadata_request([self._job.topic])
        while not reporter.is_stopping:
            for address in self._job.bootstrap.split(","):
                host, _, port = address.rpartition(":")
                wire = Wire((host, int(port)))
                try:
                    found = messages.metadata(await wire.call(Api.METADATA, messages.METADATA_VERSION, body))
                except ConnectionError:
                    continue
                finally:
                    wire.close()
                if found.brokers:
                    return found.brokers
            await asyncio.sleep(TRYING_S)
        return {}

    async def _write_all(self, partition: int, broker: int, wire: Wire, served: Served) -> None:
        while True:
            began_us = served.trying(broker)
            if await self._write(partition, wire):
                since = served.succeeded(broker, began_us)
                self._history.add("plain-write", now_us(), partition=partition, broker=broker, sent_us=since)
            else:
                served.failed(broker)
            await asyncio.sleep(served.pause_s(broker, self._share))

    async def _write(self, partition: int, wire: Wire) -> bool:
        self._sequence += 1
        records = plain_wire.batch(value_of(PLAIN_PRODUCER, self._sequence, 0), int(time.time() * 1000))
        body = plain_wire.produce_request(
            self._job.topic, partition, records, self._acks, int(RESPONSE_S * 1000)
        )
        try:
            error, _ = plain_wire.produced(await wire.call(Api.PRODUCE, plain_wire.PRODUCE_VERSION, body))
        except ConnectionError:
            return False
        return error == 0

    async def _read_all(self, partition: int, broker: int, wire: Wire, served: Served) -> None:
        while True:
            began_us = served.trying(broker)
            if await self._read(partition, broker, wire):
                since = served.succeeded(broker, began_us)
                self._history.add("plain-read", now_us(), partition=partition, broker=broker, sent_us=since)
            else:
                served.failed(broker)
            await asyncio.sleep(served.pause_s(broker, self._share))

    async def _read(self, partition: int, broker: int, wire: Wire) -> bool:
        topic = self._job.topic
        start = self._job.starts[partition] if partition < len(self._job.starts) else 0
        body = messages.metadata_request([topic])
        wanted = messages.fetch_request(
            topic, partition, start, max_bytes=1, max_wait_ms=0, min_bytes=0, read_committed=False, rack=""
        )
        try:
            found = messages.metadata(await wire.call(Api.METADATA, messages.METADATA_VERSION, body))
            known = found.topics[topic].partitions.get(partition) if topic in found.topics else None
            if known is None or known.leader != broker:
                return False
            fetched = messages.fetched(await wire.call(Api.FETCH, messages.FETCH_VERSION, wanted))
        except ConnectionError:
            return False
        return fetched.error == _OUT_OF_RANGE or (fetched.error == 0 and len(fetched.records) > 0)


def run(job: Job, history: HistoryWriter, reporter: Reporter) -> None:
    asyncio.run(PlainClient(job, history).run(reporter))
