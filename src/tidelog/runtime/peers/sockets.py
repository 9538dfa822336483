"""Options of a socket between nodes."""

import asyncio
import socket

_KEEP_ALIVE = (
    # A machine that lost power says nothing: after some ten seconds its connections are closed.
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


async def nobody_listens(host: str, port: int, timeout_s: float = 1.0) -> bool:
    """Whether the machine itself reports that no process listens there. Silence says nothing: the path may be
    broken.
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
