"""Delays responses that are valid only if this replica still leads, until that is confirmed.

A leader that the controllers may have replaced keeps leading as long as every replica that could be its
successor still follows it. For a produce it is enough that they followed a moment ago, because the produce
waits for their acknowledgement anyway. A response that reports what is committed needs more: no other replica
may have led when the request arrived. So each of those followers has to fetch once more, and that fetch must
confirm a response that was sent after the request arrived.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from tidelog.services import Services

if TYPE_CHECKING:
    from tidelog.replication.driver import ReplicaDriver
    from tidelog.replication.fetch_server import FollowerSession

PATIENCE_MS = 1000

Then = Callable[[bool], None]
"""Receives whether it is certain that this replica still leads."""


class _Held:
    __slots__ = ("driver", "epoch", "missing", "since_ms", "then")

    def __init__(self, driver: "ReplicaDriver", missing: set[int], since_ms: int, then: Then) -> None:
        self.driver = driver
        self.epoch = driver.replica.epoch
        self.missing = missing  # followers that have not confirmed yet
        self.since_ms = since_ms  # when the request arrived
        self.then = then


class Assurance:
    def __init__(self, services: Services) -> None:
        self._services = services
        self._held: list[_Held] = []

    def __bool__(self) -> bool:
        """Whether any response is delayed."""
        return bool(self._held)

    def hold(self, driver: "ReplicaDriver", followers: frozenset[int], then: Then) -> int:
        """Call ``then`` with True when all ``followers`` have confirmed that they still follow, or with False
        after :data:`PATIENCE_MS`. Returns the time since which they must have followed.
        """
        held = _Held(driver, set(followers), self._services.uptime_ms(), then)
        self._held.append(held)
        self._services.later(PATIENCE_MS, lambda: self._end(held, certain=False))
        return held.since_ms

    def asked(self, session: "FollowerSession") -> bool:
        """A follower's fetch has arrived and is not answered yet. Returns whether it must be answered at
        once, because only the follower's next fetch can confirm what is needed.
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
