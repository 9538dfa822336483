"""Which brokers hold the replicas of an experiment's topics. Pure.

All topics of a round have their leader of partition 0 on the same broker, so that one fault hits all of them
alike. That broker is no controller where there are others, and not the active one otherwise: an experiment
about leaders should not be one about controllers, too.
"""

from collections.abc import Sequence


def order(
    brokers: Sequence[int], voters: Sequence[int], active: int, number: int, racks: Sequence[str] = ()
) -> list[int]:
    """The brokers in the order in which they get replicas, in round ``number`` (from 1). Every round begins
    with another of those that are equally good.
    """
    others = [each for each in brokers if each not in voters]
    passive = [each for each in brokers if each in voters and each != active]
    last = [each for each in brokers if each in voters and each == active]
    found = [*_turned(others, number - 1), *_turned(passive, number - 1), *last]
    return _across_racks(found, racks) if racks else found


def assignment(in_order: Sequence[int], partitions: int, replicas: int) -> list[list[int]]:
    """Brokers by partition, the preferred leader first. The next partition is led by the next broker."""
    return [_turned(in_order, partition)[:replicas] for partition in range(partitions)]


def _turned(items: Sequence[int], by: int) -> list[int]:
    by %= max(len(items), 1)
    return [*items[by:], *items[:by]]


def _across_racks(in_order: Sequence[int], racks: Sequence[str]) -> list[int]:
    """Neighbours are in different racks; racks are dealt out to brokers 1, 2, … in turn."""
    seen: dict[str, int] = {}
    places = {}
    for broker in in_order:
        rack = racks[(broker - 1) % len(racks)]
        seen[rack] = seen.get(rack, 0) + 1
        places[broker] = seen[rack]
    return sorted(in_order, key=lambda broker: places[broker])
