"""Whom a fault concerns, and how that is said in words."""

from collections.abc import Sequence
from typing import NamedTuple

CLIENTS = "clients"

Party = int | str
"""A broker by its number, or :data:`CLIENTS`: everything outside of the cluster."""


class Parties(NamedTuple):
    """``first`` are the brokers a fault is on. A network fault is between ``first`` and ``second``; without
    ``second`` it is between ``first`` and everything else, clients included. Administration is about
    ``topic``.
    """

    first: tuple[Party, ...]
    second: tuple[Party, ...] = ()
    topic: str = ""


def words_of(parties: Sequence[Party]) -> str:
    """``broker 2``, ``brokers 1 and 3``, ``broker 2 and clients``."""
    numbers = [str(party) for party in parties if isinstance(party, int)]
    others = [party for party in parties if isinstance(party, str)]
    *front, last = numbers or [""]
    brokers = f"{', '.join(front)} and {last}" if front else last
    noun = "brokers" if front else "broker"
    return " and ".join([*([f"{noun} {brokers}"] if numbers else []), *others])


def brokers_of(parties: Sequence[Party]) -> list[int]:
    """The brokers among them, each once."""
    return list(dict.fromkeys(party for party in parties if isinstance(party, int)))
