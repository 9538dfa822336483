"""Single keys from the terminal, without waiting for Enter.

Owns the terminal's settings while the demo runs, and what a sequence of keys means.
"""

import contextlib
import os
import select
import sys
import termios
import tty
from collections.abc import Iterator

from tidelog.lab.demo.script import LEADER

ACTIONS = {"k": "kill", "f": "freeze", "c": "cut", "h": "heal"}
QUIT = ("q", "\x03", "\x04", "\x1b")


class Keys:
    """Keys to actions: ``k`` and a digit, or ``l`` for the leader; ``h`` heals all."""

    def __init__(self, brokers: int) -> None:
        self._brokers = brokers
        self._action = ""
        self.is_quit = False

    @property
    def pending(self) -> str:
        """The action that still needs a broker."""
        return self._action

    def press(self, key: str) -> tuple[str, str] | None:
        """Action and broker, once both are known."""
        if key in QUIT:
            self.is_quit = True
            return None
        if key == "h":
            self._action = ""
            return "heal", ""
        if key in ACTIONS:
            self._action = ACTIONS[key]
            return None
        if self._action and (key == "l" or (key.isdigit() and 1 <= int(key) <= self._brokers)):
            action, self._action = self._action, ""
            return action, LEADER if key == "l" else key
        return None


@contextlib.contextmanager
def raw_terminal() -> Iterator[None]:
    """Keys arrive at once and are not shown; as before at the end."""
    number = sys.stdin.fileno()
    before = termios.tcgetattr(number)
    tty.setcbreak(number)
    try:
        yield
    finally:
        termios.tcsetattr(number, termios.TCSADRAIN, before)


def pressed(timeout_s: float) -> str:
    """Keys that were pressed; empty after the timeout."""
    number = sys.stdin.fileno()
    if select.select([number], [], [], timeout_s)[0]:
        return os.read(number, 64).decode(errors="replace")
    return ""
