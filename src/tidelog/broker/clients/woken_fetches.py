"""Waiting fetches that are to be looked at again: there may be data for them, or their time is up.

One append may wake all fetches that wait for its partition, and a hundred connections can have 50,000 of
them. Reading the records for one and answering it takes about 20 us. So only some of them are taken in one
turn of the event loop, one of each client after another: in the order in which they were woken, a consumer
with one fetch waited three seconds for those 50,000. The others take turns with other long work. Fetches of
followers never come here (:mod:`~tidelog.replication.fetch_server`).
"""

from collections import deque
from typing import Protocol

from tidelog.broker.slices import SLICE_MS_MAX
from tidelog.services import Services

TAKEN_AT_ONCE = 100


class WokenFetch(Protocol):
    @property
    def peer(self) -> str:
        """The client at the other end of its connection."""

    def look_again(self) -> None:
        """Respond if it is time to. Does not raise."""


class WokenFetches:
    __slots__ = ("_by_peer", "_count", "_in_line", "_is_scheduled", "_services")

    def __init__(self, services: Services) -> None:
        self._services = services
        self._by_peer: dict[str, deque[WokenFetch]] = {}  # of each, in the order in which they were woken
        self._in_line: deque[str] = deque()  # the peers, each once
        self._count = 0
        self._is_scheduled = False

    def add(self, fetch: WokenFetch) -> None:
        """Not at once: the same Produce request may append to other partitions of this fetch as well."""
        self._count += 1
        woken = self._by_peer.get(fetch.peer)
        if woken is None:
            self._by_peer[fetch.peer] = deque((fetch,))
            self._in_line.append(fetch.peer)
        else:
            woken.append(fetch)
        if not self._is_scheduled:
            self._is_scheduled = True
            self._services.soon(self._take)

    def _take(self) -> None:
        before = self._count
        taken = 0
        try:
            taken = self._take_some(before)
        finally:
            if not self._count:
                self._is_scheduled = False
            elif taken < before:
                self._services.in_turn(self._take)
            else:
                self._services.soon(self._take)  # They were woken by what these responses have led to.

    def _take_some(self, count: int) -> int:
        """Take ``count`` of them, or as many as fit into a slice. Returns how many were taken."""
        services = self._services
        if count == 1:
            self._next().look_again()
            return 1
        until_ms = services.uptime_ms() + SLICE_MS_MAX
        taken = 0
        while taken < min(count, TAKEN_AT_ONCE):
            self._next().look_again()
            taken += 1
            if services.uptime_ms() >= until_ms:
                break
        return taken

    def _next(self) -> WokenFetch:
        """The oldest of the next peer, which goes to the end of the line if it has others."""
        peer = self._in_line.popleft()
        woken = self._by_peer[peer]
        fetch = woken.popleft()
        self._count -= 1
        if woken:
            self._in_line.append(peer)
        else:
            del self._by_peer[peer]
        return fetch
