"""The words that select parties of a fault: what may be written, and who that is when the fault is made.

``leader+follower`` are two parties; ``2`` is broker 2. ``leader`` and its followers are those of partition 0
of the topic that the step is about.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

CLIENTS = "clients"
ROLES = ("leader", "follower", "followers", "controller", "controllers", "all", CLIENTS)

Party = int | str


class Casting(NamedTuple):
    """Who is who, at one moment."""

    brokers: tuple[int, ...]
    leader: int  # -1: none
    followers: tuple[int, ...]  # in the order of the replicas
    controller: int  # the active one; -1: none
    controllers: tuple[int, ...]  # all voters


class NoSuchParty(Exception):
    """There is none now; the message says which is meant."""


def mistakes_in(words: str, brokers: int) -> str | None:
    """What is wrong with such words, if anything is."""
    for word in words.split("+"):
        if word in ROLES or (word.isdecimal() and 1 <= int(word) <= brokers):
            continue
        known = ", ".join(ROLES)
        return f"{word!r} is no party; allowed: {known}, a broker from 1 to {brokers}, or several joined by +"
    return None


def resolve(words: str, now: Casting) -> tuple[Party, ...]:
    """Each party once, in the order of the words."""
    found: list[Party] = []
    for word in words.split("+"):
        found += _members(word, now)
    return tuple(dict.fromkeys(found))


def resolve_between(between: tuple[str, str], now: Casting) -> tuple[tuple[Party, ...], tuple[Party, ...]]:
    """The second side is without those of the first: ``["leader", "all"]`` is the leader and all others."""
    first = resolve(between[0], now)
    second = tuple(party for party in resolve(between[1], now) if party not in first)
    if not second:
        raise NoSuchParty(f"no broker is left on the other side of {' and '.join(between)}")
    return first, second


def _members(word: str, now: Casting) -> Sequence[Party]:
    single = {"leader": now.leader, "controller": now.controller}
    if word in single:
        if single[word] < 0:
            raise NoSuchParty(f"there is no {word} at this moment")
        return (single[word],)
    several: dict[str, Iterable[int]] = {
        "follower": now.followers[:1],
        "followers": now.followers,
        "controllers": now.controllers,
        "all": now.brokers,
    }
    if word in several:
        return tuple(several[word])
    return (CLIENTS,) if word == CLIENTS else (int(word),)
