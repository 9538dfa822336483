"""What a topic promises in its present state, in sentences.

The planner decides (:func:`tidelog.planner.model.outcome`); here its answers about every partition of a topic
become a few sentences.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import combinations
from typing import NamedTuple

from tidelog.page.facts import Facts
from tidelog.planner.faults import NONE, Faults, Placement, listed
from tidelog.planner.model import Outcome, outcome
from tidelog.planner.promises import Terms, heading_of, losses, waits_for
from tidelog.planner.terms import terms_of_settings
from tidelog.planner.what_if import Live, Place, leader_first, now, with_more

DEATHS_MAX = 3  # more at once are not looked for
NAMED_MAX = 4  # sets of brokers that a sentence names
COUNTS = {2: "Two", 3: "Three"}

OK, WARN, BAD = "ok", "warn", "bad"


class Limit(NamedTuple):
    """How many more deaths stop something, and which."""

    deaths: int  # 0: it has stopped already; DEATHS_MAX + 1: that many do not stop it
    sets: tuple[tuple[int, ...], ...] = ()


class Promise(NamedTuple):
    level: str
    short: str  # for a table
    sentences: tuple[str, ...]


def live_of(facts: Facts) -> Live:
    """What the planner needs of what was seen. Topics whose settings are not known yet are left out."""
    cluster = facts.cluster
    if cluster is None:
        return Live((), frozenset(), (), ())
    away = facts.away()
    racks = tuple((each.broker, each.rack) for each in cluster.brokers.values() if each.rack)
    places = tuple(
        place for name in cluster.topics if name in facts.settings for place in places_of(facts, name, racks)
    )
    return Live(tuple(cluster.brokers), away, cluster.quorum.voters, places, frozen=facts.frozen())


def places_of(facts: Facts, topic: str, racks: tuple[tuple[int, str], ...] = ()) -> list[Place]:
    cluster, settings = facts.cluster, facts.settings.get(topic)
    if cluster is None or settings is None or topic not in cluster.topics:
        return []
    texts = tuple((name, each.value) for name, each in settings.items() if each.value is not None)
    return [
        Place(
            topic,
            index,
            _terms(texts, len(each.replicas)),
            Placement(leader_first(each.leader, [*each.replicas]), cluster.quorum.voters, racks),
            each.leader,
            frozenset(each.in_sync),
        )
        for index, each in enumerate(cluster.topics[topic].partitions)
        if each.replicas
    ]


@lru_cache(maxsize=1024)
def _terms(settings: tuple[tuple[str, str], ...], replicas: int) -> Terms:
    return terms_of_settings(dict(settings), replicas)


# --- the present --------------------------------------------------------------------------------------------


def promise(places: Sequence[Place], away: frozenset[int], frozen: frozenset[int] = frozenset()) -> Promise:
    """Of one topic. Its weakest partition decides. ``frozen``: those away that may not have ended."""
    live = Live((), away, (), tuple(places), frozen=frozen)
    states = [(place, now(live, place)) for place in places]
    if not states:
        return Promise(OK, "", ())
    first = places[0]
    writes = _weakest(_limit(each.terms, each.where, before, _writes) for each, before in states)
    reads = _weakest(_limit(each.terms, each.where, before, _reads) for each, before in states)
    refused = sum(not _now(each, before).writes for each, before in states)
    unread = sum(not _now(each, before).reads for each, before in states)
    weakened = any(before != NONE and _touches(each, before) for each, before in states)
    level = BAD if refused or unread else WARN if weakened else OK
    sentences = (
        _acknowledged(first.terms),
        _stops("Writes", "are refused", refused, len(states), writes),
        _stops("Reads", "find no replica", unread, len(states), reads),
        f"An acknowledged record is lost only if {listed(_lost(first.terms), 'or')}.",
    )
    return Promise(level, _short(refused, len(states), writes), sentences)


def _touches(place: Place, before: Faults) -> bool:
    return bool(before.affected & frozenset(place.where.replicas))


def _now(place: Place, before: Faults) -> Outcome:
    return _outcome(place.terms, place.where, before)


def _writes(found: Outcome) -> bool:
    return found.writes


def _reads(found: Outcome) -> bool:
    return found.reads


_outcome = lru_cache(maxsize=1 << 14)(outcome)


@lru_cache(maxsize=1 << 12)
def _limit(terms: Terms, where: Placement, before: Faults, goes_on: Callable[[Outcome], bool]) -> Limit:
    """The smallest sets of further deaths that stop it."""
    if not goes_on(_outcome(terms, where, before)):
        return Limit(0)
    alive = sorted({*where.replicas, *where.controllers} - before.down)
    for deaths in range(1, DEATHS_MAX + 1):
        sets = tuple(
            dead
            for dead in combinations(alive, deaths)
            if not goes_on(_outcome(terms, where, with_more(before, Faults(dead=frozenset(dead)))))
        )
        if sets:
            return Limit(deaths, sets)
    return Limit(DEATHS_MAX + 1)


def _weakest(limits: Iterable[Limit]) -> Limit:
    """The fewest deaths of all partitions, with the sets of all that stop at so many."""
    found = list(limits)
    fewest = min(each.deaths for each in found)
    sets = {one: None for each in found if each.deaths == fewest for one in each.sets}
    return Limit(fewest, tuple(sorted(sets)))


# --- in words -----------------------------------------------------------------------------------------------


def _acknowledged(terms: Terms) -> str:
    where = waits_for(terms) if terms.replicas > 1 else "the only replica"
    synced = " and synced to disk there" if terms.synced else ""
    return f"A record is acknowledged (acks=all) when it is on {where}{synced}."


def _lost(terms: Terms) -> list[str]:
    """The planner's clauses, which stand alone, as parts of one sentence."""
    first, *others = losses(terms)
    holders = first.removesuffix(" are lost for good")
    of_them = (each.replace(holders, "they", 1) if each.startswith(holders) else each for each in others)
    return [first, *of_them]


def _stops(what: str, how: str, stopped: int, partitions: int, limit: Limit) -> str:
    if stopped:
        where = "" if partitions == 1 else f" in {stopped} of {partitions} partitions"
        return f"{what} {how} now{where}."
    return f"{what} go on. {_threat(what.lower(), limit)}"


def _threat(what: str, limit: Limit) -> str:
    if limit.deaths > DEATHS_MAX:
        return f"{COUNTS[DEATHS_MAX]} more deaths, whichever they are, do not stop {what}."
    more = "One more death stops" if limit.deaths == 1 else f"{COUNTS[limit.deaths]} more deaths stop"
    return f"{more} {what}: {_named(limit.sets)}."


def _named(sets: Sequence[tuple[int, ...]]) -> str:
    if len(sets[0]) == 1:
        return f"that of broker {listed([each[0] for each in sets], 'or')}"
    shown = [listed(each) for each in sets[:NAMED_MAX]]
    return f"brokers {'; '.join(shown)}{'; and other sets' if len(sets) > NAMED_MAX else ''}"


def _short(refused: int, partitions: int, writes: Limit) -> str:
    if refused:
        return "writes stopped" if refused == partitions else f"writes stopped in {refused} of {partitions}"
    if writes.deaths > DEATHS_MAX:
        return f"survives {DEATHS_MAX} deaths or more"
    if writes.deaths == 1:
        return "one more death stops writes"
    return f"survives {writes.deaths - 1} more death{'s' if writes.deaths > 2 else ''}"


# --- modes --------------------------------------------------------------------------------------------------

LETTERS = {"isr": "I", "primary-backup": "P", "quorum": "Q"}
"""How a mode is told apart without colour."""


def mode_words(terms: Terms) -> str:
    return heading_of(terms)
