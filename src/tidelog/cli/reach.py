"""Which addresses a command asks: those of --bootstrap, or of the cluster that `tidelog up` started here.
Where that one is down, the command says so: another one that has the usual ports must not be changed instead.

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
from tidelog.cli.client_config import NAME as CLIENT_FILE
from tidelog.cli.client_config import USUAL_DIRECTORY as USUAL_DIRECTORY
from tidelog.cli.client_config import client_config, config_path, is_given
from tidelog.cli.failure import CommandFailed, InvalidCommandLine
from tidelog.cli.nearby import Address as Address
from tidelog.cli.nearby import address_in as address_in
from tidelog.cli.nearby import addresses_in, how_to_start
from tidelog.cli.profile.store import active_bootstrap, active_name
from tidelog.client.errors import ClientError
from tidelog.client.settings import Security, TlsSettings, parse_bootstrap

USUAL_PORTS = (9092, 9093, 9094)
CONNECT_TIMEOUT_S = 5.0
REQUEST_TIMEOUT_S = 15.0
# How long the others may take once one has answered: a machine that is off does not refuse.
STRAGGLERS_S = 0.2
# Without an answer by then, a broker counts as one that does not answer. A busy one takes less than a second.
RESPONSE_S = 2.0
FIRST_RESPONSE_S = 5.0  # where no broker has answered
ELSEWHERE_S = 0.5  # for a hint only
_CORRELATION = 0x7E5E
# ApiVersions, version 0, of a client without a name: what every broker answers to everyone.
_QUESTION = struct.pack(">ihhih", 10, 18, 0, _CORRELATION, -1)


class Silent(TimeoutError):
    """It accepts connections and does not answer."""


class Closed(ConnectionError):
    """It accepts connections and closes them without an answer, as a broker that does not serve yet."""


class NotTrusted(ConnectionError):
    """A certificate is missing or not accepted, here or there; the message is a sentence."""


class Sought(NamedTuple):
    """The addresses that a command asks, and where they come from if they were not typed."""

    addresses: list[Address]
    directory: Path | None = None  # of `tidelog up`
    profile: str | None = None


def addresses_of(bootstrap: str, directory: Path = USUAL_DIRECTORY) -> list[Address]:
    return sought(bootstrap, directory).addresses


def sought(bootstrap: str, directory: Path = USUAL_DIRECTORY) -> Sought:
    """Without --bootstrap: this directory's cluster, and the usual ports only where it has none."""
    try:
        given = [Address(*each) for each in parse_bootstrap(bootstrap)]
    except ValueError as error:
        raise InvalidCommandLine(f"--bootstrap: {error}.") from None
    if is_given(bootstrap):
        return Sought(given)
    config, path = client_config(directory=directory), config_path(directory=directory)
    if config.bootstrap is not None and path != directory / CLIENT_FILE:
        return Sought(_of_config(config.bootstrap))
    if (of_profile := active_bootstrap()) is not None:
        return Sought([Address(*each) for each in parse_bootstrap(of_profile)], profile=active_name())
    if config.bootstrap is not None:
        return Sought(_of_config(config.bootstrap), directory)
    if nearby := addresses_in(directory):
        return Sought(nearby, directory)
    return Sought([Address("127.0.0.1", port) for port in USUAL_PORTS])


def _of_config(bootstrap: str) -> list[Address]:
    try:
        return [Address(*each) for each in parse_bootstrap(bootstrap)]
    except ValueError as error:
        raise CommandFailed(f"bootstrap.servers of --config: {error}.") from None


def reachable(bootstrap: str) -> list[Address]:
    """The addresses that answer; none of them is a failure."""
    wanted = sought(bootstrap)
    addresses = wanted.addresses
    security = client_config(bootstrap).security
    ask = functools.partial(_ask, tls=security.tls)
    failures = _failures(ask, addresses, FIRST_RESPONSE_S, STRAGGLERS_S, Silent("no answer"))
    answering = [each for each in addresses if each not in failures]
    if answering:
        return answering
    raise CommandFailed(_why_none(wanted, failures, security))


def _why_none(wanted: Sought, failures: dict[Address, OSError], security: Security) -> str:
    for address, error in failures.items():
        if isinstance(error, Silent):
            return (
                f"{address} accepts connections and does not answer: the broker is starting, frozen or "
                "overloaded; its broker.log says more."
            )
        if isinstance(error, NotTrusted):
            return str(error)
        if isinstance(error, Closed):
            return _why_closed(address, wanted, security)
        if isinstance(error, ConnectionError) and not isinstance(error, ConnectionRefusedError):
            return (
                f"{address} does not respond like a Kafka broker, or expects another security protocol than "
                f"{_protocol(security)}; --config names a client.properties."
            )
    error = failures[wanted.addresses[0]]
    reason = (error.strerror or str(error)).lower()
    shown = joined(wanted.addresses, ", ")
    if wanted.profile is not None:
        return (
            f"No broker of profile '{wanted.profile}' answers at {shown} ({reason}); `tidelog profile use` "
            "without a name ends its use, or pass --bootstrap."
        )
    if wanted.directory is None:
        return f"No broker answers at {shown} ({reason}); start one with `tidelog up`, or pass --bootstrap."
    start = how_to_start(wanted.directory) or "the broker.log of each says more"
    sentence = f"No broker of the cluster in {wanted.directory} answers at {shown} ({reason}); {start}."
    if other := _elsewhere(wanted.addresses):
        sentence += f" To ask another cluster, pass --bootstrap {other}."
    return sentence


def _why_closed(address: Address, wanted: Sought, security: Security) -> str:
    others = "" if wanted.directory is None else how_to_start(wanted.directory)
    if others:  # `tidelog broker` of this directory closes connections for one reason only.
        return (
            f"{address} closes connections: the broker still starts, or waits for a majority of the "
            f"controllers; {others}."
        )
    return (
        f"{address} closes connections: the broker still starts, or waits for a majority of the "
        "controllers (its broker.log says so), or it expects another security protocol than "
        f"{_protocol(security)}; --config names a client.properties."
    )


def _elsewhere(asked: Sequence[Address]) -> Address | None:
    """A broker at one of the usual ports that was not asked."""
    usual = [Address("127.0.0.1", port) for port in USUAL_PORTS]
    others = [each for each in usual if each not in asked]
    failures = _failures(_ask, others, ELSEWHERE_S, ELSEWHERE_S, Silent("no answer")) if others else {}
    return next((each for each in others if each not in failures), None)


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


def joined(addresses: Iterable[Address], between: str = ",") -> str:
    return between.join(map(str, addresses))
