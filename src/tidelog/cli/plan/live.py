"""A running cluster: where the replicas of its topics are, and what faults would do to them now."""

from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

from tidelog.cli.cluster import admin as cluster_admin
from tidelog.cli.cluster.health import PROBE_S, controllers_of, find_controllers
from tidelog.cli.cluster_client import ClusterClient
from tidelog.cli.config import admin as setting_admin
from tidelog.cli.failure import CommandFailed
from tidelog.cli.reach import refused
from tidelog.cli.topic.promised import terms_of
from tidelog.planner.faults import Faults, Placement, brokers_named, listed
from tidelog.planner.model import Outcome, outcome
from tidelog.planner.promises import Terms

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

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


def look(client: ClusterClient, admin: "AdminClient", *, internal: bool = False) -> Live:
    """Everything at once: brokers, controllers, and every partition with its topic's settings."""
    cluster = cluster_admin.look(client)
    controllers = controllers_of(client)
    found: dict[str, list[cluster_admin.Partition]] = {}
    for each in cluster.partitions:
        if internal or not each.topic.startswith("__"):
            found.setdefault(each.topic, []).append(each)
    settings = setting_admin.read_topics(admin, list(found)) if found else {}
    racks = tuple((each.broker, each.rack) for each in cluster.brokers.values() if each.rack)
    places = tuple(
        _place(each, _terms(settings.get(topic, []), partitions), controllers, racks)
        for topic, partitions in found.items()
        for each in partitions
    )
    addresses = {each.broker: each.address for each in cluster.brokers.values()}
    failures = refused([*addresses.values()], PROBE_S)
    # Without controllers, dead brokers are still up in the metadata.
    silent = client.silent(address for address in addresses.values() if address not in failures)
    down = {broker for broker, address in addresses.items() if address in failures or address in silent}
    found_controllers = find_controllers(client)
    away = frozenset(cluster.fenced | down | (found_controllers.down & frozenset(controllers)))
    return Live(tuple(cluster.brokers), away, controllers, places, found_controllers.decide)


def _terms(settings: list[dict[str, Any]], partitions: list[cluster_admin.Partition]) -> Terms:
    return terms_of(
        {"settings": settings, "partitions": [{"replicas": each.replicas} for each in partitions]}
    )


def _place(
    partition: cluster_admin.Partition,
    terms: Terms,
    controllers: tuple[int, ...],
    racks: tuple[tuple[int, str], ...],
) -> Place:
    return Place(
        partition.topic,
        partition.partition,
        terms._replace(replicas=len(partition.replicas)),
        Placement(_leader_first(partition.leader, partition.replicas), controllers, racks),
        partition.leader,
        frozenset(partition.in_sync),
    )


def _leader_first(leader: int, replicas: list[int]) -> tuple[int, ...]:
    if leader not in replicas:
        return tuple(replicas)
    return (leader, *(each for each in replicas if each != leader))


def now(live: Live, place: Place) -> Faults:
    """What is wrong already: brokers that are fenced, and replicas that have not caught up."""
    behind = frozenset(place.where.replicas) - place.in_sync - live.away
    return Faults(slow=behind, dead=live.away, controllers_lost=not live.decided)


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
    rows = [_stops(live, dead) for dead in combinations(alive, size)]
    return max(rows, key=lambda each: (each.writes, each.reads), default=None)


def _stops(live: Live, dead: tuple[int, ...]) -> Worst:
    found = changes(live, Faults(dead=frozenset(dead)))
    writes = sum(each.before.writes and not each.after.writes for each in found)
    reads = sum(each.before.reads and not each.after.reads for each in found)
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
