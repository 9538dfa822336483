"""Whether something listens at an address."""

import socket
from collections.abc import Iterable


def first_open(addresses: Iterable[tuple[str, int]], timeout_s: float) -> OSError | None:
    """``None`` as soon as one address accepts a connection, otherwise the error of the last one."""
    failure: OSError = ConnectionRefusedError("no address given")
    for address in addresses:
        try:
            with socket.create_connection(address, timeout_s):
                return None
        except OSError as error:
            failure = error
    return failure


def is_free(host: str, port: int) -> bool:
    """Whether a server could listen there now."""
    with socket.socket() as candidate:
        # As a server would: closing connections of the last run do not matter.
        candidate.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            candidate.bind((host, port))
        except OSError:
            return False
    return True
