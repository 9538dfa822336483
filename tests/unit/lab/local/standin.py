"""A stand-in broker: answers what ``cluster_view`` asks and obeys signals, in a few milliseconds.

``standin.py PORT EXIT_CODE [VOTERS]``; the cluster is the voters whose ports are open, the first of them the
controller, and any topic asked for has two partitions that those brokers lead and hold.
"""

import signal
import socket
import socketserver
import struct
import sys
from itertools import cycle

VOTERS: dict[int, int] = {}  # ports by id


class Answer(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        while request := self.request.recv(4096):
            api_key, _, correlation_id = struct.unpack_from(">hhi", request, 4)
            body = ANSWERS[api_key](request)
            self.request.sendall(struct.pack(">ii", len(body) + 4, correlation_id) + body)


def running() -> dict[int, int]:
    return {voter: port for voter, port in VOTERS.items() if is_open(port)}


def describe_cluster(_: bytes) -> bytes:
    up = running()
    brokers = b"".join(
        struct.pack(">ib9sibb", voter, 10, b"127.0.0.1", port, 0, 0) for voter, port in up.items()
    )
    head = struct.pack(">bihbb2si", 0, 0, 0, 0, 3, b"id", min(up, default=-1))
    return head + bytes([len(up) + 1]) + brokers + bytes(5)


def describe_quorum(_: bytes) -> bytes:
    name = b"__cluster_metadata"
    head = struct.pack(">bhbb", 0, 0, 2, len(name) + 1) + name
    return head + struct.pack(">bihi", 2, 0, 0, min(running(), default=-1)) + bytes(20)


def metadata(request: bytes) -> bytes:
    (size,) = struct.unpack_from(">h", request, 18)
    head = struct.pack(">iih2si", 0, 0, 2, b"id", 1)
    up = list(running())
    return head + struct.pack(">ihh", 1, 0, size) + request[20 : 20 + size] + b"\x00" + partitions(up)


ANSWERS = {
    3: metadata,
    18: lambda _: struct.pack(">hi", 0, 0),
    55: describe_quorum,
    60: describe_cluster,
}


def partitions(up: list[int]) -> bytes:
    replicas = struct.pack(f">i{len(VOTERS)}i", len(VOTERS), *VOTERS)
    in_sync = struct.pack(f">i{len(up)}i", len(up), *up)
    leaders = cycle(up)
    return struct.pack(">i", 2) + b"".join(
        struct.pack(">hiii", 0, index, next(leaders), 0) + replicas + in_sync + bytes(4) for index in (0, 1)
    )


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


def main(port: int, exit_code: int, voters: str) -> None:
    for voter in filter(None, voters.split(",")):
        number, _, address = voter.partition("@")
        VOTERS[int(number)] = int(address.rpartition(":")[2])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(exit_code))
    with Server(("127.0.0.1", port), Answer) as server:
        print("listening", flush=True)  # noqa: T201
        server.serve_forever()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else "")
