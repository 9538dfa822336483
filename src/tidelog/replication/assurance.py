"""What a leader may say only if nobody has taken its place, held back until that is certain.

A leader that the controllers may have given up goes on while everybody who could replace it follows it. That
they did so a moment ago is enough for what waits for their acknowledgement anyway. Whoever tells what was
committed must know that nobody led in its place when it was asked: each of the others has to follow once
more, with an answer in hand that was given after the question came.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from tidelog.services import Services

if TYPE_CHECKING:
    from tidelog.replication.driver import ReplicaDriver
    from tidelog.replication.fetch_server import FollowerSession

PATIENCE_MS = 1000

Then = Callable[[bool], None]
"""Whether it was certain."""


class _Held:
    __slots__ = ("driver", "epoch", "missing", "since_ms", "then")

    def __init__(self, driver: "ReplicaDriver", missing: set[int], since_ms: int, then: Then) -> None:
        self.driver = driver
        self.epoch = driver.replica.epoch
        self.missing = missing  # followers that have not shown it yet
        self.since_ms = since_ms  # when the question came
        self.then = then


class Assurance:
    def __init__(self, services: Services) -> None:
        self._services = services
        self._held: list[_Held] = []

    def __bool__(self) -> bool:
        """Whether somebody waits."""
        return bool(self._held)

    def hold(self, driver: "ReplicaDriver", followers: frozenset[int], then: Then) -> int:
        """Tell ``then`` when all of them have shown that they follow from now on, or have not in time. From
        when on they must have.
        """
        held = _Held(driver, set(followers), self._services.uptime_ms(), then)
        self._held.append(held)
        self._services.later(PATIENCE_MS, lambda: self._end(held, certain=False))
        return held.since_ms

    def asked(self, session: "FollowerSession") -> bool:
        """A follower's ask has come, and is not answered yet; whether it must be, so that the next one tells
        more.
        """
        wanted = False
        for held in list(self._held):
            if session.sender not in held.missing:
                continue
            item = session.items.get(held.driver)
            if item is None or item.epoch != held.epoch:
                continue
            if session.confirmed_ms < held.since_ms:
                wanted = True
                continue
            held.missing.discard(session.sender)
            if not held.missing:
                self._end(held, certain=held.driver.replica.epoch == held.epoch)
        return wanted

    def _end(self, held: _Held, *, certain: bool) -> None:
        if held in self._held:
            self._held.remove(held)
            held.then(certain)
