"""The relay between plain sockets: it is not noticed, until a line is cut."""

import contextlib
import hashlib
import random
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from tidelog.lab.local.broker import free_port
from tidelog.lab.network.process import RelayProcess
from tidelog.lab.network.shape import CLEAR, Shape

pytestmark = [pytest.mark.interop, pytest.mark.slow]

PATIENCE_S = 20.0
CUT = Shape(cut=True)


class Echo:
    """Sends back what it gets, and the end of it."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_server(("127.0.0.1", port))
        self._open: list[socket.socket] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        for each in [self._socket, *self._open]:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)  # a thread may wait for it
            each.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                self._open.append(connection)
                threading.Thread(target=self._echo, args=(connection,), daemon=True).start()

    def _echo(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := connection.recv(1 << 16):
                connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)


class Relayed:
    """One way from party 1 to the echo, which is party 2."""

    def __init__(self, silence_s: float | None = None) -> None:
        self.target, self.port = free_port(), free_port()
        self.echo = Echo(self.target)
        self.relay = RelayProcess()
        self.relay.link("1", "2", self.port, ("127.0.0.1", self.target), silence_s)

    def shape(self, there: Shape, back: Shape) -> None:
        self.relay.shape("1", "2", there)
        self.relay.shape("2", "1", back)

    def connect(self, timeout_s: float = PATIENCE_S) -> socket.socket:
        """As soon as the relay has seen that its target listens."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                return socket.create_connection(("127.0.0.1", self.port), timeout_s)
            except ConnectionRefusedError:
                assert time.monotonic() < deadline
                time.sleep(0.01)

    def close(self) -> None:
        self.echo.close()
        self.relay.close()


@pytest.fixture
def relayed() -> Iterator[Relayed]:
    made = Relayed()
    yield made
    made.close()


def exchange(connection: socket.socket, data: bytes) -> bytes:
    connection.sendall(data)
    return received(connection, len(data))


def received(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size and (more := connection.recv(1 << 16)):
        data += more
    return data


@pytest.mark.parametrize(
    "shape", [CLEAR, Shape(delay_ms=1), Shape(kbytes_per_s=20_000), Shape(loss_percent=1)]
)
def test_all_bytes_and_the_end_arrive_in_order(relayed: Relayed, shape: Shape) -> None:
    relayed.shape(shape, shape)
    data = random.Random(1).randbytes(3_000_000 if shape.is_clear else 400_000)
    with relayed.connect() as connection:

        def send() -> None:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)

        sender = threading.Thread(target=send)
        sender.start()
        found = received(connection, len(data))
        assert connection.recv(1) == b""
        sender.join()
    assert hashlib.sha256(found).digest() == hashlib.sha256(data).digest()


def test_a_shape_that_comes_and_goes_keeps_the_order(relayed: Relayed) -> None:
    data = random.Random(2).randbytes(2_000_000)
    with relayed.connect() as connection:
        sender = threading.Thread(target=lambda: connection.sendall(data))
        sender.start()
        found = received(connection, 100_000)
        for shape in (Shape(delay_ms=5), CLEAR, Shape(kbytes_per_s=5000), CUT, CLEAR):
            relayed.shape(shape, shape)
        found += received(connection, len(data) - len(found))
        sender.join()
    assert found == data


def test_a_cut_is_silence_and_healing_lets_the_bytes_go_on(relayed: Relayed) -> None:
    with relayed.connect() as connection:
        assert exchange(connection, b"before") == b"before"
        relayed.shape(CUT, CUT)
        connection.sendall(b"held")
        connection.settimeout(0.3)
        with pytest.raises(TimeoutError):
            connection.recv(1)
        with pytest.raises(TimeoutError):  # a new connection hangs
            socket.create_connection(("127.0.0.1", relayed.port), 0.3)
        relayed.shape(CLEAR, CLEAR)
        connection.settimeout(PATIENCE_S)
        assert received(connection, 4) == b"held"
        with relayed.connect() as another:
            assert exchange(another, b"new") == b"new"


def test_a_one_way_cut_stops_one_direction(relayed: Relayed) -> None:
    with relayed.connect() as connection:
        assert exchange(connection, b"before") == b"before"
        relayed.shape(CLEAR, CUT)
        connection.sendall(b"heard")
        connection.settimeout(0.3)
        with pytest.raises(TimeoutError):
            connection.recv(1)
        relayed.relay.shape("2", "1", CLEAR)
        connection.settimeout(PATIENCE_S)
        assert received(connection, 5) == b"heard"


def test_the_end_of_the_other_side_is_not_heard_through_a_cut(relayed: Relayed) -> None:
    with relayed.connect() as connection:
        assert exchange(connection, b"before") == b"before"
        relayed.shape(CUT, CUT)
        relayed.echo.close()
        connection.settimeout(0.3)
        with pytest.raises(TimeoutError):
            connection.recv(1)
        relayed.shape(CLEAR, CLEAR)
        connection.settimeout(PATIENCE_S)
        with contextlib.suppress(ConnectionResetError):
            assert connection.recv(1) == b""


def test_a_target_that_is_down_refuses_and_is_found_again(relayed: Relayed) -> None:
    relayed.connect().close()
    with relayed.connect() as connection:
        assert exchange(connection, b"before") == b"before"
        relayed.echo.close()
        with contextlib.suppress(ConnectionResetError):
            assert connection.recv(1) == b""
    deadline = time.monotonic() + PATIENCE_S
    with pytest.raises(ConnectionRefusedError):
        while time.monotonic() < deadline:
            with contextlib.suppress(ConnectionResetError):  # taken in, and closed in the same moment
                socket.create_connection(("127.0.0.1", relayed.port), 1).close()
    relayed.echo = Echo(relayed.target)
    with relayed.connect() as connection:
        assert exchange(connection, b"after") == b"after"


def test_a_long_cut_resets_connections_that_have_a_keep_alive() -> None:
    relayed = Relayed(silence_s=0.3)
    try:
        with relayed.connect() as connection:
            assert exchange(connection, b"before") == b"before"
            relayed.shape(CUT, CUT)
            with pytest.raises(ConnectionResetError):
                connection.recv(1)
    finally:
        relayed.close()
