"""A cluster at one moment, and what faults would do to each of its partitions.

``tidelog plan what-if``, the warnings before a broker is stopped and the page ask it.
"""

from collections import Counter
from itertools import combinations
from typing import Any, NamedTuple

from tidelog.planner.faults import Faults, Placement, brokers_named
from tidelog.planner.model import Outcome, outcome
from tidelog.planner.promises import Terms
from tidelog.types import majority

SHOWN_MAX = 5  # partitions in a warning


class Place(NamedTuple):
    topic: str
    partition: int
    terms: Terms
    where: Placement
    leader: int  # -1: none
    in_sync: frozenset[int]


class Live(NamedTuple):
    brokers: tuple[int, ...]
    away: frozenset[int]  # brokers and controllers that are fenced now, or accept no connections
    controllers: tuple[int, ...]
    places: tuple[Place, ...]
    decided: bool = True  # whether a majority of the controllers is there
    racks: tuple[tuple[int, str], ...] = ()  # broker and its rack, of those that have one
    frozen: frozenset[int] = frozenset()  # those away whose addresses do not refuse connections

    @property
    def ended(self) -> frozenset[int]:
        return self.away - self.frozen


def leader_first(leader: int, replicas: list[int]) -> tuple[int, ...]:
    if leader not in replicas:
        return tuple(replicas)
    return (leader, *(each for each in replicas if each != leader))


def now(live: Live, place: Place) -> Faults:
    """What is wrong already: brokers that are fenced, and replicas that have not caught up."""
    behind = frozenset(place.where.replicas) - place.in_sync - live.away
    left = frozenset(live.controllers) - live.ended
    silent = not live.decided and len(left) >= majority(len(live.controllers))
    return Faults(
        slow=behind,
        dead=live.ended,
        controllers_lost=not live.decided,
        controllers_silent=silent,
        frozen=live.away & live.frozen,
    )


def with_more(before: Faults, more: Faults) -> Faults:
    """Both. A broker that is down does not come back because it is slow or cut off as well, and nothing tells
    others that one without power has ended.
    """
    power_lost = before.power_lost | more.power_lost
    disk_lost = before.disk_lost | more.disk_lost
    dead = (before.dead | more.dead) - power_lost - disk_lost
    cut_off = before.cut_off | more.cut_off
    frozen = (before.frozen | more.frozen) - dead - power_lost - disk_lost
    slow = (before.slow | more.slow) - dead - cut_off - power_lost - disk_lost - frozen
    lost = before.controllers_lost or more.controllers_lost
    silent = before.controllers_silent or more.controllers_silent
    return Faults(slow, dead, cut_off, power_lost, disk_lost, lost, silent, frozen)


class Change(NamedTuple):
    """What the faults do to one partition, compared with now."""

    place: Place
    before: Outcome
    after: Outcome
    below_minimum: bool

    def row(self) -> dict[str, Any]:
        return {
            "topic": self.place.topic,
            "partition": self.place.partition,
            "mode": self.place.terms.mode,
            "leader": None if self.place.leader < 0 else self.place.leader,
            "writes": _step(self.before.writes, self.after.writes),
            "reads": _step(self.before.reads, self.after.reads),
            "below_minimum": self.below_minimum,
            "loss": self.after.loss or "none",
        }


def _step(before: bool, after: bool) -> str:
    if after:
        return "go on"
    return "stop" if before else "stopped already"


def changes(live: Live, faults: Faults) -> list[Change]:
    """Of partitions with their replicas in the same places, one is tried: ten thousand of them are a few
    hundred different ones.
    """
    known: dict[Place, Change] = {}
    found = []
    for place in live.places:
        like = _like(place)
        change = known.get(like)
        if change is None:
            change = known[like] = _change(live, place, faults)
        found.append(change._replace(place=place))
    return found


def _like(place: Place) -> Place:
    """What all partitions are that the same faults hit in the same way."""
    return place._replace(topic="", partition=0)


def _change(live: Live, place: Place, faults: Faults) -> Change:
    before = now(live, place)
    after = with_more(before, faults)
    left = frozenset(place.where.replicas) - after.affected
    return Change(
        place,
        outcome(place.terms, place.where, before),
        outcome(place.terms, place.where, after),
        len(left) < place.terms.copies,
    )


def summary(changes: list[Change]) -> str:
    """All partitions in one sentence."""
    writes = sum(each.before.writes and not each.after.writes for each in changes)
    reads = sum(each.before.reads and not each.after.reads for each in changes)
    lost = sum(bool(each.after.loss) for each in changes)
    stops = f"writes stop in {writes}, reads in {reads}"
    if not writes and not reads:
        stops = "writes and reads go on wherever they do now"
    loses = f"acknowledged records may be lost in {lost}" if lost else "no acknowledged record is lost"
    return f"Of {_partitions(len(changes))}: {stops}; {loses}."


class Worst(NamedTuple):
    brokers: tuple[int, ...]
    writes: int  # partitions whose writes stop
    reads: int

    def words(self) -> str:
        if not self.writes and not self.reads:
            return "none stops anything"
        return (
            f"{brokers_named(self.brokers)} down: writes stop in {_partitions(self.writes)}, reads in "
            f"{_partitions(self.reads)}"
        )


def _partitions(count: int) -> str:
    return f"{count} partition{'' if count == 1 else 's'}"


def worst(live: Live, size: int) -> Worst | None:
    """The brokers whose death would stop the most now."""
    alive = [each for each in live.brokers if each not in live.away]
    same = Counter(map(_like, live.places))
    known: dict[tuple[Place, frozenset[int]], tuple[bool, bool]] = {}
    rows = [_stops(live, same, dead, known) for dead in combinations(alive, size)]
    return max(rows, key=lambda each: (each.writes, each.reads), default=None)


def _stops(
    live: Live,
    same: Counter[Place],
    dead: tuple[int, ...],
    known: dict[tuple[Place, frozenset[int]], tuple[bool, bool]],
) -> Worst:
    """Partitions that are alike are counted, not tried again. ``known``: what brokers do whose death matters
    to such a place.
    """
    writes = reads = 0
    for place, count in same.items():
        hit = frozenset(dead).intersection((*place.where.replicas, *live.controllers))
        stops = known.get((place, hit))
        if stops is None:
            found = _change(live, place, Faults(dead=hit))
            stops = (
                found.before.writes and not found.after.writes,
                found.before.reads and not found.after.reads,
            )
            known[place, hit] = stops
        writes += count * stops[0]
        reads += count * stops[1]
    return Worst(dead, writes, reads)


def warning(live: Live, broker: int) -> str:
    """What a stop of this broker would do now; empty: nothing that users would see."""
    found = changes(live, Faults(dead=frozenset({broker})))
    writes = [each.place for each in found if each.before.writes and not each.after.writes]
    reads = [each.place for each in found if each.before.reads and not each.after.reads]
    stops = [
        f"{what} stop in {_shown(places)}"
        for what, places in (("writes", writes), ("reads", reads))
        if places
    ]
    if not stops:
        return ""
    more = f"`tidelog plan what-if --dead {broker}` says more"
    return f"If broker {broker} stops now, {', and '.join(stops)}; {more}."


def _shown(places: list[Place]) -> str:
    """Internal partitions come last and as a number: there are dozens of each of their topics."""
    own = [each for each in places if not each.topic.startswith("__")]
    internal = len(places) - len(own)
    words = [f"{each.topic}-{each.partition}" for each in own[:SHOWN_MAX]]
    if len(own) > SHOWN_MAX:
        words.append(f"{len(own) - SHOWN_MAX} more")
    if internal:
        topics = ", ".join(sorted({each.topic for each in places if each.topic.startswith("__")}))
        words.append(f"{_partitions(internal)} of {topics}")
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))
