"""Responses that become ready while a node's requests are handled leave together."""

import socket
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tidelog.protocol import fetch, produce
from tidelog.runtime import gathering as gathering_module
from tidelog.runtime.connection import Connection
from tidelog.runtime.gathering import SLICE_S, Gathering
from tidelog.runtime.sender import Sender
from unit.protocol.test_produce_shape import frame_of
from unit.runtime.test_write_order import World

PRODUCE, FETCH = produce.API_KEY, fetch.API_KEY


class Client:
    def __init__(self, gathering: Gathering, others: "list[Client] | None" = None) -> None:
        self.sent = 0
        self._gathering = gathering
        self._others = others or []

    def send_ready(self) -> None:
        self.sent += 1
        for other in self._others:
            assert not self._gathering.takes(other)
            other.send_ready()


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """It stands still unless a test moves it: on a busy machine, a traceback in the log takes a slice."""
    found = [100.0]
    monkeypatch.setattr(gathering_module, "monotonic", lambda: found[0])
    return found


def fail(callback: Callable[[], None]) -> None:
    raise AssertionError("nothing is left for the next turn")


def test_each_connection_sends_once_at_the_end_of_all() -> None:
    gathering = Gathering(fail)
    one, two = Client(gathering), Client(gathering)
    assert not gathering.takes(one)
    gathering.begin()
    gathering.begin()
    assert gathering.takes(one)
    assert gathering.takes(one)
    gathering.end()
    assert (one.sent, two.sent) == (0, 0)
    assert gathering.takes(two)
    gathering.end()
    assert (one.sent, two.sent) == (1, 1)
    gathering.begin()
    gathering.end()
    assert (one.sent, two.sent) == (1, 1)


def test_what_becomes_ready_at_the_end_is_sent_then() -> None:
    gathering = Gathering(fail)
    second = Client(gathering)
    first = Client(gathering, [second])
    gathering.begin()
    assert gathering.takes(first)
    gathering.end()
    assert (first.sent, second.sent) == (1, 1)


def test_what_takes_long_goes_on_in_the_next_turn(clock: list[float]) -> None:
    """A commit may complete a request of each of thousands of connections."""
    soon = list[Callable[[], None]]()
    gathering = Gathering(soon.append)

    class Slow(Client):
        def send_ready(self) -> None:
            super().send_ready()
            clock[0] += SLICE_S * 0.51

    clients = [Slow(gathering) for _ in range(5)]
    gathering.begin()
    for client in clients:
        assert gathering.takes(client)
    gathering.end()
    assert [client.sent for client in clients] == [1, 1, 0, 0, 0]
    assert len(soon) == 1
    gathering.begin()
    assert gathering.takes(clients[4])
    gathering.end()
    assert [client.sent for client in clients] == [1, 1, 1, 1, 0]
    (go_on,) = soon
    go_on()
    assert [client.sent for client in clients] == [1, 1, 1, 1, 1]


def test_a_connection_that_breaks_keeps_no_other_waiting() -> None:
    class Broken(Client):
        def send_ready(self) -> None:
            raise RuntimeError("broken")

    gathering = Gathering(list[Callable[[], None]]().append)
    broken, sound = Broken(gathering), Client(gathering)
    gathering.begin()
    assert gathering.takes(broken)
    assert gathering.takes(sound)
    gathering.end()
    assert sound.sent == 1


@pytest.fixture
def worlds() -> Iterator[tuple[World, World]]:
    """A client's connection and a node's, of one server."""
    found, ends = [], []
    for _ in range(2):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            theirs = socket.create_connection(listener.getsockname())
            ours, _ = listener.accept()
        ours.setblocking(False)
        ends += [ours, theirs]
        found.append(World(ours))
    client, node = found
    node.connection._server = client.connection._server
    node.connection.node = 2
    yield client, node
    for world in found:
        world.connection.connection_lost(None)
    for end in ends:
        end.close()


def test_a_commit_that_answers_many_requests_sends_once(
    worlds: tuple[World, World], monkeypatch: pytest.MonkeyPatch
) -> None:
    client, node = worlds
    sends: list[tuple[Sender, list[Any]]] = []
    monkeypatch.setattr(Sender, "send", lambda sender, parts: sends.append((sender, list(parts))))
    client.ask(PRODUCE, PRODUCE, PRODUCE)

    def acknowledge(request: object, at: int, context: object, send: Any, *_: object) -> None:
        for place in range(3):
            client.answer(place)
        assert not sends
        send([b"f"])

    node.connection._server.fetch = SimpleNamespace(handle=acknowledge)  # type: ignore[assignment]
    node.ask(FETCH)
    assert sends == [(client.connection._sender, [b"x"] * 3), (node.connection._sender, [b"f"])]


def test_alone_a_response_leaves_at_once(
    worlds: tuple[World, World], monkeypatch: pytest.MonkeyPatch
) -> None:
    client, _ = worlds
    sends: list[list[Any]] = []
    monkeypatch.setattr(Sender, "send", lambda sender, parts: sends.append(list(parts)))
    client.ask(PRODUCE, PRODUCE)
    client.answer(0)
    client.answer(1)
    assert sends == [[b"x"], [b"x"]]


class Producing:
    """Notes which requests are parsed and which are taken as repeated."""

    def __init__(self) -> None:
        self.parsed: list[int] = []
        self.repeated: list[tuple[int, bytes]] = []

    def handle(
        self, frame: memoryview, position: int, context: Any, send: Any, asker: object
    ) -> produce.Shape | None:
        request = produce.decode(frame, position, context.version)
        [(key, [(index, records)])] = request.topics
        self.parsed.append(index)
        send(b"x")
        assert records is not None
        return produce.Shape(frame, records, context.version, request.acks, request.timeout_ms, key, index)

    def handle_repeated(
        self, shape: produce.Shape, records: memoryview, context: Any, send: Any, asker: object
    ) -> None:
        assert context.version == shape.version
        self.repeated.append((shape.index, bytes(records)))
        send(b"x")


def ask(connection: Connection, frame: memoryview) -> None:
    data = len(frame).to_bytes(4, "big") + bytes(frame)
    connection.get_buffer(-1)[: len(data)] = data
    connection.buffer_updated(len(data))


def test_partitions_that_take_turns_are_parsed_once(
    worlds: tuple[World, World], monkeypatch: pytest.MonkeyPatch
) -> None:
    connection, producing = worlds[0].connection, Producing()
    monkeypatch.setattr(connection._server, "produce", producing)
    for turn in range(3):
        for index in (3, 4, 5):
            ask(connection, frame_of(7, b"%d" % turn, index=index))
    assert producing.parsed == [3, 4, 5]
    assert producing.repeated == [(index, b"%d" % turn) for turn in (1, 2) for index in (3, 4, 5)]
    ask(connection, frame_of(8, b"v", index=3))  # The same bytes in another version.
    ask(connection, frame_of(7, b"v", index=4, topic="orderz"))
    assert producing.parsed == [3, 4, 5, 3, 4]
    connection.forget_client()
    ask(connection, frame_of(7, b"v", index=5))
    assert producing.parsed == [3, 4, 5, 3, 4, 5]


def test_another_client_id_takes_no_known_shape(
    worlds: tuple[World, World], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shape names no client: the request would count towards the quotas of the last one."""
    connection, producing = worlds[0].connection, Producing()
    server = connection._server
    monkeypatch.setattr(server, "produce", producing)
    monkeypatch.setattr(server, "metered", True)
    used = {"a": 0, "b": 0}

    def meter_of(last: Any, principal: object, client_id: str) -> Any:
        if last is not None and last.client_id == client_id:
            return last

        def taken(*_: object) -> int:
            used[client_id] += 1
            return 0

        return SimpleNamespace(client_id=client_id, taken=taken, answered=lambda slot, parts: (parts, 0))

    monkeypatch.setattr(server, "metering", SimpleNamespace(meter_of=meter_of), raising=False)
    for client, index in (("a", 3), ("b", 4), ("a", 3), ("a", 3)):
        ask(connection, frame_of(7, b"v", index=index, client=client))
    assert producing.parsed == [3, 4, 3]
    assert used == {"a": 3, "b": 1}
