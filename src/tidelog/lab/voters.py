"""Which brokers of a new cluster are voters of the controllers' quorum."""

from collections.abc import Iterable, Mapping


def choose_voters(brokers: Iterable[int]) -> list[int]:
    """The first three brokers, or five of five and more; fewer brokers all vote.

    Three tolerate 1 failure and five tolerate 2. More voters would make every metadata change wait for more
    disks, and an even number tolerates no more failures than the odd one below it.
    """
    ids = sorted(brokers)
    return ids[:5] if len(ids) >= 5 else ids[:3]


def quorum_voters(addresses: Mapping[int, str]) -> str:
    """The setting ``controller.quorum.voters``."""
    return ",".join(f"{voter}@{address}" for voter, address in sorted(addresses.items()))
