"""The relay between the brokers of `tidelog up --demo`: ``python -m tidelog.lab.playground.relay --dir DIR``.

Owns a socket in DIR on which it takes the same lines as the relay of the lab, to shape what is between two
brokers. What a caller has cut is healed when its connection ends, so a cut does not outlive its caller.
The links themselves come from DIR. It goes on as long as its parent or any broker of DIR does: brokers that
outlive a killed `tidelog up` still need it.
"""

import argparse
import json
import os
import socket
from pathlib import Path

from tidelog.lab.network.link import LinkSpec
from tidelog.lab.network.loop import READ, RelayLoop
from tidelog.lab.network.relay import Pair, Relay, raise_file_limit
from tidelog.lab.network.relayed import SILENCE_S
from tidelog.lab.network.shape import CLEAR, Shape
from tidelog.lab.playground import links
from tidelog.lab.playground.brokers import LocalBrokers

READ_BYTES = 1 << 16
LINE_BYTES_MAX = 1 << 12
CHECK_S = 2.0  # whether any process still needs it


class Caller:
    """One connection: commands in, ``ok`` or what is wrong out."""

    def __init__(self, loop: RelayLoop, relay: Relay, connection: socket.socket) -> None:
        self._loop, self._relay, self._connection = loop, relay, connection
        self._shaped: set[Pair] = set()
        self._rest = b""
        connection.setblocking(False)
        loop.watch(connection, READ, 0, self._readable)

    def _readable(self, mask: int) -> None:
        try:
            data = self._connection.recv(READ_BYTES)
            *lines, self._rest = (self._rest + data).split(b"\n")
            for line in lines:
                self._connection.send(self._response(line).encode() + b"\n")
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data or len(self._rest) > LINE_BYTES_MAX:
            self._end()

    def _response(self, line: bytes) -> str:
        try:
            command = json.loads(line)
            pair, shape = (str(command["from"]), str(command["to"])), Shape(**command["shape"])
        except (ValueError, KeyError, TypeError) as error:
            return f"That is no command: {error!r}."
        self._shaped.add(pair)
        self._relay.shape(*pair, shape)
        return "ok"

    def _end(self) -> None:
        self._loop.watch(self._connection, 0, READ, self._readable)
        self._connection.close()
        for pair in self._shaped:
            self._relay.shape(*pair, CLEAR)


class Door:
    """The socket of the directory."""

    def __init__(self, loop: RelayLoop, relay: Relay, directory: Path) -> None:
        self._loop, self._relay = loop, relay
        (directory / links.SOCKET).unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with links.socket_path(directory) as path:
            self._listener.bind(path)
        (directory / links.SOCKET).chmod(0o600)
        self._listener.listen()
        self._listener.setblocking(False)
        loop.watch(self._listener, READ, 0, self._accept)

    def _accept(self, mask: int) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return  # The caller has given up already.
        Caller(self._loop, self._relay, connection)


def add_links(relay: Relay, found: links.Links) -> None:
    for one, ways in found.ports.items():
        for other, port in ways.items():
            relay.add(str(one), str(other), LinkSpec(port, found.addresses[other], SILENCE_S))


def end_with_the_last(loop: RelayLoop, directory: Path, parent: int) -> None:
    brokers = LocalBrokers(directory)

    def check() -> None:
        if os.getppid() == parent or any(brokers.runs(number) for number in brokers.brokers):
            loop.at(loop.now() + CHECK_S, check)
        else:
            known = links.read(directory)
            if known is not None and known.keeper == parent:  # not those of a later run
                links.remove(directory)
            loop.stop()

    check()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--dir", type=Path, required=True)
    directory = parser.parse_args().dir
    found = links.read(directory)
    if found is None:
        raise SystemExit(f"{directory} has no {links.NAME}.")
    raise_file_limit()
    loop = RelayLoop()
    relay = Relay(loop)
    add_links(relay, found)
    Door(loop, relay, directory)
    end_with_the_last(loop, directory, found.keeper)
    loop.run()
    relay.close()


if __name__ == "__main__":
    main()
