"""Placement for ``primary-backup`` topics: in groups. All partitions of a primary share its backups.

So a topic uses a few groups of brokers, and the effect of a failed broker is simple: the partitions of one
group wait, the others continue. Primaries are spread as evenly as leaders in other modes. The backups of a
primary are the next brokers in the ring, on other racks as far as there are enough. When partitions are
added, the existing groups stay the same.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain

from tidelog.controller.placement import Assignment, Site, check_room

Serves = Callable[[int], bool]  # whether a broker is available


def spread_groups(
    sites: Iterable[Site],
    partitions: int,
    replicas: int,
    *,
    topic: Iterable[Assignment] = (),
    elsewhere: Iterable[Assignment] = (),
) -> list[list[int]]:
    """Replicas for ``partitions`` new partitions, as :func:`tidelog.controller.placement.spread`."""
    return list(spreading_groups(sites, partitions, replicas, topic=topic, elsewhere=elsewhere))


def spreading_groups(
    sites: Iterable[Site],
    partitions: int,
    replicas: int,
    *,
    topic: Iterable[Assignment] = (),
    elsewhere: Iterable[Assignment] = (),
) -> Iterator[list[int]]:
    """The same as an iterator."""
    ring = sorted(sites, key=lambda site: site.broker_id)
    check_room(ring, replicas)
    present = [tuple(assignment) for assignment in topic]
    groups = {assignment[0]: list(assignment[1:]) for assignment in present if len(assignment) == replicas}
    others = list(elsewhere)
    led = Counter(assignment[0] for assignment in present)
    led_elsewhere = Counter(assignment[0] for assignment in others)
    held_elsewhere = Counter(chain.from_iterable(others))
    able = [site for site in ring if site.serves]
    able = [site for site in able if site.may_lead] or able

    def place() -> list[int]:
        primary = min(
            able,
            key=lambda site: (
                led[site.broker_id],
                led_elsewhere[site.broker_id],
                held_elsewhere[site.broker_id],
                site.broker_id,
            ),
        )
        led[primary.broker_id] += 1
        if primary.broker_id not in groups:
            groups[primary.broker_id] = _backups(ring, primary, replicas - 1)
        return [primary.broker_id, *groups[primary.broker_id]]

    return (place() for _ in range(partitions))


def _backups(ring: Sequence[Site], primary: Site, count: int) -> list[int]:
    place = ring.index(primary)
    behind = [*ring[place + 1 :], *ring[:place]]
    racks = Counter([primary.rack])
    chosen: list[int] = []
    while len(chosen) < count:
        free = [site for site in behind if site.broker_id not in chosen]
        backup = min(free, key=lambda site: (not site.serves, racks[site.rack]))
        chosen.append(backup.broker_id)
        racks[backup.rack] += 1
    return chosen


def all_away(number: int, replicas: Sequence[int], serves: Serves) -> str:
    """Any replica can lead."""
    if any(map(serves, replicas)):
        return ""
    return f"none of the brokers of partition {number} is available: {list(replicas)}"


def primary_away(number: int, replicas: Sequence[int], serves: Serves) -> str:
    """Only the first replica can lead."""
    if serves(replicas[0]):
        return ""
    return f"broker {replicas[0]}, the primary of partition {number}, is not available"
