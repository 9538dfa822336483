"""Options of a socket between nodes."""

import socket

_KEEP_ALIVE = (
    # A machine that lost power says nothing: after some ten seconds its connections are given up.
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
