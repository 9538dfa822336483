"""Which addresses a command asks: those of --bootstrap, or of the cluster that `tidelog up` started here.

Connections to all of them are tried at once, so that dead brokers cost no time. What answers is asked, in the
given order; what refuses, or accepts and says nothing, is not: the kernel accepts for a process that is
frozen, and for one that still starts.
"""

import contextlib
import functools
import queue
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from tidelog.cli.client_config import DEFAULT_BOOTSTRAP as DEFAULT_BOOTSTRAP
from tidelog.cli.client_config import USUAL_DIRECTORY as USUAL_DIRECTORY
from tidelog.cli.client_config import client_config, is_given
from tidelog.cli.failure import CommandFailed, InvalidCommandLine
from tidelog.cli.profile.store import active_bootstrap
from tidelog.cli.settings import read_broker_settings
from tidelog.client.errors import ClientError
from tidelog.client.settings import Security, TlsSettings, parse_bootstrap
from tidelog.config import BrokerConfig
from tidelog.errors import TidelogError

USUAL_PORTS = (9092, 9093, 9094)
CONNECT_TIMEOUT_S = 5.0
REQUEST_TIMEOUT_S = 15.0
# How long the others may take once one has answered: a machine that is off does not refuse.
STRAGGLERS_S = 0.2
# Without an answer by then, a broker counts as one that does not answer. A busy one takes less than a second.
RESPONSE_S = 2.0
FIRST_RESPONSE_S = 5.0  # where no broker has answered
_CORRELATION = 0x7E5E
# ApiVersions, version 0, of a client without a name: what every broker answers to everyone.
_QUESTION = struct.pack(">ihhih", 10, 18, 0, _CORRELATION, -1)


class Silent(TimeoutError):
    """It accepts connections and does not answer."""


class Closed(ConnectionError):
    """It accepts connections and closes them without an answer, as a broker that does not serve yet."""


class NotTrusted(ConnectionError):
    """A certificate is missing or not accepted, here or there; the message is a sentence."""


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def addresses_of(bootstrap: str, directory: Path = USUAL_DIRECTORY) -> list[Address]:
    """Without --bootstrap: this directory's cluster, and then the usual ports, where another may listen."""
    try:
        given = [Address(*each) for each in parse_bootstrap(bootstrap)]
    except ValueError as error:
        raise InvalidCommandLine(f"--bootstrap: {error}.") from None
    if is_given(bootstrap):
        return given
    if (of_config := client_config(directory=directory).bootstrap) is not None:
        return _of_config(of_config)
    if (of_profile := active_bootstrap()) is not None:
        return [Address(*each) for each in parse_bootstrap(of_profile)]
    usual = [Address("127.0.0.1", port) for port in USUAL_PORTS]
    return list(dict.fromkeys([*_of_directory(directory), *given, *usual]))


def _of_config(bootstrap: str) -> list[Address]:
    try:
        return [Address(*each) for each in parse_bootstrap(bootstrap)]
    except ValueError as error:
        raise CommandFailed(f"bootstrap.servers of --config: {error}.") from None


def _of_directory(directory: Path) -> list[Address]:
    found = map(address_in, sorted(directory.glob("broker-*/broker.toml")))
    return [each for each in found if each is not None]


def address_in(config: Path) -> Address | None:
    """Where a broker of this machine listens, by its file. None: there is none, or `tidelog broker` says what
    is wrong with it.
    """
    try:
        listener = BrokerConfig.parse(read_broker_settings(config)).listeners[0]
    except (CommandFailed, TidelogError):
        return None
    return Address("127.0.0.1" if listener.every_interface else listener.host, listener.port)


def reachable(bootstrap: str) -> list[Address]:
    """The addresses that answer; none of them is a failure."""
    addresses = addresses_of(bootstrap)
    security = client_config(bootstrap).security
    ask = functools.partial(_ask, tls=security.tls)
    failures = _failures(ask, addresses, FIRST_RESPONSE_S, STRAGGLERS_S, Silent("no answer"))
    answering = [each for each in addresses if each not in failures]
    if answering:
        return answering
    shown = ", ".join(map(str, addresses))
    for address, error in failures.items():
        if isinstance(error, Silent):
            raise CommandFailed(
                f"{address} accepts connections and does not answer: the broker is starting, frozen or "
                "overloaded; its broker.log says more."
            )
        if isinstance(error, NotTrusted):
            raise CommandFailed(str(error))
        if isinstance(error, Closed):
            raise CommandFailed(
                f"{address} closes connections: the broker still starts, or waits for a majority of the "
                "controllers (its broker.log says so), or it expects another security protocol than "
                f"{_protocol(security)}; --config names a client.properties."
            )
        if isinstance(error, ConnectionError) and not isinstance(error, ConnectionRefusedError):
            raise CommandFailed(
                f"{address} does not respond like a Kafka broker, or expects another security protocol than "
                f"{_protocol(security)}; --config names a client.properties."
            )
    error = failures[addresses[0]]
    reason = (error.strerror or str(error)).lower()
    raise CommandFailed(
        f"No broker answers at {shown} ({reason}); start one with `tidelog up`, or pass --bootstrap."
    )


def _protocol(security: Security) -> str:
    return "PLAINTEXT" if security.tls is None else "SSL"


def refused(addresses: Sequence[Address], timeout_s: float = CONNECT_TIMEOUT_S) -> dict[Address, OSError]:
    """The addresses that accept no connection, and why. Waits for the slow ones only a moment once another
    has answered.
    """
    return _failures(_connect, addresses, timeout_s, STRAGGLERS_S, TimeoutError("timed out"))


def has_ended(failure: OSError | None) -> bool:
    """Whether nothing listens there although the machine is up: one that is off or frozen refuses nothing."""
    return isinstance(failure, ConnectionRefusedError)


def unanswered(
    addresses: Sequence[Address], timeout_s: float = RESPONSE_S, *, tls: TlsSettings | None
) -> dict[Address, OSError]:
    """The addresses that accept no connection or do not answer, and why. Waits for the slow ones."""
    ask = functools.partial(_ask, tls=tls)
    return _failures(ask, addresses, timeout_s, timeout_s, Silent("no answer"))


def _failures(
    attempt: Callable[[Address, float], None],
    addresses: Sequence[Address],
    timeout_s: float,
    stragglers_s: float,
    late: OSError,
) -> dict[Address, OSError]:
    wanted = list(dict.fromkeys(addresses))
    failures: dict[Address, OSError] = dict.fromkeys(wanted, late)
    results: queue.SimpleQueue[tuple[Address, OSError | None]] = queue.SimpleQueue()

    def run(address: Address) -> None:
        try:
            attempt(address, timeout_s)
        except OSError as error:
            results.put((address, error))
        else:
            results.put((address, None))

    for each in wanted:
        # Daemons: one that still waits for an answer must not keep the command from ending.
        threading.Thread(target=run, args=(each,), daemon=True).start()
    deadline = time.monotonic() + timeout_s
    for _ in wanted:
        try:
            address, error = results.get(timeout=max(deadline - time.monotonic(), 0))
        except queue.Empty:
            break
        if error is None:
            del failures[address]
            deadline = min(deadline, time.monotonic() + stragglers_s)
        else:
            failures[address] = error
    return failures


def _connect(address: Address, timeout_s: float) -> None:
    socket.create_connection(address, timeout_s).close()


def _ask(address: Address, timeout_s: float, tls: TlsSettings | None = None) -> None:
    with contextlib.closing(_opened(address, timeout_s, tls)) as connection:
        try:
            connection.sendall(_QUESTION)
            response = b""
            while len(response) < 8:
                more = connection.recv(4096)
                if not more:
                    raise Closed("no answer")
                response += more
        except ConnectionResetError:
            raise Closed("no answer") from None
        except TimeoutError:
            raise Silent("no answer") from None
        except ssl.SSLError as error:
            # With TLS 1.3, what the broker thinks of our certificate comes after the handshake.
            raise NotTrusted(
                f"{address} ends the connection ({error.reason}): it may need a certificate of the client, "
                "ssl.keystore.location in the file of --config."
            ) from None
        if struct.unpack_from(">i", response, 4) != (_CORRELATION,):
            raise ConnectionError("no Kafka broker")


def _opened(address: Address, timeout_s: float, tls: TlsSettings | None) -> socket.socket:
    connection = socket.create_connection(address, timeout_s)
    if tls is None:
        return connection
    from tidelog.client.tls import wrapped

    try:
        return wrapped(connection, address.host, tls)
    except BaseException as error:
        connection.close()
        if isinstance(error, TimeoutError):
            raise Silent("no answer") from None
        if isinstance(error, ClientError):
            raise NotTrusted(in_our_words(error)) from None
        raise


def in_our_words(error: ClientError) -> str:
    """The sentence without Spark's prefix of the settings' names."""
    sentence = str(error).replace("kafka.ssl.", "ssl.").rstrip(".")
    return f"{sentence}."


def joined(addresses: Iterable[Address]) -> str:
    return ",".join(map(str, addresses))
