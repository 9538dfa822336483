"""The playground's process: commands on standard input, answers and snapshots on standard output, one JSON
object per line. The end of standard input ends it.

====================================================== ==================================================
line in                                                line out
====================================================== ==================================================
``{"id": 7, "action": "kill", "broker": 2}``           ``{"answer": 7, "words": "Broker 2 was …"}``
``{"id": 8, "action": "start", "load": "quorum"}``     ``{"answer": 8, "error": "It runs already."}``
                                                       ``{"snapshot": {…}}``, twice a second
====================================================== ==================================================
"""

import argparse
import json
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tidelog.client.settings import parse_bootstrap
from tidelog.lab.faults.errors import FaultError
from tidelog.lab.local.broker import BrokerError
from tidelog.lab.playground.course import SLICE_S
from tidelog.lab.playground.ground import Ground, Refused

WORKERS = 8


class Lines:
    """Standard output, a line at a time from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def write(self, message: dict[str, Any]) -> None:
        line = json.dumps(message, separators=(",", ":")).encode() + b"\n"
        with self._lock:
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()


def respond(ground: Ground, command: dict[str, Any], lines: Lines) -> None:
    try:
        said = {"words": ground.act(command)}
    except (Refused, FaultError, BrokerError) as error:
        said = {"error": str(error)}
    except Exception as error:  # the page waits for an answer, whatever happened
        said = {"error": f"That failed: {error}."}
    lines.write({"answer": command.get("id"), **said})


def snapshots(ground: Ground, lines: Lines, stopping: threading.Event) -> None:
    while not stopping.wait(SLICE_S):
        try:
            lines.write({"snapshot": ground.snapshot()})
        except BrokenPipeError:
            return


def addresses_of(text: str) -> dict[int, tuple[str, int]]:
    """``1@127.0.0.1:9092,2@…``"""
    pairs = [part.partition("@") for part in text.split(",")]
    return {int(number): parse_bootstrap(address)[0] for number, _, address in pairs}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--dir", type=Path, required=True)
    parser.add_argument("--brokers", type=addresses_of, required=True)
    chosen = parser.parse_args()
    ground, lines, stopping = Ground(chosen.dir, chosen.brokers), Lines(), threading.Event()
    ground.begin()
    threading.Thread(target=snapshots, args=(ground, lines, stopping), daemon=True).start()
    workers = ThreadPoolExecutor(WORKERS)
    for line in sys.stdin.buffer:
        try:
            command = json.loads(line)
        except ValueError:
            continue
        workers.submit(respond, ground, command, lines)
    stopping.set()
    ground.close()
    # Threads of clients may still wait for brokers that are down; nothing waits for them.
    os._exit(0)


if __name__ == "__main__":
    main()
