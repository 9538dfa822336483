"""Which brokers of a new cluster are voters of the controllers' quorum."""

from collections.abc import Iterable, Mapping

from tidelog.planner.faults import default_controllers


def choose_voters(brokers: Iterable[int]) -> list[int]:
    return list(default_controllers(brokers))


def quorum_voters(addresses: Mapping[int, str]) -> str:
    """The setting ``controller.quorum.voters``."""
    return ",".join(f"{voter}@{address}" for voter, address in sorted(addresses.items()))
