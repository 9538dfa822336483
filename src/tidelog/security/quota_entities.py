"""Who a client quota is for, and which limits there are; with Kafka's names and checks.

How much of a limit is used up is known elsewhere.
"""

import ipaddress
from collections.abc import Iterable, Mapping

from tidelog.errors import InvalidRequest

USER, CLIENT_ID, IP = "user", "client-id", "ip"

QuotaEntity = tuple[tuple[str, str | None], ...]
"""Pairs of type and name, in the order of their types; None stands for the default of all names. For instance
``(("client-id", None), ("user", "alice"))``: each client of alice that has no quota of its own.
"""

PRODUCE_RATE = "producer_byte_rate"
FETCH_RATE = "consumer_byte_rate"
REQUEST_PERCENTAGE = "request_percentage"
MUTATION_RATE = "controller_mutation_rate"
CONNECTION_RATE = "connection_creation_rate"

_OF_USERS = frozenset({PRODUCE_RATE, FETCH_RATE, REQUEST_PERCENTAGE, MUTATION_RATE})
_OF_ADDRESSES = frozenset({CONNECTION_RATE})
_WHOLE = {PRODUCE_RATE: (1 << 63) - 1, FETCH_RATE: (1 << 63) - 1, CONNECTION_RATE: (1 << 31) - 1}


def entity_of(parts: Iterable[tuple[str, str | None]]) -> QuotaEntity:
    """Raises :class:`InvalidRequest`."""
    named: dict[str, str | None] = {}
    for kind, name in parts:
        if kind not in (USER, CLIENT_ID, IP):
            raise InvalidRequest(f"Unhandled client quota entity type: {kind[:100]!r}")
        if kind in named:
            raise InvalidRequest(f"Duplicate client quota entity type: {kind}")
        if name is not None and not name:
            raise InvalidRequest(f"Empty {kind} not supported")
        named[kind] = name
    if not named:
        raise InvalidRequest("Invalid empty client quota entity")
    if IP in named:
        if len(named) > 1:
            raise InvalidRequest("Invalid quota entity combination: ip has quotas of its own")
        named[IP] = _address(named[IP])
    return tuple(sorted(named.items()))


def _address(text: str | None) -> str | None:
    """In the form in which connections have it. Kafka resolves host names, too; a broker does not ask a name
    server while it handles a request.
    """
    if text is None:
        return None
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise InvalidRequest(f"{text[:100]!r} is not a valid IP address") from None


def check_limits(entity: QuotaEntity, changes: Mapping[str, float | None]) -> None:
    """Raises :class:`InvalidRequest`. None removes a limit."""
    known = _OF_ADDRESSES if entity[0][0] == IP else _OF_USERS
    for key, value in changes.items():
        if key not in known:
            raise InvalidRequest(f"Invalid configuration key {key[:100]!r}")
        if value is None:
            continue
        if not value > 0 or value == float("inf"):  # also refuses NaN
            raise InvalidRequest(f"Quota {key} must be greater than 0")
        if key in _WHOLE and (value != int(value) or value > _WHOLE[key]):
            raise InvalidRequest(f"{key} must be a whole number of at most {_WHOLE[key]}")
