"""Asks one broker: whether it answers, how far its partitions are, its replicas, its process.

Each question has a connection of its own. Knows what to do with an answer only by :class:`Board`.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, ParamSpec, Protocol, TypeVar

from tidelog.client.messages import TopicPartition
from tidelog.page.asking import offsets, process, replicas, settings
from tidelog.page.asking.link import Address, Link
from tidelog.page.facts import Facts
from tidelog.page.pace import BURST_PAUSE_S, PULSE_S, Pace, words_of
from tidelog.page.rates import Meter

# A broker that has not answered for so long is shown as silent: within a second of its death.
PULSE_TIMEOUT_S = 0.7
RESPONSE_TIMEOUT_S = 2.0
SLOW_RESPONSE_TIMEOUT_S = 10.0
ENDS_S = 0.5
REPLICAS_S = 2.0
FIGURES_S = 1.0
HTTP_PORT_S = 30.0

P = ParamSpec("P")
T = TypeVar("T")


class Board(Protocol):
    """Where answers go."""

    facts: Facts

    @property
    def in_burst(self) -> bool: ...
    def spawn(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]": ...
    async def in_thread(self, question: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T: ...
    def changed(self) -> None: ...
    def pulse(self, broker: int, responds: bool, reason: str = "", *, ended: bool = False) -> None: ...
    def grown(self, broker: int, partitions: Iterable[TopicPartition]) -> None: ...
    def led_by(self, broker: int) -> list[TopicPartition]: ...


class BrokerWatch:
    """The tasks of one broker at one address."""

    def __init__(self, board: Board, broker: int, address: Address) -> None:
        self.address = address
        self.meter = Meter()
        self.http_port = 0  # as its settings say; 0: none, or not known yet
        self._board = board
        self._broker = broker
        work = (self._pulse(), self._ends(), self._replicas(), self._figures())
        self._tasks = [board.spawn(each) for each in work]

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()

    @property
    def _responds(self) -> bool:
        pulse = self._board.facts.pulses.get(self._broker)
        return pulse is not None and pulse.responds

    async def _pulse(self) -> None:
        link = Link(self.address, PULSE_TIMEOUT_S)
        has_answered = False
        while True:
            begun_s = time.monotonic()
            try:
                await self._board.in_thread(offsets.pulse, link)
                has_answered = True
                self._board.pulse(self._broker, True)
            except OSError as error:
                link.close()
                words = words_of(error, has_answered=has_answered)
                ended = isinstance(error, ConnectionRefusedError)
                self._board.pulse(self._broker, False, words, ended=ended)
            await asyncio.sleep(max(PULSE_S - (time.monotonic() - begun_s), 0.02))

    async def _ends(self) -> None:
        link, pace = Link(self.address, RESPONSE_TIMEOUT_S), Pace()
        while True:
            begun_s = time.monotonic()
            pause_s = least_s = 2 * BURST_PAUSE_S if self._board.in_burst else ENDS_S
            if self._responds and (wanted := self._board.led_by(self._broker)):
                with contextlib.suppress(OSError):
                    found = await self._board.in_thread(offsets.ends, link, wanted)
                    self._ends_seen(found)
                    pause_s = pace.pause_s(least_s, time.monotonic() - begun_s)
            await asyncio.sleep(pause_s)

    def _ends_seen(self, found: dict[TopicPartition, int]) -> None:
        self._board.grown(self._broker, self.meter.add(found, time.monotonic()))
        ends = self._board.facts.ends
        for (topic, partition), end in found.items():
            ends.setdefault(topic, {})[partition] = end
        self._board.changed()

    async def _replicas(self) -> None:
        link, pace = Link(self.address, SLOW_RESPONSE_TIMEOUT_S), Pace()
        while True:
            begun_s, pause_s = time.monotonic(), REPLICAS_S
            if self._responds:
                with contextlib.suppress(OSError):
                    found = await self._board.in_thread(replicas.replicas, link)
                    self._board.facts.replicas[self._broker] = found
                    self._board.changed()
                    pause_s = pace.pause_s(REPLICAS_S, time.monotonic() - begun_s)
            await asyncio.sleep(pause_s)

    async def _figures(self) -> None:
        """Where the broker has an HTTP port, which its settings tell."""
        port_until_s = 0.0
        counters: process.Counters | None = None
        while True:
            if self._responds:
                try:
                    if time.monotonic() >= port_until_s:
                        self.http_port = await self._board.in_thread(self._http_port)
                        port_until_s = time.monotonic() + HTTP_PORT_S
                    if self.http_port:
                        found = await self._board.in_thread(
                            process.read, self.address[0], self.http_port, PULSE_TIMEOUT_S
                        )
                        figures, counters = process.figures(found, counters, time.monotonic())
                        self._board.facts.figures[self._broker] = figures
                        self._board.changed()
                except OSError:
                    self._board.facts.figures.pop(self._broker, None)
            await asyncio.sleep(FIGURES_S)

    def _http_port(self) -> int:
        with Link(self.address, SLOW_RESPONSE_TIMEOUT_S) as link:
            found = settings.of_broker(link, self._broker, ["http.port"]).get("http.port")
        text = (found.value or "") if found is not None else ""
        return int(text) if text.isdecimal() else 0
