"""Placement of replicas: evenly over the brokers, never two of one partition on the same broker, and on
different racks as far as there are enough.

Partitions are placed one after the other, each on the brokers with the smallest load: first within the topic,
then in the whole cluster. The number of a topic's leaders differs by at most one between brokers, and the
number of its replicas by at most two unless racks require more. Among brokers with equal load, followers go
to the broker that has the fewest followers of this leader: so the load of a dead broker is spread over all
others.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import NamedTuple

from tidelog.errors import ErrorCode, TidelogError

Assignment = Sequence[int]
"""Replicas of one partition; the first one is preferred as leader."""


class Site(NamedTuple):
    """A broker that can hold replicas."""

    broker_id: int
    rack: str | None = None  # all brokers without a rack count as one rack
    serves: bool = True  # False: it gets replicas only if there are too few others, and leads nothing
    may_lead: bool = True  # False: it is the first replica only if no other broker can be


def spread(
    sites: Iterable[Site],
    partitions: int,
    replicas: int,
    *,
    topic: Iterable[Assignment] = (),
    elsewhere: Iterable[Assignment] = (),
) -> list[list[int]]:
    """Replicas for ``partitions`` new partitions of a topic that has some already (``topic``), in a cluster
    that has others (``elsewhere``).
    """
    return list(spreading(sites, partitions, replicas, topic=topic, elsewhere=elsewhere))


def spreading(
    sites: Iterable[Site],
    partitions: int,
    replicas: int,
    *,
    topic: Iterable[Assignment] = (),
    elsewhere: Iterable[Assignment] = (),
) -> Iterator[list[int]]:
    """The same as an iterator: ten thousand partitions take long."""
    ring = sorted(sites, key=lambda site: site.broker_id)
    check_room(ring, replicas)
    placer = _Placer(ring, topic, elsewhere)
    return (placer.place(replicas) for _ in range(partitions))


class _Placer:
    def __init__(
        self, ring: Sequence[Site], topic: Iterable[Assignment], elsewhere: Iterable[Assignment]
    ) -> None:
        self._position = {site: place for place, site in enumerate(ring)}
        able = [site for site in ring if site.serves]
        self._leaders = [site for site in able if site.may_lead] or able
        self._led: Counter[int] = Counter()
        self._held: Counter[int] = Counter()
        self._pairs: Counter[tuple[int, int]] = Counter()  # (leader, follower)
        self._heirs: Counter[tuple[int, int]] = Counter()  # (leader, first follower)
        for assignment in topic:
            self._count(assignment)
        others = list(elsewhere)
        # These loops run in C: a cluster may have ten thousand partitions, and this happens for every new
        # topic.
        self._led_elsewhere = Counter(map(itemgetter(0), others))
        self._held_elsewhere = Counter(chain.from_iterable(others))

    def place(self, replicas: int) -> list[int]:
        leader = min(self._leaders, key=self._leader_key)
        chosen = [leader]
        racks = Counter([leader.rack])
        least = min(self._held[site.broker_id] for site in self._position)
        while len(chosen) < replicas:
            free = [site for site in self._position if site not in chosen]
            follower = min(free, key=lambda site: self._follower_key(site, leader, racks, least))
            chosen.append(follower)
            racks[follower.rack] += 1
        first, *followers = (site.broker_id for site in chosen)
        followers.sort(key=lambda broker: self._heirs[first, broker])
        assignment = [first, *followers]
        self._count(assignment)
        return assignment

    def _leader_key(self, site: Site) -> tuple[int, ...]:
        broker = site.broker_id
        return (
            self._led[broker],
            self._held[broker],
            self._led_elsewhere[broker],
            self._held_elsewhere[broker],
            self._position[site],
        )

    def _follower_key(
        self, site: Site, leader: Site, racks: Mapping[str | None, int], least: int
    ) -> tuple[int, ...]:
        broker = site.broker_id
        return (
            not site.serves,
            racks[site.rack],
            (self._held[broker] - least) // 2,
            self._pairs[leader.broker_id, broker],
            self._held[broker],
            self._held_elsewhere[broker],
            (self._position[site] - self._position[leader]) % len(self._position),
        )

    def _count(self, assignment: Assignment) -> None:
        leader = assignment[0]
        self._led[leader] += 1
        self._held.update(assignment)
        self._pairs.update((leader, follower) for follower in assignment[1:])
        self._heirs.update((leader, follower) for follower in assignment[1:2])


def check_room(sites: Sequence[Site], replicas: int) -> None:
    """Refuse more replicas than there are brokers."""
    if replicas > len(sites):
        raise _too_many(replicas, f"the number of brokers ({len(sites)})")
    if not any(site.serves for site in sites):
        raise _too_many(replicas, "the number of available brokers (0)")


def _too_many(replicas: int, what: str) -> TidelogError:
    return TidelogError(
        f"replication factor {replicas} is larger than {what}", ErrorCode.INVALID_REPLICATION_FACTOR
    )


def check_manual(
    assignments: Mapping[int, Sequence[int]],
    brokers: Sequence[int],
    *,
    first_partition: int,
    replicas: int | None = None,
) -> list[list[int]]:
    """A user's own placement, as a list by partition. Refused if it has gaps, duplicate brokers or unknown
    brokers.

    Every partition must have the same number of replicas: ``replicas`` if the topic has partitions already.
    """
    expected = range(first_partition, first_partition + len(assignments))
    if sorted(assignments) != list(expected):
        raise _refuse(f"partitions must be numbered {expected.start} to {expected.stop - 1} without gaps")
    factor = len(assignments[first_partition]) if replicas is None else replicas
    result = []
    for number in expected:
        placed = list(assignments[number])
        if not placed:
            raise _refuse(f"partition {number} has no replicas")
        if len(set(placed)) != len(placed):
            raise _refuse(f"partition {number} names a broker twice: {placed}")
        if len(placed) != factor:
            raise _refuse(f"partition {number} has {len(placed)} replicas, the others have {factor}")
        strangers = [broker for broker in placed if broker not in brokers]
        if strangers:
            raise _refuse(f"partition {number} names brokers that do not exist: {strangers}")
        result.append(placed)
    return result


def _refuse(message: str) -> TidelogError:
    return TidelogError(message, ErrorCode.INVALID_REPLICA_ASSIGNMENT)
