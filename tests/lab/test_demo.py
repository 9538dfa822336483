"""``tidelog demo`` in a real terminal (a pty), steered by keys; and by a script, without a terminal."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = [pytest.mark.interop, pytest.mark.slow]

COMMAND = [sys.executable, "-m", "tidelog", "demo"]


class Terminal:
    """A demo in a pty; ``text`` is everything it has shown."""

    def __init__(self, *words: str) -> None:
        self.number, other = pty.openpty()
        environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": "150", "LINES": "50"}
        self.process = subprocess.Popen(
            [*COMMAND, *words],
            stdin=other,
            stdout=other,
            stderr=other,
            env=environment,
            start_new_session=True,
        )
        os.close(other)
        self.text = ""

    def wait_for(self, pattern: str, timeout_s: float = 60.0) -> None:
        """In what is shown from now on."""
        start = len(self.text)
        deadline = time.monotonic() + timeout_s
        while not re.search(pattern, self.text[start:]):
            assert time.monotonic() < deadline, f"no {pattern!r} in {self.text[-3000:]}"
            if select.select([self.number], [], [], 0.2)[0]:
                try:
                    data = os.read(self.number, 1 << 16)
                except OSError:  # The other end is closed.
                    data = b""
                assert data or re.search(pattern, self.text[start:]), f"it ended: {self.text[-3000:]}"
                self.text += re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", data.decode(errors="replace"))

    def press(self, keys: str) -> None:
        os.write(self.number, keys.encode())


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    demo = Terminal()
    yield demo
    if demo.process.poll() is None:
        demo.process.send_signal(signal.SIGTERM)  # it ends its brokers
        demo.process.send_signal(signal.SIGTERM)  # and does not read back
        demo.process.wait(60)
    os.close(demo.number)


def test_keys_break_and_heal_brokers_in_a_terminal(terminal: Terminal) -> None:
    terminal.wait_for("All 3 replicas are in sync")
    terminal.press("k")
    terminal.wait_for("kill which broker")
    terminal.press("1")
    terminal.wait_for("broker 1 killed")
    terminal.wait_for("No backup takes over")  # one of the four stalls, and says why
    terminal.press("h")
    terminal.wait_for("healed: broker 1")
    terminal.wait_for("broker 1 up")
    terminal.press("q")
    terminal.wait_for("Every acknowledged record is there, once and in order")
    assert terminal.process.wait(60) == 0


def test_a_script_needs_no_terminal(tmp_path: Path) -> None:
    words = ["--script", "0.3s cut 2; 1s heal", "--seconds", "1.5", "--dir", str(tmp_path)]
    found = subprocess.run(
        [*COMMAND, *words], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=110
    )
    assert found.returncode == 0, found.stdout + found.stderr
    assert "cut between broker 2 and all others" in found.stdout and "healed: broker 2" in found.stdout
    assert "Every acknowledged record is there" in found.stdout
    assert {path.name for path in (tmp_path / "history").iterdir()} == {
        "isr.jsonl", "asynchronous.jsonl", "double-write.jsonl", "quorum.jsonl",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "needs a terminal for its keys"),
        (["--script", "soon kill 1"], "'soon kill 1' is no step of a script"),
    ],
)
def test_mistakes_are_one_sentence(words: list[str], said: str) -> None:
    found = subprocess.run(
        [*COMMAND, *words], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60
    )
    assert found.returncode == 1 and said in found.stderr and "Traceback" not in found.stderr
