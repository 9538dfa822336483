"""Which peers are connected: counts the connections with each peer in both directions, and reports when the
last one closes.

A process that ends closes all its connections at once. The loss of the last one is reported immediately, so
that a killed broker is noticed within a millisecond and not only after its session. A single connection of
several may close for many reasons, so that is not reported.
"""

import logging
from collections.abc import Callable

from tidelog.services import Services

logger = logging.getLogger(__name__)

QUIET_MS = 200  # between two reports that a peer's address does not respond


class Presence:
    def __init__(self, services: Services, found: Callable[[int], None], lost: Callable[[int], None]) -> None:
        self._services = services
        self._found = found
        self._lost = lost
        self._open: dict[int, int] = {}  # peer → open connections with it
        self._told_ms: dict[int, int] = {}
        self._failed_attempts: dict[int, int] = {}
        self._logged: dict[int, str] = {}  # the reason why a peer is unreachable; logged when it changes
        self._stopped = False

    def stop(self) -> None:
        """From now on this node closes its connections itself; that is not reported."""
        self._stopped = True

    def is_there(self, peer: int) -> bool:
        return peer in self._open

    def failed_attempts(self, peer: int) -> int:
        """The total number of connections that could not be opened or closed before any response."""
        return self._failed_attempts.get(peer, 0)

    def opened(self, peer: int) -> None:
        before = self._open.get(peer, 0)
        self._open[peer] = before + 1
        if self._logged.pop(peer, None) is not None:
            logger.info("node %s is connected", peer)
        if not before:
            self._found(peer)

    def closed(self, peer: int) -> None:
        left = self._open[peer] - 1
        if left:
            self._open[peer] = left
        else:
            del self._open[peer]
            self._log(peer, "all of its connections closed")
            self._tell(peer)

    def unreachable(self, peer: int, address: str, reason: str) -> None:
        """A connection attempt has failed. While there is another connection with the peer, only the address
        is wrong or unreachable, and the peer is not reported as lost.
        """
        self._failed_attempts[peer] = self.failed_attempts(peer) + 1
        self._log(peer, f"it does not respond at {address}: {reason}")
        told_ms = self._told_ms.get(peer)
        if peer in self._open or (told_ms is not None and self._services.uptime_ms() - told_ms < QUIET_MS):
            return
        self._tell(peer)

    def turned_away(self, peer: int) -> None:
        """A connection closed before any response: another process may use the address now."""
        self._failed_attempts[peer] = self.failed_attempts(peer) + 1

    def forget(self, peer: int) -> None:
        """It is no node of this cluster. Clients can invent any number of them."""
        self._told_ms.pop(peer, None)
        self._failed_attempts.pop(peer, None)
        self._logged.pop(peer, None)

    def _log(self, peer: int, why: str) -> None:
        if not self._stopped and self._logged.get(peer) != why:
            self._logged[peer] = why
            logger.warning("node %s is not reachable: %s", peer, why)

    def _tell(self, peer: int) -> None:
        if not self._stopped:
            self._told_ms[peer] = self._services.uptime_ms()
            self._lost(peer)
