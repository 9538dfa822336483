"""Enforces client quotas: measures what a client uses, tells it in the response how long to wait, and takes
no requests from its connection meanwhile.

Bytes of a Produce request count when it arrives, bytes of a Fetch response when it is sent, and time when a
request was handled, as far as that was done at once. Requests to change topics have quotas of their own,
which their handlers check; here their wait is read from the response.

Other nodes of the cluster have no quotas. Without any quota in the cluster, nothing here is called.
"""

from collections.abc import Callable, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any

from tidelog.log.storage import Region
from tidelog.protocol import fetch, produce
from tidelog.protocol.throttle_time import throttle_ms_of, with_throttle_time
from tidelog.runtime.handling import HEADER
from tidelog.security.principal import Principal
from tidelog.security.quotas import WINDOW_MS, ClientUse, Quotas

if TYPE_CHECKING:
    from tidelog.runtime.connection import Connection
    from tidelog.runtime.slots import Slot

CHANGES_OF_TOPICS = frozenset({19, 20, 37})  # CreateTopics, DeleteTopics, CreatePartitions


class Meter:
    """What the client of one connection uses."""

    __slots__ = ("_clock_ms", "_pending", "client", "use")

    def __init__(self, client: tuple[str, str], use: ClientUse, clock_ms: Callable[[], int]) -> None:
        self.client = client  # user and client id
        self.use = use
        self._clock_ms = clock_ms
        # Requests without a response: their API, version, and the wait that they have caused.
        self._pending: dict[Slot, tuple[int, int, int]] = {}

    def taken(self, slot: "Slot", request: memoryview, spent_s: float) -> int:
        """A request was taken. Returns how long the client has to wait."""
        api_key, version, _, _ = HEADER.unpack_from(request, 0)
        wait_ms = self._wait_for_time(spent_s)
        if api_key == produce.API_KEY and self.use.produce is not None:
            limit, rate = self.use.produce
            now_ms = self._clock_ms()
            rate.use(len(request), now_ms)
            wait_ms = max(wait_ms, rate.wait_ms(limit, now_ms))
        self._pending[slot] = api_key, version, wait_ms
        return wait_ms

    def _wait_for_time(self, spent_s: float) -> int:
        if self.use.request_time is None:
            return 0
        limit, rate = self.use.request_time
        now_ms = self._clock_ms()
        rate.use(spent_s, now_ms)
        # As in Kafka: after one window, nothing of it counts any more.
        return min(rate.wait_ms(limit, now_ms), WINDOW_MS)

    def answered(self, slot: "Slot", parts: Sequence[Any]) -> tuple[Sequence[Any], int]:
        """A response is about to be sent. Returns it as it is sent, and how long the client has to wait."""
        pending = self._pending.pop(slot, None)
        if pending is None or not parts:
            return parts, 0
        api_key, version, wait_ms = pending
        if api_key == fetch.API_KEY and self.use.fetch is not None:
            limit, rate = self.use.fetch
            now_ms = self._clock_ms()
            rate.use(sum(map(_size_of, parts)), now_ms)
            wait_ms = max(wait_ms, rate.wait_ms(limit, now_ms))
        elif api_key in CHANGES_OF_TOPICS:
            wait_ms = max(wait_ms, throttle_ms_of(parts[0], api_key, version))
        return (with_throttle_time(parts, api_key, version, wait_ms) if wait_ms else parts), wait_ms


def _size_of(part: Any) -> int:
    return part.size if isinstance(part, Region) else len(part)


class Metering:
    """The meters of a server's connections."""

    def __init__(self, quotas: Quotas, clock_ms: Callable[[], int]) -> None:
        self._quotas = quotas
        self._clock_ms = clock_ms

    def meter_of(self, last: Meter | None, principal: Principal, client_id: str | None) -> Meter | None:
        """The meter for the next request of a connection; None: its client has no limits. ``last`` is that of
        the last request.
        """
        client = principal.name, client_id or ""
        if last is not None and last.client == client:
            return last
        use = self._quotas.use_of(*client, self._clock_ms())
        return Meter(client, use, self._clock_ms) if use.is_limited else None


def dispatch(connection: "Connection", request: memoryview) -> None:
    """Handle a request, and count what it costs."""
    began = monotonic()
    slot = connection.dispatch(request)
    meter = connection.meter
    if slot is not None and meter is not None:
        wait_ms = meter.taken(slot, request, monotonic() - began)
        if wait_ms:
            connection.mute(wait_ms)
