"""Client quotas: which limit counts for a client, how much of it is used up, and for how long the client has
to wait. The rules and the arithmetic are Kafka's.

**Which limit.** A quota belongs to a user, a client id, both, or to the default of either; the most specific
one counts, for each kind of limit separately (``_PRECEDENCE``). All clients for which the same quota of the
same name counts share it: a quota of a user is for all her clients together, a quota for the default client
id is for each client id.

**How much.** A rate is the sum of the last eleven seconds, the current one included, divided by the time
since they began. So ten seconds' worth may be used at once. A client that is over its limit waits until its
rate would be the limit again. Changes of topics have a token bucket instead, because one request can be worth
many of them.

Knows no clock and no sockets: times are arguments, in milliseconds of a clock that does not jump. What is
done to a client that has to wait is decided elsewhere.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

from tidelog.security.quota_entities import (
    CLIENT_ID,
    CONNECTION_RATE,
    FETCH_RATE,
    IP,
    MUTATION_RATE,
    PRODUCE_RATE,
    REQUEST_PERCENTAGE,
    USER,
    QuotaEntity,
)

Limits = Mapping[QuotaEntity, Mapping[str, float]]

SAMPLES = 11  # of one second each: quota.window.num of Kafka
SAMPLE_MS = 1000
WINDOW_MS = SAMPLES * SAMPLE_MS
WAIT_MS_MAX = (1 << 31) - 1  # as far as a response can tell it
CLIENTS_MAX = 10_000  # whose use is remembered: clients choose their ids

_EXACT, _DEFAULT, _ABSENT = "exact", "default", "absent"

# The most specific first: what the quota says about the user, and about the client id.
_PRECEDENCE = (
    (_EXACT, _EXACT),
    (_EXACT, _DEFAULT),
    (_EXACT, _ABSENT),
    (_DEFAULT, _EXACT),
    (_DEFAULT, _DEFAULT),
    (_DEFAULT, _ABSENT),
    (_ABSENT, _EXACT),
    (_ABSENT, _DEFAULT),
)

T = TypeVar("T")


class Quota(NamedTuple):
    """A limit, and who shares it: "" stands for all users, or for all client ids."""

    limit: float
    user: str
    client_id: str


def quota_of(limits: Limits, key: str, user: str, client_id: str) -> Quota | None:
    """The limit of this kind that counts for a client; None: it has none."""
    for of_user, of_client in _PRECEDENCE:
        entity = _entity(of_user, of_client, user, client_id)
        limit = limits.get(entity, {}).get(key)
        if limit is not None:
            shared_user = "" if of_user is _ABSENT else user
            return Quota(limit, shared_user, "" if of_client is _ABSENT else client_id)
    return None


def _entity(of_user: str, of_client: str, user: str, client_id: str) -> QuotaEntity:
    parts: list[tuple[str, str | None]] = []
    if of_client is not _ABSENT:
        parts.append((CLIENT_ID, client_id if of_client is _EXACT else None))
    if of_user is not _ABSENT:
        parts.append((USER, user if of_user is _EXACT else None))
    return tuple(parts)


def connection_quota_of(limits: Limits, ip: str) -> float | None:
    """How many connections this address may open per second; None: any number."""
    for name in (ip, None):
        limit = limits.get(((IP, name),), {}).get(CONNECTION_RATE)
        if limit is not None:
            return limit
    return None


class Rate:
    """What was used in the last eleven seconds."""

    __slots__ = ("_newest", "_samples", "_total")

    def __init__(self) -> None:
        self._samples = [0.0] * SAMPLES
        self._newest = 0  # number of the current second
        self._total = 0.0

    def use(self, amount: float, now_ms: int) -> None:
        self._move(now_ms)
        self._samples[self._newest % SAMPLES] += amount
        self._total += amount

    def wait_ms(self, limit: float, now_ms: int) -> int:
        """How long nothing may be used until the rate is the limit, which is per second."""
        self._move(now_ms)
        window_s = (SAMPLES - 1) * SAMPLE_MS / 1000 + now_ms % SAMPLE_MS / 1000
        excess = self._total - limit * window_s
        return 0 if excess <= 0 else _bounded_ms(excess, limit)

    def _move(self, now_ms: int) -> None:
        newest = now_ms // SAMPLE_MS
        passed = newest - self._newest
        if passed <= 0:
            return
        if passed >= SAMPLES:
            self._samples = [0.0] * SAMPLES
        else:
            for second in range(self._newest + 1, newest + 1):
                self._samples[second % SAMPLES] = 0.0
        # Added up again: with each subtraction, a float would lose some of its precision.
        self._total = sum(self._samples)
        self._newest = newest


class TokenBucket:
    """Full at first: eleven seconds' worth. One more may always be taken if it is not overdrawn."""

    __slots__ = ("_changed_ms", "_tokens")

    def __init__(self, limit: float, now_ms: int) -> None:
        self._tokens = limit * WINDOW_MS / 1000
        self._changed_ms = now_ms

    def use(self, amount: float, limit: float, now_ms: int) -> None:
        self._fill(limit, now_ms)
        self._tokens -= amount

    def wait_ms(self, limit: float, now_ms: int) -> int:
        """How long until it is no longer overdrawn."""
        self._fill(limit, now_ms)
        return 0 if self._tokens >= 0 else _bounded_ms(-self._tokens, limit)

    def _fill(self, limit: float, now_ms: int) -> None:
        passed_s = max(now_ms - self._changed_ms, 0) / 1000
        self._tokens = min(self._tokens + passed_s * limit, limit * WINDOW_MS / 1000)
        self._changed_ms = now_ms


def _bounded_ms(excess: float, limit: float) -> int:
    """At least one: a wait of nothing would be none. With a limit next to zero, the quotient may be infinite,
    and a hundredth of the limit zero.
    """
    if excess >= limit * (WAIT_MS_MAX / 1000):
        return WAIT_MS_MAX
    return max(1, round(excess / limit * 1000))


class ClientUse(NamedTuple):
    """The limits of one client with what is used of them; None where it has no limit."""

    produce: tuple[float, Rate] | None
    fetch: tuple[float, Rate] | None
    request_time: tuple[float, Rate] | None  # in seconds of the event loop per second
    mutations: tuple[float, TokenBucket] | None

    @property
    def is_limited(self) -> bool:
        return any(each is not None for each in self)

    @property
    def fetch_bytes_max(self) -> int | None:
        """Of one response: as much as the client may get in a whole window. With more, it could have to wait
        for longer than its own timeout.
        """
        return None if self.fetch is None else max(1, int(self.fetch[0] * WINDOW_MS / 1000))


class Quotas:
    """All limits, and what clients have used of them."""

    def __init__(self) -> None:
        self._limits: Limits = {}
        self.limits_clients = False  # whether there is any quota but those of addresses
        # Of those that share a quota, the least recently asked for first.
        self._rates: OrderedDict[tuple[str, str, str], Rate] = OrderedDict()
        self._buckets: OrderedDict[tuple[str, str, str], TokenBucket] = OrderedDict()
        self._of_addresses: OrderedDict[str, Rate] = OrderedDict()

    def follow(self, limits: Limits) -> bool:
        """Take over the limits of the metadata. Returns whether they are other ones: then what
        :meth:`use_of` returned no longer counts. What was used is remembered.
        """
        if limits is self._limits or limits == self._limits:
            return False
        self._limits = limits
        self.limits_clients = any(entity[0][0] != IP for entity in limits)
        return True

    def use_of(self, user: str, client_id: str, now_ms: int) -> ClientUse:
        return ClientUse(
            self._rate(PRODUCE_RATE, user, client_id),
            self._rate(FETCH_RATE, user, client_id),
            self._rate(REQUEST_PERCENTAGE, user, client_id, 0.01),
            self._bucket(user, client_id, now_ms),
        )

    def _rate(self, key: str, user: str, client_id: str, unit: float = 1.0) -> tuple[float, Rate] | None:
        quota = quota_of(self._limits, key, user, client_id)
        if quota is None:
            return None
        return quota.limit * unit, _found(self._rates, (key, quota.user, quota.client_id), Rate)

    def _bucket(self, user: str, client_id: str, now_ms: int) -> tuple[float, TokenBucket] | None:
        quota = quota_of(self._limits, MUTATION_RATE, user, client_id)
        if quota is None:
            return None
        name = MUTATION_RATE, quota.user, quota.client_id
        return quota.limit, _found(self._buckets, name, lambda: TokenBucket(quota.limit, now_ms))

    def connected(self, ip: str, now_ms: int) -> int:
        """An address opens a connection. Returns how long it has to wait; 0: it is welcome."""
        limit = connection_quota_of(self._limits, ip) if self._limits else None
        if limit is None:
            return 0
        rate = _found(self._of_addresses, ip, Rate)
        wait_ms = rate.wait_ms(limit, now_ms)
        if not wait_ms:
            rate.use(1, now_ms)
        return wait_ms


_K = TypeVar("_K")


def _found(known: "OrderedDict[_K, T]", name: _K, make: Callable[[], T]) -> T:
    found = known.get(name)
    if found is None:
        if len(known) >= CLIENTS_MAX:
            known.popitem(last=False)
        found = known[name] = make()
    else:
        known.move_to_end(name)
    return found
