"""Asks brokers with an HTTP port for the controllers' decisions: once for what happened before the page was
started, and then for what answers to clients do not show.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable
from typing import Any, ParamSpec, Protocol, TypeVar

from tidelog.page.asking import past as questions
from tidelog.page.pace import Pace, now_ms
from tidelog.page.past import UNCLEAN, Past, Told, losses
from tidelog.page.story import Event

PAST_S = 2.0
TIMEOUT_S = 10.0
NOTHING = 10**18  # an offset behind everything: only what a broker has given up itself

P = ParamSpec("P")
T = TypeVar("T")
Endpoint = tuple[int, str, int]
"""A broker's number, and the address of its HTTP port."""


class Board(Protocol):
    """Where answers go."""

    async def in_thread(self, question: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T: ...
    def endpoints(self) -> list[Endpoint]: ...
    def tell(self, events: Iterable[Event]) -> None: ...
    def remember(self, told: list[Told]) -> None: ...


class PastWatch:
    def __init__(self, board: Board) -> None:
        self._board = board
        self._since_ms = now_ms()  # What is older than this was not seen here.
        self._past = Past()
        self._next = -1
        self._given_up: dict[int, dict[str, int]] = {}

    async def run(self) -> None:
        pace = Pace()
        while True:
            begun_s = time.monotonic()
            asked = False
            for broker, host, port in self._board.endpoints():
                # Answers that make no sense are from another program, or from a later version.
                with contextlib.suppress(OSError, KeyError, TypeError, ValueError, AttributeError):
                    await self._ask(broker, host, port, NOTHING if asked else self._next)
                    asked = True
            await asyncio.sleep(pace.pause_s(PAST_S, time.monotonic() - begun_s))

    async def _ask(self, broker: int, host: str, port: int, begin: int) -> None:
        found: dict[str, Any] = await self._board.in_thread(questions.read, host, port, begin, TIMEOUT_S)
        if begin != NOTHING:
            self._next = found["next"]
            told = self._past.take(found)
            self._board.remember([each for each in told if each.at_ms < self._since_ms])
            self._board.tell(
                each.event for each in told if each.at_ms >= self._since_ms and each.event.kind == UNCLEAN
            )
        given_up = {str(name): int(count) for name, count in found.get("given_up", {}).items()}
        if broker in self._given_up:
            self._board.tell(losses(self._given_up[broker], given_up))
        self._given_up[broker] = given_up
