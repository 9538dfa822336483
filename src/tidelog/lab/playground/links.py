"""The links between the brokers of a directory: who reaches whom through which port of the relay.

Owns ``DIR/links.json``, which `tidelog up --demo` writes and removes again. Brokers get their links on the
command line and not from their settings: those stay right when no relay runs any more. The relay
itself, and cuts, are the matter of ``relay`` and ``cutting``.
"""

import contextlib
import json
import os
import socket
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tidelog.lab.local.broker import free_port
from tidelog.lab.playground.programs import is_tidelog

NAME, SOCKET = "links.json", "links.sock"
HOST = "127.0.0.1"
SETTING = "node.addresses"
RESPONSE_S = 10.0
RESPONSE_BYTES_MAX = 1 << 12
PATH_BYTES_MAX = 100  # of a Unix socket, on all systems

Address = tuple[str, int]


class Links(NamedTuple):
    keeper: int  # the process that starts the relay again when it has ended
    addresses: dict[int, Address]  # of the brokers themselves
    ports: dict[int, dict[int, int]]  # of the relay: from a broker, to a broker

    def setting(self, broker: int) -> str:
        """Where this broker finds the others; empty: it has no links."""
        return ",".join(f"{peer}@{HOST}:{port}" for peer, port in self.ports.get(broker, {}).items())


def make(addresses: Mapping[int, Address], reserved: Collection[int] = ()) -> Links:
    """``reserved``: more ports that the cluster will listen on. All of them are free before it starts."""
    taken = {port for _, port in addresses.values()}.union(reserved)
    free = (port for port in iter(free_port, None) if port not in taken)
    ports = {one: {other: next(free) for other in addresses if other != one} for one in addresses}
    return Links(os.getpid(), dict(addresses), ports)


def write(directory: Path, links: Links) -> None:
    document = {
        "keeper": links.keeper,
        "addresses": {str(broker): list(address) for broker, address in links.addresses.items()},
        "ports": {
            str(one): {str(other): port for other, port in ways.items()} for one, ways in links.ports.items()
        },
    }
    path = directory / f"{NAME}.new"
    path.write_text(json.dumps(document), encoding="utf-8")
    path.replace(directory / NAME)


def read(directory: Path) -> Links | None:
    """None: there are none, or they cannot be read."""
    try:
        document = json.loads((directory / NAME).read_text(encoding="utf-8"))
        addresses = {
            int(broker): (str(host), int(port)) for broker, (host, port) in document["addresses"].items()
        }
        ports = {
            int(one): {int(other): int(port) for other, port in ways.items()}
            for one, ways in document["ports"].items()
        }
        return Links(int(document["keeper"]), addresses, ports)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def remove(directory: Path) -> None:
    for name in (NAME, SOCKET):
        (directory / name).unlink(missing_ok=True)


def in_force(directory: Path) -> Links | None:
    """The links, if their relay runs or is about to be started again. Without one they lead nowhere."""
    found = read(directory)
    if found is None or is_tidelog(found.keeper):
        return found
    with contextlib.suppress(OSError):
        connect(directory).close()
        return found
    return None


def words_for(directory: Path, broker: int) -> list[str]:
    """More words for the command that starts this broker."""
    found = in_force(directory)
    setting = found.setting(broker) if found is not None else ""
    return ["--set", f"{SETTING}={setting}"] if setting else []


def connect(directory: Path) -> socket.socket:
    """To the relay; OSError: it does not run."""
    found = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    found.settimeout(RESPONSE_S)
    try:
        with socket_path(directory) as path:
            found.connect(path)
    except OSError:
        found.close()
        raise
    return found


@contextmanager
def socket_path(directory: Path) -> Iterator[str]:
    """A name of the relay's socket that is short enough for the system."""
    path = str(directory / SOCKET)
    if len(os.fsencode(path)) <= PATH_BYTES_MAX:
        yield path
        return
    file = os.open(directory, os.O_RDONLY)
    try:
        yield f"/proc/self/fd/{file}/{SOCKET}"
    finally:
        os.close(file)
