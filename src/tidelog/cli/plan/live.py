"""A running cluster: where the replicas of its topics are, and what faults would do to them now."""

from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import Any, NamedTuple

from tidelog.cli.cluster import admin as cluster_admin
from tidelog.cli.cluster_client import ClusterClient
from tidelog.cli.failure import CommandFailed
from tidelog.cli.topic.promised import terms_of
from tidelog.planner.faults import Faults, Placement, brokers_named, listed
from tidelog.planner.model import Outcome, outcome
from tidelog.planner.promises import Terms


class Place(NamedTuple):
    topic: str
    partition: int
    terms: Terms
    where: Placement
    leader: int  # -1: none
    in_sync: frozenset[int]


class Live(NamedTuple):
    brokers: tuple[int, ...]
    away: frozenset[int]  # fenced now
    controllers: tuple[int, ...]
    places: tuple[Place, ...]


def look(client: ClusterClient, terms: Mapping[str, Terms]) -> Live:
    """``terms``: of the topics that matter."""
    cluster = cluster_admin.look(client)
    controllers = cluster_admin.controllers_of(client)
    racks = tuple((each.broker, each.rack or "") for each in cluster.brokers.values() if each.rack)
    places = tuple(
        Place(
            each.topic,
            each.partition,
            terms[each.topic]._replace(replicas=len(each.replicas)),
            Placement(_leader_first(each.leader, each.replicas, terms[each.topic]), controllers, racks),
            each.leader,
            frozenset(each.in_sync),
        )
        for each in cluster.partitions
        if each.topic in terms
    )
    away = frozenset(each.broker for each in cluster.brokers.values() if each.fenced)
    return Live(tuple(cluster.brokers), away, controllers, places)


def _leader_first(leader: int, replicas: list[int], terms: Terms) -> tuple[int, ...]:
    if leader not in replicas:
        return tuple(replicas)
    return (leader, *(each for each in replicas if each != leader))


def settings_of(descriptions: Iterable[Mapping[str, Any]]) -> dict[str, Terms]:
    return {each["name"]: terms_of(each) for each in descriptions}


def now(live: Live, place: Place) -> Faults:
    """What is wrong already: brokers that are fenced, and replicas that have not caught up."""
    behind = frozenset(place.where.replicas) - place.in_sync - live.away
    return Faults(slow=behind, dead=live.away)


def with_more(before: Faults, more: Faults) -> Faults:
    """Both; a broker has the worst of its faults."""
    hit = more.affected
    return Faults(
        before.slow - hit | more.slow,
        before.dead - hit | more.dead,
        before.cut_off - hit | more.cut_off,
        before.power_lost - hit | more.power_lost,
        before.disk_lost - hit | more.disk_lost,
        before.controllers_lost or more.controllers_lost,
    )


def check_known(live: Live, faults: Faults) -> None:
    known = {*live.brokers, *live.controllers}
    unknown = sorted(faults.affected - known)
    if unknown:
        raise CommandFailed(
            f"The cluster does not have {brokers_named(unknown)}; its brokers are {listed(live.brokers)}."
        )


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
            "leader": self.place.leader,
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
    return [_change(live, place, faults) for place in live.places]


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


class Worst(NamedTuple):
    brokers: tuple[int, ...]
    writes: int  # partitions whose writes stop
    reads: int

    def words(self) -> str:
        return (
            f"{brokers_named(self.brokers)} down: writes stop in {_partitions(self.writes)}, reads in "
            f"{_partitions(self.reads)}"
        )


def _partitions(count: int) -> str:
    return f"{count} partition{'' if count == 1 else 's'}"


def worst(live: Live, size: int) -> Worst | None:
    """The brokers whose death would stop the most now."""
    alive = [each for each in live.brokers if each not in live.away]
    rows = [_stops(live, dead) for dead in combinations(alive, size)]
    return max(rows, key=lambda each: (each.writes, each.reads), default=None)


def _stops(live: Live, dead: tuple[int, ...]) -> Worst:
    found = changes(live, Faults(dead=frozenset(dead)))
    writes = sum(each.before.writes and not each.after.writes for each in found)
    reads = sum(each.before.reads and not each.after.reads for each in found)
    return Worst(dead, writes, reads)
