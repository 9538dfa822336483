"""A running cluster: where the replicas of its topics are now, for questions about faults."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tidelog.cli.cluster import admin as cluster_admin
from tidelog.cli.cluster.controllers import CHECK_S, controllers_of, find_controllers
from tidelog.cli.cluster_client import ClusterClient
from tidelog.cli.config import admin as setting_admin
from tidelog.cli.failure import CommandFailed
from tidelog.cli.reach import has_ended, refused
from tidelog.cli.topic.promised import terms_of
from tidelog.planner.faults import Faults, Placement, brokers_named, listed
from tidelog.planner.needs import Candidate, assess
from tidelog.planner.promises import Terms
from tidelog.planner.what_if import Live, Place, leader_first

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient


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
    failures = refused([*addresses.values()], CHECK_S)
    # Without controllers, dead brokers are still up in the metadata.
    silent = client.silent(address for address in addresses.values() if address not in failures)
    down = {broker for broker, address in addresses.items() if address in failures or address in silent}
    found_controllers = find_controllers(client)
    away = frozenset(cluster.fenced | down | (found_controllers.down & frozenset(controllers)))
    ended = found_controllers.ended | {
        broker for broker, address in addresses.items() if has_ended(failures.get(address))
    }
    decide = found_controllers.decide
    return Live(tuple(cluster.brokers), away, controllers, places, decide, racks, away - ended)


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
        Placement(leader_first(partition.leader, partition.replicas), controllers, racks),
        partition.leader,
        frozenset(partition.in_sync),
    )


def weakest(places: Sequence[Place]) -> tuple[Place, Candidate]:
    """The partition with the weakest promise, and what it is. Partitions whose brokers are alike are assessed
    once.
    """
    known: dict[tuple[Terms, object], Candidate] = {}

    def promised(place: Place) -> Candidate:
        key = place.terms, _same(place.where)
        if key not in known:
            known[key] = assess(place.terms, place.where)
        return known[key]

    def weakness(place: Place) -> tuple[int, ...]:
        found = promised(place)
        return found.writes, found.reads, found.disks, found.racks, place.terms.replicas, place.partition

    least = min(places, key=weakness)
    return least, promised(least)


def _same(where: Placement) -> object:
    """The same for placements that differ in the numbers of brokers only."""
    brokers = (*where.replicas, *where.separate_controllers)
    racks = [where.rack_of(each) for each in brokers]
    inside = [(each in where.replicas, each in where.controllers) for each in brokers]
    return tuple(inside), tuple(racks.index(each) if each else -1 for each in racks)


def usual_place(live: Live, replicas: int) -> Placement:
    """Where a new topic's replicas may be: on brokers of different racks, as far as there are enough."""
    racks = live.racks
    turns: dict[str, int] = {}

    def turn(broker: int) -> tuple[int, int]:
        rack = dict(racks).get(broker, "")
        turns[rack] = turns.get(rack, 0) + 1
        return turns[rack], broker

    order = sorted(sorted(live.brokers), key=turn) if racks else sorted(live.brokers)
    return Placement(tuple(order[:replicas]), live.controllers, racks)


def check_known(live: Live, faults: Faults) -> None:
    known = {*live.brokers, *live.controllers}
    unknown = sorted(faults.affected - known)
    if unknown:
        raise CommandFailed(
            f"The cluster does not have {brokers_named(unknown)}; its brokers are {listed(live.brokers)}."
        )
