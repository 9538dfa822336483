"""Options of a socket between nodes."""

import asyncio
import socket

_KEEP_ALIVE = (
    # A machine that lost power does not close its connections. They are closed here after about ten seconds.
    ("TCP_KEEPIDLE", 4),
    ("TCP_KEEPINTVL", 2),
    ("TCP_KEEPCNT", 3),
    ("TCP_USER_TIMEOUT", 10_000),
)


def keep_alive(connected: socket.socket) -> None:
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEP_ALIVE:
        option = getattr(socket, name, None)  # Not every system has all of them.
        if option is not None:
            connected.setsockopt(socket.IPPROTO_TCP, option, value)


async def refuses_connections(host: str, port: int, timeout_s: float = 1.0) -> bool:
    """Whether the machine refuses the connection, because no process listens there. A timeout does not count,
    because it may be a network failure.
    """
    try:
        async with asyncio.timeout(timeout_s):
            _, writer = await asyncio.open_connection(host, port)
    except ConnectionRefusedError:
        return True
    except (OSError, TimeoutError):
        return False
    writer.close()
    return False
