"""The HTTP server for metrics and probes: its clients cannot use up what the broker needs."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tidelog.runtime import metrics
from tidelog.runtime.metrics import MetricsServer

LARGE = 32 << 20  # more than the kernel keeps for a client that does not read
SCRAPE = b"GET /metrics HTTP/1.1\r\n\r\n"
LIVE = b"GET /live HTTP/1.1\r\n\r\n"


class Scraped:
    """A collector of one large text, which takes some turns of the loop."""

    condition = SimpleNamespace()

    def __init__(self) -> None:
        self.now = self.most = 0

    def collect(self) -> Iterator[Any]:
        return iter(())

    async def of_partitions(self) -> bytes:
        self.now += 1
        self.most = max(self.most, self.now)
        for _ in range(10):
            await asyncio.sleep(0)
        self.now -= 1
        return bytes(LARGE)


async def eventually(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.001)


def serve(test: Callable[[MetricsServer, Scraped, int], Awaitable[None]]) -> None:
    async def main() -> None:
        scraped = Scraped()
        server = MetricsServer(cast(Any, scraped))
        await server.listen("127.0.0.1", 0)
        assert server._server is not None
        try:
            await test(server, scraped, server._server.sockets[0].getsockname()[1])
        finally:
            server.close()

    asyncio.run(main())


async def ask(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


def test_a_client_that_does_not_read_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "RESPONSE_TIMEOUT_S", 0.2)

    async def test(server: MetricsServer, scraped: Scraped, port: int) -> None:
        _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1)
        writer.write(SCRAPE)
        await eventually(lambda: scraped.most == 1)
        await eventually(lambda: server._connections == 0)
        writer.close()

    serve(test)


def test_scrapes_are_made_one_after_another() -> None:
    async def test(server: MetricsServer, scraped: Scraped, port: int) -> None:
        answers = await asyncio.gather(*(ask(port, SCRAPE) for _ in range(3)))
        assert all(len(answer) > LARGE for answer in answers)
        assert scraped.most == 1

    serve(test)


def test_connections_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "CONNECTIONS_MAX", 2)

    async def test(server: MetricsServer, scraped: Scraped, port: int) -> None:
        readers = [await asyncio.open_connection("127.0.0.1", port, limit=1) for _ in range(2)]
        for _, writer in readers:
            writer.write(SCRAPE)
        await eventually(lambda: server._connections == 2 and not server._silent)
        assert await ask(port, LIVE) == b""
        for _, writer in readers:
            writer.transport.abort()
        await eventually(lambda: server._connections == 0)
        assert (await ask(port, LIVE)).startswith(b"HTTP/1.1 200 OK")

    serve(test)


def test_silent_connections_keep_no_probe_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process would be killed for it, again and again."""
    monkeypatch.setattr(metrics, "CONNECTIONS_MAX", 2)

    async def test(server: MetricsServer, scraped: Scraped, port: int) -> None:
        silent = [await asyncio.open_connection("127.0.0.1", port)]
        await eventually(lambda: server._connections == 1)
        silent.append(await asyncio.open_connection("127.0.0.1", port))
        await eventually(lambda: server._connections == 2)
        assert (await ask(port, LIVE)).startswith(b"HTTP/1.1 200 OK")
        assert await silent[0][0].read() == b""
        assert list(server._silent)  # The younger one has its time.
        for _, writer in silent:
            writer.close()
        await eventually(lambda: not server._silent)

    serve(test)
