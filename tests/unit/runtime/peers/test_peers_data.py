"""Records between nodes: large answers, from files and from memory, and many of them."""

import asyncio
import os
from pathlib import Path
from uuid import UUID

import pytest

from tidelog.broker.node.ports import NodeMessage
from tidelog.errors import ErrorCode
from tidelog.log.storage import Buffer, Region
from tidelog.replication.messages import Bytes, FetchAsk, FetchGot, FetchItem, FetchPart
from tidelog.runtime.disk import Disk
from unit.runtime.peers.loopback import LoopbackCluster, on_loop, until

TOPIC = UUID(int=0x7E5E)
MEGABYTE = 1 << 20


def ask(generation: int) -> FetchAsk:
    items = [FetchItem((TOPIC, index), 5, 100, 4, 7, 90) for index in range(10)]
    return FetchAsk(1, 77, generation, 0, items, [], 300, 64 * MEGABYTE)


def part(index: int, records: Bytes | Region) -> FetchPart:
    return FetchPart((TOPIC, index), 100, ErrorCode.NONE, 5, 2, 91, 7, records)


def data_of(message: NodeMessage) -> list[bytes]:
    assert isinstance(message, FetchGot)
    return [bytes(each.records.read()) for each in message.parts if each.records is not None]


@pytest.mark.parametrize("size", [0, 1, 16 * 1024, 64 * 1024 - 40, MEGABYTE, 10 * MEGABYTE])
@on_loop
async def test_answers_of_any_size_from_memory(size: int) -> None:
    data = os.urandom(size)
    async with LoopbackCluster(2) as (one, two):
        found: list[list[bytes]] = []
        one.on_message = lambda message: found.append(data_of(message))
        records = Bytes(data) if size else None
        got = FetchGot(2, 1, ErrorCode.NONE, [part(0, records)] if records else [])
        two.on_message = lambda message: two.peers.send(1, got)
        one.peers.send(2, ask(1))
        await until(lambda: found)
        assert found == [[data] if size else []]


@on_loop
async def test_answers_from_files(tmp_path: Path) -> None:
    path = tmp_path / "segment"
    data = os.urandom(12 * MEGABYTE)
    path.write_bytes(data)
    file = Disk().open(str(path))
    async with LoopbackCluster(2) as (one, two):
        found: list[list[bytes]] = []
        one.on_message = lambda message: found.append(data_of(message))
        regions = [Region(file, index * MEGABYTE + index, MEGABYTE) for index in range(10)]
        got = FetchGot(2, 1, ErrorCode.NONE, [part(index, region) for index, region in enumerate(regions)])
        two.on_message = lambda message: two.peers.send(1, got)
        one.peers.send(2, ask(1))
        await until(lambda: found)
        assert found == [[data[r.position : r.position + r.size] for r in regions]]


@on_loop
async def test_a_segment_that_was_cut_meanwhile_costs_the_connection_only(tmp_path: Path) -> None:
    """Truncation may take from under an answer what it was about to send."""
    path = tmp_path / "segment"
    path.write_bytes(b"x" * 1000)
    file = Disk().open(str(path))
    async with LoopbackCluster(2) as (one, two):
        got = FetchGot(2, 1, ErrorCode.NONE, [part(0, Region(file, 0, 2000))])
        two.on_message = lambda message: two.peers.send(1, got)
        one.peers.send(2, ask(1))
        await until(lambda: one.lost)
        assert one.received == []


@on_loop
async def test_received_records_stay_as_they_are_while_somebody_holds_them() -> None:
    """Buffers of large answers are used again, but not before everybody has let go."""
    async with LoopbackCluster(2) as (one, two):
        held: list[Buffer] = []
        seen: list[bytes] = []

        def take(message: NodeMessage) -> None:
            assert isinstance(message, FetchGot)
            records = message.parts[0].records
            assert records is not None
            if message.generation % 3 == 0:
                held.append(records.read())
            else:
                seen.append(bytes(records.read()[:10]))
            message.parts.clear()
            if message.generation < 30:
                one.peers.send(2, ask(message.generation + 1))

        def answer(message: NodeMessage) -> None:
            assert isinstance(message, FetchAsk)
            data = bytes([message.generation]) * (100_000 - 1000 * (message.generation % 7))
            two.peers.send(1, FetchGot(2, message.generation, ErrorCode.NONE, [part(0, Bytes(data))]))

        one.on_message = take
        two.on_message = answer
        one.peers.send(2, ask(1))
        await until(lambda: len(seen) + len(held) == 30)
        assert [set(bytes(view)) for view in held] == [{generation} for generation in range(3, 31, 3)]
        assert len({id(memoryview(view).obj) for view in held}) == len(held)


@pytest.mark.slow
@on_loop
async def test_a_slow_reader_costs_no_memory() -> None:
    """A follower that does not read holds back its own next questions, and nothing else."""
    async with LoopbackCluster(2) as (one, two):
        data = Bytes(os.urandom(2 * MEGABYTE))
        two.on_message = lambda message: two.peers.send(
            1,
            FetchGot(2, message.generation, ErrorCode.NONE, [part(0, data)]),  # type: ignore[union-attr]
        )
        one.peers.send(2, ask(1))
        await until(lambda: one.received)
        wire = one.peers.channel(2, "fetching")._connection
        assert wire is not None and wire._transport is not None
        wire._transport.pause_reading()
        for generation in range(2, 202):
            one.peers.send(2, ask(generation))
        await asyncio.sleep(0.2)
        assert len(two.received) < 100, "questions pile up at the leader's"
        wire._transport.resume_reading()
        await until(lambda: len(one.received) == 201)
