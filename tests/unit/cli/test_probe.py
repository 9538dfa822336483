"""Asking a port whether a broker is there."""

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tidelog.cli.probe import first_open, is_free, is_ready, parse_bootstrap


@contextmanager
def server_that_answers(*answers: bytes) -> Iterator[int]:
    """A server that reads each request whole and sends the next answer as it is, then closes."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                for answer in answers:
                    (size,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
                    connection.recv(size, socket.MSG_WAITALL)
                    connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield int(listener.getsockname()[1])
        thread.join(10)


def framed(body: bytes, correlation_id: int = 1) -> bytes:
    return struct.pack(">ii", len(body) + 4, correlation_id) + body


API_VERSIONS = framed(struct.pack(">hi", 0, 0))


def metadata(controller: int) -> bytes:
    broker = struct.pack(">ih4sih", 1, 4, b"host", 9092, -1)
    return framed(struct.pack(">ii", 0, 1) + broker + struct.pack(">h2sii", 2, b"id", controller, 0))


def test_a_broker_with_a_controller_is_ready() -> None:
    with server_that_answers(API_VERSIONS, metadata(controller=1)) as port:
        assert is_ready("127.0.0.1", port)


@pytest.mark.parametrize(
    "answers",
    [
        (API_VERSIONS, metadata(controller=-1)),
        (framed(struct.pack(">hi", 35, 0)),),
        (),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n",),
        (framed(b"\x00\x00", correlation_id=2),),
        (struct.pack(">ii", -1, 1),),
        (API_VERSIONS, framed(b"\x00" * 6)),
        (API_VERSIONS, metadata(controller=1)[:-6]),
    ],
    ids=["no controller", "error", "closed", "http", "other request", "length", "short", "torn"],
)
def test_anything_else_is_not_ready(answers: tuple[bytes, ...]) -> None:
    with server_that_answers(*answers) as port:
        assert not is_ready("127.0.0.1", port)


def test_a_port_is_free_until_somebody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()
        assert not is_free(*address)
        assert first_open([("127.0.0.1", 1), address], 5) is None
    assert is_free(*address)
    assert isinstance(first_open([address], 5), ConnectionRefusedError)


@pytest.mark.parametrize("text", ["", "localhost", "localhost:", ":9092", "host:0", "host:65536", "a:1,b"])
def test_addresses_need_host_and_port(text: str) -> None:
    with pytest.raises(ValueError, match="is not an address"):
        parse_bootstrap(text)


def test_several_addresses_and_ipv6() -> None:
    assert parse_bootstrap("a:1, [::1]:2") == [("a", 1), ("::1", 2)]
