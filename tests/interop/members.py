"""Members of a group as processes (see ``group_member``), and what tests ask of them."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from .calls import eventually


class Member:
    def __init__(self, client: str, **options: Any) -> None:
        self.options = options
        self.events: list[dict[str, Any]] = []
        self.process = subprocess.Popen(
            [sys.executable, "-m", "interop.group_member", client, json.dumps(options)],
            cwd=Path(__file__).parents[1],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.errors = ""
        self._readers = [
            threading.Thread(target=self._read_events, daemon=True),
            threading.Thread(target=self._read_errors, daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    def _read_events(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.events.append(json.loads(line))

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.errors += line

    @property
    def partitions(self) -> set[int]:
        """What it reads, by its own account."""
        held: set[int] = set()
        for event in list(self.events):
            if event["event"] == "assigned":
                # Cooperative clients are told what is new; the others everything.
                held = held | set(event["partitions"]) if self.cooperative else set(event["partitions"])
            elif event["event"] == "revoked":
                held -= set(event["partitions"])
        return held

    @property
    def cooperative(self) -> bool:
        return "cooperative-sticky" in self.options.values() or self.options.get("protocol") == "consumer"

    @property
    def records(self) -> list[tuple[int, int]]:
        return [
            (each["partition"], each["offset"]) for each in list(self.events) if each["event"] == "record"
        ]

    def count(self, event: str) -> int:
        return sum(each["event"] == event for each in list(self.events))

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def freeze(self) -> None:
        os.kill(self.process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.process.pid, signal.SIGCONT)

    def leave(self) -> None:
        """SIGTERM: it says goodbye to its group."""
        self.process.terminate()
        assert self.process.wait(30) == 0, self.errors


@contextlib.contextmanager
def members() -> Iterator[list[Member]]:
    """A list whose members are ended with the ``with`` block."""
    started: list[Member] = []
    try:
        yield started
    finally:
        for member in started:
            member.process.kill()
            member.process.wait()


def await_shares(sharing: Sequence[Member], partitions: int) -> None:
    """Wait until these members have all partitions among them, as evenly as can be."""

    def shared() -> bool:
        held = [member.partitions for member in sharing]
        sizes = [len(share) for share in held]
        return (
            set().union(*held) == set(range(partitions))
            and sum(sizes) == partitions
            and max(sizes) - min(sizes) <= 1
        )

    try:
        eventually(shared, f"{len(sharing)} members share {partitions} partitions", timeout_s=40)
    except AssertionError:
        story = "\n".join(f"{member.events[-8:]} {member.errors[-500:]}" for member in sharing)
        raise AssertionError(f"{[member.partitions for member in sharing]}\n{story}") from None
