"""Handshakes that fail, stop or never begin: the reason is logged, and nothing else is disturbed."""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable

import pytest

from tidelog.runtime.peers.sockets import refuses_connections
from unit.runtime.tls.certificates import Made
from unit.runtime.tls.endpoints import Protocol, Server, run
from unit.runtime.tls.test_layer import client_context

KAFKA_REQUEST = bytes.fromhex("0000001a 0012 0003 00000001 0004") + b"test" + bytes(12)


def hello(made: Made) -> bytes:
    """The first bytes of a proper handshake."""
    outgoing = ssl.MemoryBIO()
    client = client_context(made).wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


async def link_of(server: Server) -> Protocol:
    """A connection that works. On a busy machine, a short deadline may end a handshake of ours, too."""
    while True:
        try:
            return await server.link()
        except ConnectionError:
            continue


async def is_served(server: Server) -> None:
    """Another connection works."""
    link = await link_of(server)
    assert link.sender is not None
    link.sender.send((b"echo",))
    assert await link.until(4) == b"echo"


Attack = Callable[[Server, Made], Awaitable[None]]


def handshake_with(certificate: str) -> Attack:
    async def attack(server: Server, made: Made) -> None:
        context = client_context(made)
        if certificate:
            issued = getattr(made, certificate)
            context.load_cert_chain(issued.certificate, issued.key)
        # With TLS 1.3 the client's handshake is complete before the server has seen its certificate.
        with pytest.raises((ssl.SSLError, ConnectionError)):
            reader, writer = await server.connect(context)
            writer.write(b"x")
            if not await reader.read(1):
                raise ConnectionResetError

    return attack


def old_version(version: ssl.TLSVersion) -> Attack:
    async def attack(server: Server, made: Made) -> None:
        context = client_context(made)
        context.set_ciphers("ALL:@SECLEVEL=0")
        with pytest.warns(DeprecationWarning):
            context.minimum_version = ssl.TLSVersion.TLSv1
            context.maximum_version = version
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await server.connect(context)

    return attack


def first_bytes(data: bytes) -> Attack:
    async def attack(server: Server, made: Made) -> None:
        reader, writer = await server.connect(None)
        writer.write(data)
        while await reader.read(100):
            pass  # An alert that says why, then the end.
        writer.close()

    return attack


async def ends_in_the_middle(server: Server, made: Made) -> None:
    _, writer = await server.connect(None)
    writer.write(hello(made)[:50])
    await writer.drain()
    writer.close()


async def resets(server: Server, made: Made) -> None:
    _, writer = await server.connect(None)
    raw = writer.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    writer.write(hello(made))
    writer.transport.abort()


@pytest.mark.parametrize(
    ("attack", "words"),
    [
        (handshake_with(""), "the client has no certificate"),
        (handshake_with("expired"), "the certificate is refused: certificate has expired"),
        (
            handshake_with("stranger"),
            "the certificate is refused: self-signed certificate",
        ),
        (old_version(ssl.TLSVersion.TLSv1_1), "a version of TLS that is not enabled"),
        (old_version(ssl.TLSVersion.TLSv1), "a version of TLS that is not enabled"),
        (first_bytes(KAFKA_REQUEST), "it did not begin with TLS"),
        (first_bytes(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"), "it did not begin with TLS but with HTTP"),
        (first_bytes(b"\x16\x03\x01\xff\xff" + bytes(70_000)), "failed"),
        (ends_in_the_middle, "the other side"),
        (resets, "failed"),
    ],
)
def test_it_is_closed_and_the_log_says_why(
    made: Made, caplog: pytest.LogCaptureFixture, attack: Attack, words: str
) -> None:
    async def main() -> None:
        async with Server(made.config(ssl_client_auth="required")) as server:
            before = await server.link()
            await attack(server, made)
            await server.until_failed()
            await is_served(server)
            assert before.sender is not None
            before.sender.send((b"echo",))
            assert await before.until(4) == b"echo"
            assert len(server.listener.handshakes) == 0
            assert server.listener.failures == 1

    caplog.set_level("INFO")
    run(main())
    (line,) = [record.getMessage() for record in caplog.records if "TLS handshake" in record.getMessage()]
    assert line.startswith("TLS handshake of peer at SSL failed: ")
    assert words in line


def test_a_version_that_is_switched_off_is_refused(made: Made) -> None:
    async def main() -> None:
        async with Server(made.config(ssl_enabled_protocols="TLSv1.3")) as server:
            with pytest.raises(ssl.SSLError):
                await server.connect(client_context(made, version=ssl.TLSVersion.TLSv1_2))
            await server.until_failed()
            await server.connect(client_context(made, version=ssl.TLSVersion.TLSv1_3))

    run(main())


@pytest.mark.parametrize("sent", [1, 50, -1])
def test_silence_ends_after_its_time(made: Made, caplog: pytest.LogCaptureFixture, sent: int) -> None:
    async def main() -> None:
        async with Server(made.config(ssl_handshake_timeout_ms=150)) as server:
            reader, writer = await server.connect(None)
            writer.write(hello(made)[: sent if sent >= 0 else None])
            while await reader.read(1 << 16):
                pass  # The answer to a complete beginning, then the end.
            await server.until_failed()
            assert len(server.listener.handshakes) == 0
            await is_served(server)

    caplog.set_level("INFO")
    run(main())
    assert "the handshake was not complete after 0.15 s" in caplog.text


def test_a_connection_that_sends_nothing_is_no_news(made: Made, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with Server(made.config(ssl_handshake_timeout_ms=150)) as server:
            _, writer = await server.connect(None)
            writer.close()
            reader, _ = await server.connect(None)
            assert await reader.read() == b""
            await server.until_failed(2)

    caplog.set_level("INFO")
    run(main())
    assert "handshake" not in caplog.text


def test_a_complete_handshake_has_no_deadline(made: Made) -> None:
    async def main() -> None:
        async with Server(made.config(ssl_handshake_timeout_ms=100)) as server:
            link = await link_of(server)
            loop = asyncio.get_running_loop()
            until = loop.time() + 0.3
            while loop.time() < until:
                await asyncio.sleep(0.05)
            assert link.sender is not None
            link.sender.send((b"echo",))
            assert await link.until(4) == b"echo"

    run(main())


def test_silent_connections_do_not_lock_out_others(made: Made) -> None:
    async def main() -> None:
        async with Server(made.config(ssl_handshakes_max=5)) as server:
            silent = [await server.connect(None) for _ in range(20)]
            await server.until_failed(15)
            await is_served(server)
            assert len(server.listener.handshakes) <= 5
            for reader, _ in silent[:15]:
                assert await reader.read(1) == b""
            for _, writer in silent:
                writer.close()

    run(main())


def test_the_log_of_a_storm_is_short(made: Made, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with Server(made.config()) as server:
            for _ in range(60):
                _, writer = await server.connect(None)
                writer.write(KAFKA_REQUEST)
                writer.close()
            await server.until_failed(60)

    caplog.set_level("INFO")
    run(main())
    lines = [record for record in caplog.records if "TLS handshake" in record.getMessage()]
    assert 1 <= len(lines) < 50


class TestLinks:
    def test_a_certificate_of_another_host_is_refused(self, made: Made) -> None:
        async def main() -> None:
            config = made.config(ssl_keystore_location=str(made.elsewhere.pem))
            async with Server(config) as server:
                with pytest.raises(ConnectionError, match="IP address mismatch"):
                    await server.link("127.0.0.1")
                with pytest.raises(ConnectionError, match="Hostname mismatch"):
                    await server.link("localhost")
                await server.until_failed(2)

        run(main())

    def test_unless_the_check_is_switched_off(self, made: Made) -> None:
        async def main() -> None:
            config = made.config(
                ssl_keystore_location=str(made.elsewhere.pem), ssl_endpoint_identification_algorithm=""
            )
            async with Server(config) as server:
                await is_served(server)

        run(main())

    def test_a_server_without_tls_is_noticed(self, made: Made) -> None:
        async def main() -> None:
            async with Server(made.config()) as server:

                async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                    await reader.read(1)
                    writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                    writer.close()

                listening = await asyncio.start_server(plain, "127.0.0.1", 0)
                server.port = listening.sockets[0].getsockname()[1]
                with pytest.raises(ConnectionError, match="TLS: "):
                    await server.link()
                listening.close()

        run(main())

    def test_an_attempt_that_is_cancelled_leaves_nothing(self, made: Made) -> None:
        async def main() -> None:
            async with Server(made.config()) as server:
                silent = socket.socket()
                silent.bind(("127.0.0.1", 0))
                silent.listen()
                server.port = silent.getsockname()[1]
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.2):
                        await server.link()
                accepted, _ = silent.accept()
                accepted.setblocking(False)
                loop = asyncio.get_running_loop()
                while await loop.sock_recv(accepted, 4096):
                    pass  # The beginning of its handshake, then the end.
                accepted.close()
                silent.close()

        run(main())

    def test_a_check_whether_a_node_has_ended_needs_no_handshake(self, made: Made) -> None:
        async def main() -> None:
            async with Server(made.config()) as server:
                assert not await refuses_connections("127.0.0.1", server.port)
                await server.until_failed()
                await is_served(server)

        run(main())
