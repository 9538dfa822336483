"""The relay process: ``python -m tidelog.lab.network.relay``.

Owns the links and the shapes between parties. Reads one command per line from its standard input, as JSON,
and answers each with a line: ``ok``, or what is wrong. It ends with its input, so it does not survive the
lab.
"""

import contextlib
import json
import os
import resource
import sys
from collections.abc import Mapping
from functools import partial
from typing import Any

from tidelog.lab.network.link import Link, LinkSpec, Target
from tidelog.lab.network.loop import READ, RelayLoop
from tidelog.lab.network.shape import CLEAR, Shape

Pair = tuple[str, str]
_READ_BYTES = 1 << 16
FILES_MAX = 1 << 16


class Relay:
    def __init__(self, loop: RelayLoop) -> None:
        self._loop = loop
        self._links: dict[Pair, Link] = {}
        self._targets: dict[tuple[str, int], Target] = {}
        self._shapes: dict[Pair, Shape] = {}

    def add(self, source: str, target: str, spec: LinkSpec) -> None:
        """Connections from ``source`` to ``target`` go through the port of the link."""
        if spec.address not in self._targets:
            self._targets[spec.address] = Target(self._loop, spec.address)
        broker = self._targets[spec.address]
        there, back = partial(self._shape, source, target), partial(self._shape, target, source)
        link = Link(self._loop, spec, there, back, broker.is_down, broker.is_in_doubt)
        self._links[source, target] = link
        broker.add(link)

    def shape(self, source: str, target: str, shape: Shape) -> None:
        """Bytes from ``source`` to ``target``, whichever of them opened the connection, travel like this."""
        self._shapes[source, target] = shape
        for pair in ((source, target), (target, source)):
            if pair in self._links:
                self._links[pair].reshape()

    def close(self) -> None:
        for link in self._links.values():
            link.close()

    def _shape(self, source: str, target: str) -> Shape:
        return self._shapes.get((source, target), CLEAR)


class Commands:
    """Lines in, lines out."""

    def __init__(self, loop: RelayLoop, relay: Relay, source: int, responses: int) -> None:
        self._loop, self._relay = loop, relay
        self._source, self._responses = source, responses
        self._rest = b""
        loop.watch(source, READ, 0, self._readable)

    def _readable(self, mask: int) -> None:
        data = os.read(self._source, _READ_BYTES)
        if not data:
            self._loop.stop()
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            try:
                self._do(json.loads(line))
                response = "ok"
            except OSError as error:
                response = f"{error.strerror or error}"
            os.write(self._responses, response.encode() + b"\n")

    def _do(self, command: Mapping[str, Any]) -> None:
        source, target = command["from"], command["to"]
        if "port" in command:
            host, port = command["address"]
            spec = LinkSpec(command["port"], (host, port), command["silence_s"])
            self._relay.add(source, target, spec)
        else:
            self._relay.shape(source, target, Shape(**command["shape"]))


def raise_file_limit() -> None:
    """Each connection needs six descriptors: two sockets and two pipes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_MAX if hard == resource.RLIM_INFINITY else min(FILES_MAX, hard)
    if soft < wanted:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def main() -> None:
    raise_file_limit()
    loop = RelayLoop()
    relay = Relay(loop)
    Commands(loop, relay, sys.stdin.fileno(), sys.stdout.fileno())
    loop.run()
    relay.close()


if __name__ == "__main__":
    main()
