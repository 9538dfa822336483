"""Which addresses a command asks: those of --bootstrap, or of the cluster that `tidelog up` started here.

Connections to all of them are tried at once, so that dead brokers cost no time. What listens is asked, in the
given order; what refuses is not.
"""

import queue
import socket
import threading
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from tidelog.cli.failure import CommandFailed
from tidelog.cli.profile.store import active_bootstrap
from tidelog.cli.settings import read_broker_settings
from tidelog.client.settings import parse_bootstrap
from tidelog.config import BrokerConfig
from tidelog.errors import TidelogError

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
USUAL_DIRECTORY = Path(".tidelog")
USUAL_PORTS = (9092, 9093, 9094)
CONNECT_TIMEOUT_S = 5.0
# How long the others may take once one has answered: a machine that is off does not refuse.
STRAGGLERS_S = 0.2


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def addresses_of(bootstrap: str, directory: Path = USUAL_DIRECTORY) -> list[Address]:
    """Without --bootstrap: also the other brokers of this directory's cluster, and the usual ports."""
    try:
        given = [Address(*each) for each in parse_bootstrap(bootstrap)]
    except ValueError as error:
        raise CommandFailed(f"--bootstrap: {error}.") from None
    if bootstrap != DEFAULT_BOOTSTRAP:
        return given
    if (of_profile := active_bootstrap()) is not None:
        return [Address(*each) for each in parse_bootstrap(of_profile)]
    usual = [Address("127.0.0.1", port) for port in USUAL_PORTS]
    return list(dict.fromkeys([*given, *_of_directory(directory), *usual]))


def _of_directory(directory: Path) -> list[Address]:
    found = []
    for path in sorted(directory.glob("broker-*/broker.toml")):
        try:
            listener = BrokerConfig.parse(read_broker_settings(path)).listeners[0]
        except (CommandFailed, TidelogError):
            continue  # `tidelog broker` says what is wrong with it.
        found.append(Address("127.0.0.1" if listener.every_interface else listener.host, listener.port))
    return found


def reachable(bootstrap: str) -> list[Address]:
    """The addresses that accept connections; none of them is a failure."""
    addresses = addresses_of(bootstrap)
    failures = refused(addresses)
    open_ = [each for each in addresses if each not in failures]
    if open_:
        return open_
    error = failures[addresses[0]]
    reason = (error.strerror or str(error)).lower()
    shown = ", ".join(map(str, addresses))
    raise CommandFailed(
        f"No broker answers at {shown} ({reason}); start one with `tidelog up`, or pass --bootstrap."
    )


def refused(addresses: Sequence[Address], timeout_s: float = CONNECT_TIMEOUT_S) -> dict[Address, OSError]:
    """The addresses that accept no connection, and why. Waits for the slow ones only a moment once another
    has answered.
    """
    wanted = list(dict.fromkeys(addresses))
    failures: dict[Address, OSError] = dict.fromkeys(wanted, TimeoutError("timed out"))
    results: queue.SimpleQueue[tuple[Address, OSError | None]] = queue.SimpleQueue()
    for each in wanted:
        # Daemons: one that still waits for an answer must not keep the command from ending.
        threading.Thread(target=_connect, args=(each, timeout_s, results), daemon=True).start()
    deadline = time.monotonic() + timeout_s
    for _ in wanted:
        try:
            address, error = results.get(timeout=max(deadline - time.monotonic(), 0))
        except queue.Empty:
            break
        if error is None:
            del failures[address]
            deadline = min(deadline, time.monotonic() + STRAGGLERS_S)
        else:
            failures[address] = error
    return failures


def _connect(
    address: Address, timeout_s: float, results: "queue.SimpleQueue[tuple[Address, OSError | None]]"
) -> None:
    try:
        with socket.create_connection(address, timeout_s):
            results.put((address, None))
    except OSError as error:
        results.put((address, error))


def joined(addresses: Iterable[Address]) -> str:
    return ",".join(map(str, addresses))
