"""Which brokers of a new cluster keep its metadata as voters of the controllers' quorum."""

from collections.abc import Iterable, Mapping


def choose_voters(brokers: Iterable[int]) -> list[int]:
    """The first three brokers, or five where there are five or more; fewer brokers all vote.

    Three survive the loss of one and five that of two. More would make every change of the metadata wait for
    more disks, and an even number survives no more than the odd one below it.
    """
    ids = sorted(brokers)
    return ids[:5] if len(ids) >= 5 else ids[:3]


def quorum_voters(addresses: Mapping[int, str]) -> str:
    """The setting ``controller.quorum.voters``."""
    return ",".join(f"{voter}@{address}" for voter, address in sorted(addresses.items()))
