"""A read waits for the writes that came before it on its connection; writes of one kind do not."""

import asyncio
import socket
from collections.abc import Callable, Iterator
from struct import pack
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tidelog.broker.registry import SERVED
from tidelog.broker.requests.request import RequestContext
from tidelog.protocol import fetch, messages, produce
from tidelog.runtime.connection import Connection, _new_context
from tidelog.runtime.gathering import Gathering
from tidelog.runtime.traffic import Reads, RequestTimes
from tidelog.runtime.write_order import NO_KIND, PIPELINED, WRITES, kind_that_passes
from tidelog.security.principal import ANONYMOUS
from unit.runtime.no_logins import NO_LOGINS

READS = {
    "fetch", "list_offsets", "metadata", "offset_fetch", "find_coordinator", "api_versions",
    "offset_for_leader_epoch", "describe_groups", "list_groups", "describe_configs", "describe_log_dirs",
    "describe_producers", "describe_transactions", "list_transactions", "describe_cluster", "describe_quorum",
    "describe_topic_partitions", "list_partition_reassignments", "consumer_group_describe",
    "list_config_resources", "describe_acls", "describe_client_quotas", "describe_user_scram_credentials",
    # They wait for other members; only descriptions of groups wait for them.
    "join_group", "sync_group", "heartbeat",
    # Always refused, so they change nothing.
    "create_delegation_token", "renew_delegation_token", "expire_delegation_token",
    "describe_delegation_token",
    # Between nodes, which recognise answers by their number.
    "allocate_producer_ids",
    # Handled where connections log in.
    "sasl_handshake", "sasl_authenticate",
}  # fmt: skip


def test_every_api_is_a_read_or_a_write() -> None:
    served = {messages.name_of(key) for key in SERVED}
    writes = {messages.name_of(key) for key in WRITES}
    assert served - writes == READS & served
    assert len(writes) == 28


def test_only_some_writes_are_pipelined() -> None:
    for api_key in WRITES:
        assert kind_that_passes(api_key) == (api_key if api_key in PIPELINED else NO_KIND)


class Transport:
    """Takes nothing from the loop: the test hands the bytes over."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self.reads = True

    def get_extra_info(self, name: str) -> Any:
        return ("client", 1) if name == "peername" else self._socket

    def set_write_buffer_limits(self, high: int) -> None: ...

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True


class World:
    """A connection whose handlers do nothing until the test answers for them."""

    def __init__(self, ours: socket.socket) -> None:
        self.taken: list[tuple[int, Callable[[Any], None]]] = []  # api key, and how to answer
        self._later: list[Callable[[], None]] = []
        self._number = 0
        server = SimpleNamespace(
            logins=NO_LOGINS,
            max_request_bytes=1 << 20, max_unanswered=100, requests=0, gate=None, ready=True, metered=False,
            times=RequestTimes(), gathering=Gathering(lambda callback: None), reads=Reads(),
            turn=SimpleNamespace(is_spent=lambda now_s: False),
            hot_turns=SimpleNamespace(must_wait=lambda now_s: False),
            loop=SimpleNamespace(time=lambda: 0.0, call_soon=self._later.append),
            broker=SimpleNamespace(services=None),
            admit=lambda connection: "", forget=lambda connection: None, client_memory=None,
            produce=SimpleNamespace(handle=lambda request, at, context, send, asker: self._take(0, send)),
            encode=None, compute=None,
            fetch=SimpleNamespace(
                handle=lambda request, at, context, send, *_: self._take(1, lambda _: send([b"f"]))
            ),
        )  # fmt: skip
        self.connection = Connection(cast(Any, server))
        self.transport = Transport(ours)
        self.connection.connection_made(cast(asyncio.Transport, self.transport))

    def _take(self, api_key: int, answer: Callable[[Any], None]) -> None:
        self.taken.append((api_key, answer))

    def ask(self, *api_keys: int) -> None:
        frames = b""
        for api_key in api_keys:
            self._number += 1
            body = pack(">hhih", api_key, 9 if api_key == produce.API_KEY else 12, self._number, -1) + b"\0"
            frames += pack(">i", len(body)) + body
        self.connection.get_buffer(-1)[: len(frames)] = frames
        self.connection.buffer_updated(len(frames))

    def answer(self, place: int) -> None:
        self.taken[place][1](b"x")

    def run(self) -> None:
        while self._later:
            self._later.pop(0)()

    @property
    def kinds(self) -> list[int]:
        return [api_key for api_key, _ in self.taken]


@pytest.fixture
def world() -> Iterator[World]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        theirs = socket.create_connection(listener.getsockname())
        ours, _ = listener.accept()
    with ours, theirs:
        ours.setblocking(False)
        found = World(ours)
        yield found
        found.connection.connection_lost(None)


PRODUCE, FETCH = produce.API_KEY, fetch.API_KEY


def test_a_read_waits_until_the_last_write_is_answered(world: World) -> None:
    world.ask(PRODUCE, PRODUCE, FETCH, PRODUCE)
    assert world.kinds == [PRODUCE, PRODUCE]
    assert not world.transport.reads
    world.answer(1)
    world.run()
    assert world.kinds == [PRODUCE, PRODUCE]
    world.answer(0)
    world.run()
    assert world.kinds == [PRODUCE, PRODUCE, FETCH, PRODUCE]
    assert world.transport.reads


def test_reads_hold_nobody_back(world: World) -> None:
    world.ask(FETCH, FETCH, PRODUCE, PRODUCE)
    assert world.kinds == [FETCH, FETCH, PRODUCE, PRODUCE]


def test_a_write_that_is_answered_holds_nobody_back(world: World) -> None:
    world.ask(FETCH, PRODUCE)
    world.answer(1)  # Its answer waits for the fetch's, but it is done.
    world.ask(FETCH)
    assert world.kinds == [FETCH, PRODUCE, FETCH]
    world.ask(PRODUCE, FETCH)
    assert world.kinds == [FETCH, PRODUCE, FETCH, PRODUCE]


def test_a_read_behind_writes_that_were_answered_at_once(world: World) -> None:
    take = world._take

    def take_and_answer(api_key: int, answer: Callable[[Any], None]) -> None:
        take(api_key, answer)
        answer(b"x")

    world._take = take_and_answer  # type: ignore[method-assign]
    world.ask(PRODUCE, FETCH, PRODUCE, FETCH)
    assert world.kinds == [PRODUCE, FETCH, PRODUCE, FETCH]


def test_a_request_whose_records_are_looked_at_is_not_overtaken(world: World) -> None:
    take = world._take

    def take_and_hold(api_key: int, answer: Callable[[Any], None]) -> None:
        take(api_key, answer)
        world.connection.hold()

    world._take = take_and_hold  # type: ignore[method-assign]
    world.ask(PRODUCE, PRODUCE)
    assert len(world.taken) == 1
    assert not world.transport.reads
    world.connection.resume()
    assert len(world.taken) == 2
    world.answer(0)  # That one is answered does not mean that the other one was looked at.
    world.run()
    assert not world.transport.reads
    world.connection.resume()
    assert world.transport.reads


def test_the_context_that_is_made_in_a_hurry_has_every_field() -> None:
    plain = RequestContext(0, 9, 7, None, "peer")
    assert _new_context((0, 9, 7, None, "peer", 0, None, ANONYMOUS, "", False)) == plain
    assert len(plain) == len(RequestContext._fields)
