"""Asks every broker for the consumer groups that it coordinates, also while no browser is open, so that the
course of their lag is there for all browsers and from before they came.

What is kept is bounded: the course of so many groups and partitions, those with the largest lag first.
"""

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, Generic, ParamSpec, Protocol, TypeVar

from tidelog.client.messages import TopicPartition
from tidelog.page.facts import Facts
from tidelog.page.pace import Pace, now_ms
from tidelog.page.views import groups
from tidelog.page.views.groups import GroupSeen

logger = logging.getLogger(__name__)

GROUPS_S = 2.0
FIRST_S = 5.0  # how long a browser waits for the first answer
POINTS_MAX = 150  # five minutes, unless the answers take long
COURSES_MAX = 2000  # of groups, and of partitions

P = ParamSpec("P")
T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


class Board(Protocol):
    """Where answers come from."""

    facts: Facts

    async def in_thread(self, question: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T: ...


class Courses(Generic[K]):
    """Lags over time. Pure."""

    def __init__(self, most: int = COURSES_MAX) -> None:
        self._most = most
        self._points: dict[K, deque[int]] = {}

    def add(self, lags: Mapping[K, int]) -> None:
        """What is not among them is forgotten."""
        kept = lags
        if len(lags) > self._most:
            kept = dict(sorted(lags.items(), key=lambda each: -each[1])[: self._most])
        self._points = {key: self._points.get(key, deque(maxlen=POINTS_MAX)) for key in kept}
        for key, lag in kept.items():
            self._points[key].append(lag)

    def of(self, key: K) -> list[int]:
        return list(self._points.get(key, ()))


class GroupsWatch:
    def __init__(self, board: Board) -> None:
        self._board = board
        self._seen: list[GroupSeen] = []
        self._silent: frozenset[int] = frozenset()
        self._reasons: frozenset[str] = frozenset()
        self._at_ms = 0
        self._once = asyncio.Event()
        self._of_groups: Courses[str] = Courses()
        self._of_partitions: Courses[tuple[str, TopicPartition]] = Courses()

    async def run(self) -> None:
        pace = Pace()
        while True:
            begun_s = time.monotonic()
            if self._board.facts.cluster is not None:
                await self._ask()
            await asyncio.sleep(pace.pause_s(GROUPS_S, time.monotonic() - begun_s))

    async def look(self, chosen: str) -> dict[str, Any]:
        """All groups as they were seen last, and ``chosen`` with its members and partitions."""
        facts = self._board.facts
        if facts.cluster is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._once.wait(), FIRST_S)
        known = facts.cluster.brokers.keys() if facts.cluster is not None else frozenset()
        return {
            "at": self._at_ms,
            "groups": [self._shown(row, chosen) for row in groups.rows(self._seen, facts)],
            "unheard": sorted(self._silent | (facts.away() & known)),
            "refused": sorted(self._reasons),
        }

    def _shown(self, row: dict[str, Any], chosen: str) -> dict[str, Any]:
        group = row["group"]
        shown = row | {"members": len(row["members"]), "history": self._of_groups.of(group)}
        if group != chosen:
            return shown | {"partitions": len(row["partitions"])}
        for each in row["partitions"]:
            each["history"] = self._of_partitions.of((group, (each["topic"], each["partition"])))
        return shown | {"who": row["members"]}

    async def _ask(self) -> None:
        facts = self._board.facts
        away = facts.away()
        brokers = facts.cluster.brokers.values() if facts.cluster is not None else ()
        there = [each for each in brokers if each.broker not in away]
        responses = await asyncio.gather(
            *(self._board.in_thread(groups.of_broker, each.address, each.broker) for each in there),
            return_exceptions=True,
        )
        seen: list[GroupSeen] = []
        silent, reasons = set(), set()
        for each, response in zip(there, responses, strict=True):
            if isinstance(response, groups.GroupsRefused):
                reasons.add(str(response))
            elif isinstance(response, BaseException):
                silent.add(each.broker)
                if not isinstance(response, OSError):
                    logger.error("groups of broker %s are not understood", each.broker, exc_info=response)
            else:
                seen += response
        self._seen, self._silent, self._reasons = seen, frozenset(silent), frozenset(reasons)
        self._at_ms = now_ms()
        self._note_lags(groups.rows(seen, facts))
        self._once.set()

    def _note_lags(self, rows: Iterable[dict[str, Any]]) -> None:
        self._of_groups.add({row["group"]: row["lag"] for row in rows if row["lag"] is not None})
        self._of_partitions.add(
            {
                (row["group"], (each["topic"], each["partition"])): each["lag"]
                for row in rows
                for each in row["partitions"]
                if each["lag"] is not None
            }
        )
