"""Connections that mean no good, each in its own way, until standard input ends.

``python -m bench.fuzzing.hostiles SEED COUNT ADDRESS...``: a process of its own, so that its processor time
is known. Each way is paced: the question is what a connection costs the broker, not how fast a client can be.
"""

import asyncio
import contextlib
import itertools
import random
import struct
import sys
from collections.abc import Awaitable, Callable, Sequence

from bench.fuzzing.frames import Frames

RECONNECT_S = 0.5
PACE_S = 0.2
ANNOUNCED_BYTES = 4_000_000
_START = struct.Struct(">ihhih")  # size, api key, version, correlation id, no client id
PRODUCE = struct.pack(">ihh", ANNOUNCED_BYTES, 0, 9)
ALL_TOPICS = _START.pack(17, 3, 8, 1, -1) + struct.pack(">i???", -1, False, False, False)
VERSIONS = _START.pack(10, 18, 0, 1, -1)

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Way = Callable[[asyncio.StreamReader, asyncio.StreamWriter, Frames], Awaitable[None]]


async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, frames: Frames) -> None:
    """A large request, byte by byte."""
    writer.write(PRODUCE)
    while not reader.at_eof():
        writer.write(b"\x00")
        await writer.drain()
        await asyncio.sleep(PACE_S)


async def claim(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, frames: Frames) -> None:
    """The beginning of a large request, and nothing more."""
    writer.write(PRODUCE)
    await reader.read()


async def garbage(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, frames: Frames) -> None:
    """Requests of all kinds, most of them broken."""
    while not reader.at_eof():
        writer.write(frames.stream(5))
        await writer.drain()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PACE_S):
                await reader.read(65_536)


async def unread(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, frames: Frames) -> None:
    """Many requests with large responses, which it does not read."""
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    while True:
        writer.write(ALL_TOPICS * 20)
        async with asyncio.timeout(30):
            await writer.drain()
        await asyncio.sleep(PACE_S)


async def small(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, frames: Frames) -> None:
    """Many small requests in one piece."""
    while not reader.at_eof():
        writer.write(VERSIONS * 50)
        await writer.drain()
        await reader.read(65_536)
        await asyncio.sleep(PACE_S)


async def come_and_go(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, frames: Frames) -> None:
    """Connects again and again; what happens in between is the caller's."""


WAYS: Sequence[Way] = (drip, claim, garbage, unread, small, come_and_go)


async def behave(way: Way, address: tuple[str, int], seed: int) -> None:
    frames = Frames(seed)
    chance = random.Random(seed)
    while True:
        with contextlib.suppress(OSError, TimeoutError, ConnectionError):
            reader, writer = await asyncio.open_connection(*address)
            try:
                await way(reader, writer, frames)
            finally:
                writer.transport.abort()
        await asyncio.sleep(RECONNECT_S * (0.5 + chance.random()))


async def main(seed: int, count: int, addresses: Sequence[tuple[str, int]]) -> None:
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), lambda: ended.set() if not sys.stdin.read(1) else None)
    places = itertools.cycle(addresses)
    tasks = [
        asyncio.create_task(behave(WAYS[number % len(WAYS)], next(places), seed + number))
        for number in range(count)
    ]
    print("ready", flush=True)
    await ended.wait()
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks, timeout=5)


if __name__ == "__main__":
    told = [each.rpartition(":") for each in sys.argv[3:]]
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2]), [(host, int(port)) for host, _, port in told]))
