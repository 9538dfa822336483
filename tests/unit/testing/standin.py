"""A stand-in broker: answers ApiVersions on a port and obeys signals, in a few lines and milliseconds."""

import signal
import socketserver
import struct
import sys


class Answer(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        while request := self.request.recv(4096):
            (correlation_id,) = struct.unpack_from(">i", request, 8)
            self.request.sendall(struct.pack(">iihi", 10, correlation_id, 0, 0))


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


def main(port: int, exit_code: int) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(exit_code))
    with Server(("127.0.0.1", port), Answer) as server:
        print("listening", flush=True)  # noqa: T201
        server.serve_forever()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
