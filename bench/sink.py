"""The ceiling: a server that does the least a Kafka client accepts.

Reads whole frames on one uvloop event loop, looks at the batch header, throws the records away and
acknowledges at once; answers fetches with the same batch over and over from memory. No CRC, no file, no state
but a counter per partition. What it reaches is what the client, the loopback interface and the event loop
allow, so a broker's share of it tells how much the broker itself costs.

Run as ``python -m bench.sink --port PORT --partitions P --value-size BYTES``; prints ``ready`` when it
listens.
"""

import argparse
import asyncio
import time
from collections import defaultdict
from struct import Struct, pack, pack_into
from typing import cast

import uvloop

from bench import wire

_FRAME_HEAD = Struct(">ihhi")  # length, api key, api version, correlation id
_I16 = Struct(">h")
_I32 = Struct(">i")
BUFFER_SIZE = 4 << 20
FETCHED_BATCH_BYTES = 1_000_000
ENDLESS = 1 << 60  # high watermark of a partition that never ends


class FetchSource:
    """The one batch that every fetch gets, with the base offset that the consumer asked for."""

    def __init__(self, value_size: int) -> None:
        self.count = max(1, FETCHED_BATCH_BYTES // (value_size + 10))
        value = b"x" * value_size
        self._batch = bytearray(wire.batch_of(value, self.count, int(time.time() * 1000)))

    def batch_at(self, offset: int) -> bytes:
        pack_into(">q", self._batch, 0, offset - offset % self.count)
        # A copy, because the transport may still hold the previous answer when the next offset is patched in.
        return bytes(self._batch)


class SinkProtocol(asyncio.BufferedProtocol):
    """One connection: fills one buffer, answers every whole frame in it, keeps the partial rest."""

    def __init__(self, host: str, port: int, partitions: int, source: FetchSource) -> None:
        self._host, self._port, self._partitions, self._source = host, port, partitions, source
        self._buffer = bytearray(BUFFER_SIZE)
        self._view = memoryview(self._buffer)
        self._start = 0  # first byte not yet answered
        self._end = 0  # first byte not yet received
        self._next_offset: dict[bytes, int] = defaultdict(int)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._view[self._end :]

    def buffer_updated(self, nbytes: int) -> None:
        self._end += nbytes
        answers: list[bytes] = []
        while self._end - self._start >= 4:
            size = 4 + _I32.unpack_from(self._buffer, self._start)[0]
            if self._end - self._start < size:
                self._make_room(size)
                break
            self._answer(self._start, size, answers)
            self._start += size
        if self._start == self._end:
            self._start = self._end = 0
        elif self._end == len(self._buffer):
            self._make_room(len(self._buffer))
        if answers:
            self._transport.writelines(answers)

    def _make_room(self, size: int) -> None:
        """Move a partial frame to the front when its rest would not fit behind it."""
        if self._start + size <= len(self._buffer):
            return
        rest = bytes(self._view[self._start : self._end])
        if size > len(self._buffer):
            self._buffer = bytearray(size)
            self._view = memoryview(self._buffer)
        self._buffer[: len(rest)] = rest
        self._start, self._end = 0, len(rest)

    def _answer(self, at: int, size: int, answers: list[bytes]) -> None:
        buffer = self._buffer
        _, api_key, version, correlation_id = _FRAME_HEAD.unpack_from(buffer, at)
        body = at + 14 + max(0, _I16.unpack_from(buffer, at + 12)[0])  # behind the client id
        if api_key == wire.PRODUCE:
            self._answer_produce(correlation_id, body, answers)
        elif api_key == wire.FETCH:
            self._answer_fetch(correlation_id, body, answers)
        elif api_key == wire.METADATA:
            topics = _strings(buffer, body)
            answers.append(
                wire.metadata_response(correlation_id, self._host, self._port, topics, self._partitions)
            )
        elif api_key == wire.API_VERSIONS:
            answers.append(wire.api_versions_response(correlation_id, version))
        else:
            self._transport.close()

    def _answer_produce(self, correlation_id: int, at: int, answers: list[bytes]) -> None:
        """Clients of the bench send one partition per request, as librdkafka does."""
        buffer = self._buffer
        at += 2 + max(0, _I16.unpack_from(buffer, at)[0])  # transactional id
        acks = _I16.unpack_from(buffer, at)[0]
        at += 2 + 4 + 4  # acks, timeout, topic count
        name_size = _I16.unpack_from(buffer, at)[0]
        topic = bytes(buffer[at + 2 : at + 2 + name_size])
        at += 2 + name_size + 4
        partition = _I32.unpack_from(buffer, at)[0]
        count = _I32.unpack_from(buffer, at + 8 + wire.RECORD_COUNT_AT)[0]
        key = b"%b-%d" % (topic, partition)
        base_offset = self._next_offset[key]
        self._next_offset[key] = base_offset + count
        if acks:
            answers.append(wire.produce_response(correlation_id, topic.decode(), partition, base_offset))

    def _answer_fetch(self, correlation_id: int, at: int, answers: list[bytes]) -> None:
        """Serves the first partition asked for; the consume bench reads one."""
        buffer = self._buffer
        at += (
            4 + 4 + 4 + 4 + 1 + 4 + 4
        )  # replica, wait, min bytes, max bytes, isolation, session id and epoch
        if not _I32.unpack_from(buffer, at)[0]:
            answers.append(wire.frame(pack(">iihii", correlation_id, 0, 0, 0, 0)))
            return
        name_size = _I16.unpack_from(buffer, at + 4)[0]
        topic = bytes(buffer[at + 6 : at + 6 + name_size])
        at += 6 + name_size + 4
        partition = _I32.unpack_from(buffer, at)[0]
        offset = int.from_bytes(buffer[at + 8 : at + 16], "big")
        batch = self._source.batch_at(offset)
        answers.append(wire.fetch_partition_head(correlation_id, topic, partition, ENDLESS, len(batch)))
        answers.append(batch)


def _strings(buffer: bytearray, at: int) -> list[str]:
    count = _I32.unpack_from(buffer, at)[0]
    at += 4
    out = []
    for _ in range(max(0, count)):
        size = _I16.unpack_from(buffer, at)[0]
        out.append(buffer[at + 2 : at + 2 + size].decode())
        at += 2 + size
    return out


async def serve(host: str, port: int, partitions: int, value_size: int) -> None:
    source = FetchSource(value_size)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: SinkProtocol(host, port, partitions, source), host, port)
    print("ready", flush=True)
    await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--partitions", type=int, default=12)
    parser.add_argument("--value-size", type=int, default=1000)
    options = parser.parse_args()
    uvloop.run(serve(options.host, options.port, options.partitions, options.value_size))


if __name__ == "__main__":
    main()
