"""TLS over real sockets: bytes, pauses, ends, and the certificates of both sides."""

import asyncio
import contextlib
import gc
import os
import socket
import ssl
import weakref
from pathlib import Path
from typing import cast

import pytest

from tidelog.errors import InvariantViolation
from tidelog.log.storage import Region
from tidelog.runtime.disk import Disk
from tidelog.runtime.sender import Sender
from tidelog.runtime.services import LoopServices
from tidelog.runtime.tls import layer
from tidelog.runtime.tls.layer import TlsTransport
from tidelog.runtime.tls.sender import TlsSender
from tidelog.runtime.traffic import Reads
from tidelog.security.principal import ANONYMOUS, Principal
from unit.runtime.tls.certificates import Made
from unit.runtime.tls.endpoints import Server, run

MIB = 1 << 20


def client_context(made: Made, *, version: ssl.TLSVersion | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(made.authority.certificate_path)
    if version is not None:
        context.minimum_version = context.maximum_version = version
    return context


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_another_implementation_gets_back_what_it_sent(made: Made, version: ssl.TLSVersion) -> None:
    data = os.urandom(3 * MIB + 17)

    async def main() -> None:
        async with Server(made.config()) as server:
            reader, writer = await server.connect(client_context(made, version=version))
            writer.write(data)
            assert await reader.readexactly(len(data)) == data
            assert server.listener.completed == 1
            assert server.protocols[0].principal == ANONYMOUS
            writer.close()
            await server.protocols[0].lost

    run(main())


@pytest.mark.parametrize("buffer_bytes", [1, 100, 1 << 14, 1 << 20])
def test_a_link_gets_back_what_it_sent_whatever_the_buffers_are(made: Made, buffer_bytes: int) -> None:
    data = os.urandom(2 * MIB if buffer_bytes > 1 else 20_000)

    async def main() -> None:
        async with Server(made.config(), buffer_bytes=buffer_bytes) as server:
            link = await server.link(buffer_bytes=buffer_bytes)
            assert isinstance(link.sender, TlsSender)
            link.sender.send((data[:5], data[5:1000], data[1000:]))
            assert await link.until(len(data)) == data

    run(main())


def test_nothing_is_passed_on_while_reading_is_paused(made: Made) -> None:
    data = os.urandom(MIB)

    async def main() -> None:
        async with Server(made.config(), echoes=False) as server:
            link = await server.link()
            while not server.protocols[0].transport:
                await asyncio.sleep(0)
            protocol = server.protocols[0]
            protocol.pauses_at = 1
            assert link.sender is not None
            link.sender.send((data,))
            while len(protocol.received) < MIB:
                await protocol.until(protocol.pauses_at)
                for _ in range(20):
                    await asyncio.sleep(0)  # More would come now; Protocol checks that it does not.
                protocol.pauses_at = min(len(protocol.received) + 1, MIB)
                assert protocol.transport is not None
                protocol.transport.resume_reading()
            assert bytes(protocol.received) == data

    run(main())


def test_a_reader_that_waits_gets_segments_and_bytes_in_their_order(made: Made, tmp_path: Path) -> None:
    data = os.urandom(5 * MIB)
    (tmp_path / "segment").write_bytes(data)

    async def main() -> None:
        async with Server(made.config(), echoes=False) as server:
            reader, writer = await server.connect(client_context(made))
            while server.listener.completed < 1:
                await asyncio.sleep(0.001)
            sender = server.protocols[0].sender
            assert sender is not None
            file = Disk().open(str(tmp_path / "segment"))
            expected = b""
            for number in range(4):
                head = os.urandom(100 + number)
                sender.send((head, Region(file, 0, len(data)), b"tail"))
                expected += head + data + b"tail"
            assert sender.blocked  # The kernel's buffers are full.
            assert await reader.readexactly(len(expected)) == expected
            while not sender.idle:
                await asyncio.sleep(0.001)
            writer.close()

    run(main())


def test_the_end_of_a_client_reaches_the_connection(made: Made) -> None:
    async def main() -> None:
        async with Server(made.config()) as server:
            _, writer = await server.connect(client_context(made))
            writer.write(b"x")
            while not server.protocols or not server.protocols[0].received:
                await asyncio.sleep(0.001)
            writer.close()
            await server.protocols[0].lost
            assert server.protocols[0].ended

    run(main())


def test_closing_sends_what_waits_and_ends_the_stream(made: Made) -> None:
    data = os.urandom(4 * MIB)

    def read_all(port: int) -> bytes:
        # In a thread: uvloop's own TLS loses the end of what comes before the end of a stream.
        plain = socket.create_connection(("127.0.0.1", port))
        with client_context(made).wrap_socket(plain, server_hostname="localhost") as client:
            return b"".join(iter(lambda: client.recv(1 << 16), b""))

    async def main() -> None:
        async with Server(made.config(), echoes=False) as server:
            reading = asyncio.get_running_loop().run_in_executor(None, read_all, server.port)
            while server.listener.completed < 1:
                await asyncio.sleep(0.001)
            protocol = server.protocols[0]
            assert protocol.sender is not None
            assert protocol.transport is not None
            protocol.sender.send((data,))
            protocol.transport.close()
            assert await reading == data

    run(main())


@pytest.mark.parametrize("buffer_bytes", [100, 1 << 20])
def test_others_have_their_turn_while_much_is_decrypted(
    made: Made, monkeypatch: pytest.MonkeyPatch, buffer_bytes: int
) -> None:
    """Each piece is followed by a turn of the loop. Nothing is lost, and the order stays."""
    monkeypatch.setattr(layer, "SLICE_S", 0.0)
    data = os.urandom(2 * MIB)

    async def main() -> None:
        async with Server(made.config(), echoes=False, buffer_bytes=buffer_bytes) as server:
            link = await server.link()
            while not server.protocols[0].transport:
                await asyncio.sleep(0)
            protocol = server.protocols[0]
            protocol.pauses_at = MIB
            assert link.sender is not None
            link.sender.send((data,))
            await protocol.until(MIB)
            for _ in range(20):
                await asyncio.sleep(0)
            protocol.pauses_at = -1
            assert protocol.transport is not None
            protocol.transport.resume_reading()
            assert await protocol.until(len(data)) == data

    run(main())


class Hollow:
    """OpenSSL at a server, for a peer that does nothing but announce new keys."""

    server_side = True

    def __init__(self, incoming: ssl.MemoryBIO) -> None:
        self._incoming = incoming
        self.given: list[int] = []

    def pending(self) -> int:
        return 0

    def read(self, size: int, buffer: memoryview) -> int:
        self.given.append(len(self._incoming.read()))
        raise ssl.SSLWantReadError


def test_a_peer_that_sends_nothing_but_new_keys_is_closed(
    made: Made, caplog: pytest.LogCaptureFixture
) -> None:
    """They take a hundred times as long as data. A megabyte of them held the loop for half a second."""
    caplog.set_level("INFO")

    async def main() -> None:
        async with Server(made.config()) as server:
            reader, writer = await server.connect(client_context(made))
            writer.write(b"x")
            assert await reader.readexactly(1) == b"x"
            protocol = server.protocols[0]
            assert isinstance(protocol.transport, TlsTransport)
            ours = protocol.transport.layer
            ours._object = hollow = Hollow(ours._incoming)  # type: ignore[assignment]
            writer.write(os.urandom(4 * MIB))
            await protocol.lost
            assert max(hollow.given) <= layer.PIECE_BYTES
            assert sum(hollow.given) <= layer.EMPTY_BYTES_MAX + layer.PIECE_BYTES

    run(main())
    assert "with nothing in them" in caplog.text


def test_damaged_bytes_close_the_connection_and_no_other(made: Made) -> None:
    async def main() -> None:
        async with Server(made.config()) as server:
            other = await server.link()
            reader, writer = await server.connect(client_context(made))
            writer.write(b"x")
            assert await reader.readexactly(1) == b"x"
            raw = writer.get_extra_info("socket")
            os.write(raw.fileno(), b"\x17\x03\x03\x00\x20" + bytes(32))
            await server.protocols[1].lost
            assert bytes(server.protocols[1].received) == b"x"
            assert other.sender is not None
            other.sender.send((b"still here",))
            assert await other.until(10) == b"still here"

    run(main())


class TestPrincipals:
    def test_the_certificate_says_who_a_client_is(self, made: Made) -> None:
        async def main() -> None:
            async with Server(made.config(ssl_client_auth="required")) as server:
                context = client_context(made)
                context.load_cert_chain(made.client.certificate, made.client.key)
                reader, writer = await server.connect(context)
                writer.write(b"x")
                assert await reader.readexactly(1) == b"x"
                assert server.protocols[0].principal == Principal("User", "CN=client")

        run(main())

    def test_by_rules(self, made: Made) -> None:
        async def main() -> None:
            rules = "RULE:^CN=broker$/node/,RULE:^CN=(.*)$/$1/U"
            config = made.config(ssl_client_auth="required", ssl_principal_mapping_rules=rules)
            async with Server(config) as server:
                await server.link()
                while server.listener.completed < 1:
                    await asyncio.sleep(0.001)
                assert server.protocols[0].principal == Principal("User", "node")

        run(main())

    def test_without_a_matching_rule_it_is_closed(self, made: Made, caplog: pytest.LogCaptureFixture) -> None:
        async def main() -> None:
            config = made.config(
                ssl_client_auth="required", ssl_principal_mapping_rules="RULE:^CN=someone$/someone/"
            )
            async with Server(config) as server:
                link = await server.link()
                await link.lost
                assert server.listener.failures == 1

        caplog.set_level("INFO")
        run(main())
        assert "no rule of ssl.principal.mapping.rules matches 'CN=broker'" in caplog.text

    def test_with_sasl_the_certificate_says_nothing(self, made: Made) -> None:
        async def main() -> None:
            config = made.config(listeners="SASL_SSL://127.0.0.1:0", ssl_client_auth="required")
            async with Server(config) as server:
                await server.link()
                while server.listener.completed < 1:
                    await asyncio.sleep(0.001)
                assert server.protocols[0].principal == ANONYMOUS

        run(main())


def test_a_sender_refuses_a_transport_that_encrypts(made: Made) -> None:
    """uvloop gives away the raw socket of its TLS transport."""

    async def main() -> None:
        services = LoopServices(asyncio.get_running_loop())
        async with Server(made.config()) as server:
            _, writer = await server.connect(client_context(made))
            transport = cast(asyncio.Transport, writer.transport)
            assert transport.get_extra_info("socket") is not None
            with pytest.raises(InvariantViolation):
                Sender(transport, services, lambda: None, lambda reason: None, Reads())
            link = await server.link()
            assert link.transport is not None
            with pytest.raises(InvariantViolation):
                Sender(link.transport, services, lambda: None, lambda reason: None, Reads())
            writer.close()
        services.close()

    run(main())


def test_new_connections_use_new_certificates_and_old_ones_stay(made: Made, tmp_path: Path) -> None:
    store = tmp_path / "broker.pem"
    store.write_bytes(made.broker.pem.read_bytes())

    async def main() -> None:
        async with Server(made.config(ssl_keystore_location=str(store))) as server:
            before = await server.link()
            store.write_bytes(made.elsewhere.pem.read_bytes())
            assert server.certificates.read_again()
            with pytest.raises(ConnectionError, match="IP address mismatch"):
                await server.link()
            assert before.sender is not None
            before.sender.send((b"still here",))
            assert await before.until(10) == b"still here"

    run(main())


@pytest.mark.parametrize("fails", [False, True])
def test_a_connection_that_has_ended_leaves_nothing_for_the_collector(made: Made, fails: bool) -> None:
    """In a broker, the collector of cycles comes rarely."""

    async def main() -> None:
        async with Server(made.config(ssl_client_auth="required" if fails else "none")) as server:
            reader, writer = await server.connect(client_context(made))
            writer.write(b"x")
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                await reader.read(1)
            writer.close()
            await server.protocols[0].lost
            protocol = weakref.ref(server.protocols.pop())
            while protocol() is not None:  # The loop drops its last references in one of its next turns.
                await asyncio.sleep(0.001)

    gc.disable()
    try:
        run(main())
    finally:
        gc.enable()
