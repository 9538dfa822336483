"""What a team must survive, and which settings satisfy it: search over modes, replicas, copies and
flushing.
"""

from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice, product
from typing import NamedTuple

from tidelog.config.modes import ISR, LEAST_REPLICAS, MODES, PRIMARY_BACKUP, QUORUM
from tidelog.planner import racks as rack_sets
from tidelog.planner.fault_sets import (
    REPLICAS_MAX,
    Pattern,
    losing,
    sentence,
    stopping_reads,
    stopping_writes,
)
from tidelog.planner.faults import Faults, Placement, default_controllers, listed
from tidelog.planner.losses import loss
from tidelog.planner.model import moment
from tidelog.planner.outages import writes_go_on
from tidelog.planner.promises import RULES, Terms, survives_destruction
from tidelog.planner.racks import spread
from tidelog.planner.racks import tolerated as racks_tolerated
from tidelog.planner.table import failures_tolerated
from tidelog.types import majority

STRICT = "strict"  # Every producer stays with its partition.
ANY = "any"  # Producers may move to another partition.

BROKERS_MAX = 1000
GIVEN_UP_MAX = 3  # needs at once
COMBINATIONS_SHOWN = 3  # where no single need is enough
_PREFERRED = {ISR: 0, QUORUM: 1, PRIMARY_BACKUP: 2}
"""Of settings that cost the same."""


class Needs(NamedTuple):
    brokers: int = 3
    writes: int = 0  # dead brokers during which writes go on
    reads: int = 0  # dead brokers during which committed records can be read
    data: int = 0  # disks lost for good without losing an acknowledged record
    power: bool = False  # a power failure of all brokers loses nothing
    order: str = STRICT
    replicas_max: int = 0  # disk budget: copies of each record; 0: as many as there are brokers
    mode: str = ""  # only this one; empty: any
    separate_controllers: bool = False  # on machines of their own
    racks: int = 0  # over which the brokers are spread evenly; 0: not said
    racks_lost: int = 0  # racks without power during which writes go on, and that lose nothing

    @property
    def most_replicas(self) -> int:
        return min(self.brokers, REPLICAS_MAX, self.replicas_max or self.brokers)

    def placement(self, replicas: int) -> Placement:
        return _placed(replicas, self.brokers, self.racks, self.separate_controllers)


@cache
def _placed(replicas: int, brokers: int, racks: int, separate: bool) -> Placement:
    controllers = () if separate else default_controllers(range(1, brokers + 1))
    return Placement(tuple(range(1, replicas + 1)), controllers, spread(brokers, racks))


class Candidate(NamedTuple):
    terms: Terms
    where: Placement
    writes: int  # dead brokers tolerated
    reads: int
    data: int  # lost disks tolerated by the records
    power: bool  # survives a power failure of all
    racks: int = 0  # racks without power tolerated, for writes and data
    disks: int = 0  # lost disks tolerated at once, also by the metadata of the cluster

    @property
    def cost(self) -> tuple[int, ...]:
        """Disks first, then what a write waits for: a sync, and how many replicas."""
        terms = self.terms
        waits = terms.replicas if terms.mode == ISR else terms.copies
        return terms.replicas, terms.synced, waits, _PREFERRED.get(terms.mode, len(_PREFERRED))

    def reaches(self) -> dict[str, int]:
        """By the names of the needs."""
        return {"writes": self.writes, "reads": self.reads, "data": self.disks, "racks_lost": self.racks}

    @property
    def family(self) -> str:
        if self.terms.mode != PRIMARY_BACKUP:
            return self.terms.mode
        return f"{PRIMARY_BACKUP}, {'1 copy' if self.terms.copies == 1 else 'double write'}"


class Rejected(NamedTuple):
    family: str
    reason: str


class Found(NamedTuple):
    candidates: tuple[Candidate, ...]  # that satisfy the needs, the cheapest first
    rejected: tuple[Rejected, ...]
    give_up: tuple[str, ...]  # where there are none: needs that could be given up, the smallest first


def search(needs: Needs) -> Found:
    every = sorted(candidates(needs), key=lambda each: each.cost)
    good = [each for each in every if not unmet(each, needs)]
    families = dict.fromkeys(each.family for each in every)
    rejected = []
    for family in families:
        if any(each.family == family for each in good):
            continue
        own = [each for each in every if each.family == family]
        best = min(own, key=lambda each: _distance(each, needs))
        rejected.append(Rejected(family, reason(best, needs)))
    return Found(tuple(good), tuple(rejected), () if good else tuple(relaxations(needs)))


def candidates(needs: Needs) -> Iterator[Candidate]:
    for mode in MODES:
        if needs.mode and mode != needs.mode:
            continue
        for replicas in range(LEAST_REPLICAS.get(mode, 1), needs.most_replicas + 1):
            if mode == QUORUM and replicas % 2 == 0 and needs.reads < replicas - 1:
                continue  # One more copy, and nothing more survived, except for readers.
            for minimum in range(1, replicas + 1) if mode != QUORUM else (1,):
                # A majority that does not sync can forget what it acknowledged: its default is to sync.
                for synced in (False, True) if mode != QUORUM else (True,):
                    terms = Terms(mode, replicas, min_in_sync=minimum, synced=synced)
                    yield assess(terms, needs.placement(replicas), needs.order, needs.brokers)


@cache
def assess(terms: Terms, where: Placement, order: str = STRICT, brokers: int = 0) -> Candidate:
    writes, reads = _tolerated(terms._replace(synced=False), where)
    if order == ANY and not RULES[terms.mode].leader_can_be_replaced:
        writes = max(writes, _tolerated_by_moving(terms._replace(synced=False), brokers))
    everything = Faults(power_lost=frozenset(where.replicas))
    keeps = not loss(terms, where, everything)
    data = survives_destruction(terms) if terms.acks == "all" or RULES[terms.mode].acks_1_is_all else 0
    racks = racks_tolerated(terms, where)
    if where.racks and order == ANY and not RULES[terms.mode].leader_can_be_replaced:
        racks = max(racks, rack_sets.tolerated_by_moving(terms, where, brokers))
    disks = min(data, controllers_disks(where))
    return Candidate(terms, where, writes, reads, data, keeps, racks, disks)


@cache
def _tolerated(terms: Terms, where: Placement) -> tuple[int, int]:
    return failures_tolerated(terms, where)


@cache
def _tolerated_by_moving(terms: Terms, brokers: int) -> int:
    """Dead brokers with which some partition of the topic takes writes: every broker is the primary of some,
    and the next ones are its backups.

    The most brokers alive without a write: a primary needs ``needed`` replicas of its own, with itself. So of
    any ``needed`` neighbours that live, the first and the last are at least as many places apart as there are
    replicas. Around the ring these distances add up to ``needed - 1`` rounds, and evenly spread brokers come
    as close to it as whole numbers allow.
    """
    where = Placement(tuple(range(1, terms.replicas + 1)))
    needed = next(
        alive
        for alive in range(1, terms.replicas + 1)
        if writes_go_on(terms, moment(where, Faults(dead=frozenset(where.replicas[alive:]))))
    )
    alive_without_writes = (needed - 1) * brokers // terms.replicas
    return brokers - alive_without_writes - 1


def controllers_disks(where: Placement) -> int:
    """How many disks of controllers may be lost. Without a majority that has its data there are no metadata,
    and no broker starts: records that another disk still has are not served. Controllers elsewhere are not
    counted.
    """
    known = len(where.controllers)
    return known - majority(known) if known else REPLICAS_MAX


def metadata_lost(terms: Terms, where: Placement) -> str:
    """Which lost disks take the metadata before they take the records; empty: none do."""
    tolerated = controllers_disks(where)
    if survives_destruction(terms) <= tolerated:
        return ""
    known, lost = where.controllers, tolerated + 1
    if len(known) == 1:
        return f"broker {known[0]}, which is the controller, loses its disk"
    count_of = "one of the" if lost == 1 else f"any {lost} of the"
    who = f"{count_of} brokers {listed(known)}, which are the controllers,"
    return f"{who} {'loses its disk' if lost == 1 else 'lose their disks'}"


# --- reasons ------------------------------------------------------------------------------------------------


def unmet(candidate: Candidate, needs: Needs) -> list[str]:
    """The needs that these settings do not satisfy, as names of fields."""
    short = {name for name, found in candidate.reaches().items() if found < getattr(needs, name)}
    if needs.power and not candidate.power:
        short.add("power")
    return [name for name in ("writes", "reads", "data", "power", "racks_lost") if name in short]


def reason(best: Candidate, needs: Needs) -> str:
    """Why the best settings of a family are not enough: the fault that stops them."""
    terms, where = best.terms, best.where
    settings = in_words(terms)
    name = unmet(best, needs)[0]
    if name == "power":
        return f"{settings} may lose records in a power failure of all brokers."
    moving = needs.order == ANY and not RULES[terms.mode].leader_can_be_replaced
    if name == "racks_lost":
        why = _moving_reason(best.racks, "rack") if moving else _racks_reason(terms, where)
        return f"{settings}: {why} ({count(needs.racks_lost, 'rack')} asked for)."
    if name == "writes" and moving:
        return f"{settings}: {_moving_reason(best.writes, 'broker')} ({needs.writes} asked for)."
    patterns, does, counted = _KINDS[name]
    found = patterns(terms, where)
    fault = sentence(terms, where, found[0]).rstrip(".") if found else "a broker fails"
    wanted = f"{count(getattr(needs, name), counted)} asked for"
    controllers = metadata_lost(terms, where)
    if name == "data" and controllers:
        return f"{settings}: the metadata of the cluster is lost when {controllers} ({wanted})."
    return f"{settings}: {does} when {fault[:1].lower()}{fault[1:]} ({wanted})."


def _moving_reason(tolerated: int, what: str) -> str:
    """Producers use the partitions of other primaries."""
    more = ", or records may be lost" if what == "rack" else ""
    return f"with {count(tolerated + 1, what)} lost, there may be no partition that takes writes{more}"


def _racks_reason(terms: Terms, where: Placement) -> str:
    """The smallest set of racks that stops or loses something."""
    kinds = (
        (rack_sets.stopping_writes(terms, where), "no write is acknowledged"),
        (rack_sets.losing(terms, where), "a record may be lost"),
    )
    found, does = min((each for each in kinds if each[0]), key=lambda each: len(each[0][0].racks))
    fault = rack_sets.sentences(found, where)[0].rstrip(".")
    return f"{does} when {fault[:1].lower()}{fault[1:]}"


def count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


_KINDS: dict[str, tuple[Callable[[Terms, Placement], list[Pattern]], str, str]] = {
    "writes": (stopping_writes, "no write is acknowledged", "dead broker"),
    "reads": (stopping_reads, "nothing can be read", "dead broker"),
    "data": (losing, "a record may be lost", "lost disk"),
}


def _distance(candidate: Candidate, needs: Needs) -> tuple[object, ...]:
    """How far from the needs. A single replica is no example of a family."""
    alone = candidate.terms.replicas == 1
    by_records = max(0, needs.data - candidate.data)
    return len(unmet(candidate, needs)), _shortfall(candidate, needs), by_records, alone, candidate.cost


def _shortfall(candidate: Candidate, needs: Needs) -> int:
    return sum(max(0, getattr(needs, name) - found) for name, found in candidate.reaches().items())


def in_words(terms: Terms) -> str:
    replicas = count(terms.replicas, "replica")
    more = {
        f"min.insync.replicas={terms.min_in_sync}": terms.mode != QUORUM,
        "flushed": terms.synced,
        "unclean elections": terms.unclean,
        "writes go on without late backups": terms.may_degrade,
        f"acks={terms.acks}": terms.acks != "all",
    }
    return ", ".join([f"{terms.mode} with {replicas}", *(words for words, holds in more.items() if holds)])


def relaxations(needs: Needs) -> list[str]:
    """What could be given up or made smaller so that settings exist, the smallest first: single needs, or
    else two or three together.
    """
    for together in range(1, GIVEN_UP_MAX + 1):
        found = list(islice(_relaxations(needs, together), None if together == 1 else COMBINATIONS_SHOWN))
        if found:
            return found
    return []


def _relaxations(needs: Needs, together: int) -> Iterator[str]:
    seen: set[tuple[str, ...]] = set()
    for _, names, words, other in sorted(_combined(needs, together), key=lambda each: each[0]):
        if names not in seen and any(not unmet(each, other) for each in candidates(other)):
            seen.add(names)
            yield ", and ".join(words)


Combined = tuple[int, tuple[str, ...], tuple[str, ...], Needs]
"""Several steps."""


def _combined(needs: Needs, together: int, known: tuple[str, ...] = ()) -> Iterator[Combined]:
    """In one order of the names only."""
    for size, name, words, other in _weaker(needs):
        if known and name <= known[-1]:
            continue
        if together == 1:
            yield size, (*known, name), (words,), other
            continue
        for more, names, others, weakest in _combined(other, together - 1, (*known, name)):
            yield size + more, names, (words, *others), weakest


Step = tuple[int, str, str, Needs]
"""Size of the step, what is given up, in words, the needs without it."""


def _weaker(needs: Needs) -> Iterator[Step]:
    yield from _fewer(needs)
    yield from _more_machines(needs)
    power = "without --power: a power failure of all brokers may lose records"
    apart = "--separate-controllers: controllers on machines of their own"
    moving = "--order any: producers may move to other partitions"
    if needs.order == STRICT:
        yield 1, "order", moving, needs._replace(order=ANY)
    if needs.mode:
        yield 1, "mode", f"another mode than {needs.mode}", needs._replace(mode="")
    if needs.replicas_max:
        copies = "copy" if needs.replicas_max == 1 else "copies"
        words = f"more than {needs.replicas_max} {copies} of each record"
        yield 1, "replicas", words, needs._replace(replicas_max=0)
    if needs.power:
        yield 1, "power", power, needs._replace(power=False)
    if not needs.separate_controllers:
        yield 1, "controllers", apart, needs._replace(separate_controllers=True)


_COUNTED = {
    "writes": "--survive-writes",
    "reads": "--survive-reads",
    "data": "--survive-data",
    "racks_lost": "--survive-racks",
}


def _fewer(needs: Needs) -> Iterator[Step]:
    for name, option in _COUNTED.items():
        wanted = getattr(needs, name)
        for less in _reached(needs._replace(writes=0, reads=0, data=0, racks_lost=0), name):
            if less < wanted:
                words = f"{option} {less} instead of {wanted}"
                yield wanted - less, name, words, Needs(**{**needs._asdict(), name: less})


@cache
def _reached(needs: Needs, name: str) -> tuple[int, ...]:
    """What settings reach at all, with or without the other needs: of a thousand brokers, a few numbers are
    worth a try.
    """
    found = {0}
    for order, separate in product((STRICT, ANY), (False, True)):
        wider = needs._replace(order=order, separate_controllers=separate, mode="", replicas_max=0)
        every = [*candidates(wider._replace(reads=REPLICAS_MAX))]
        found |= {each.reaches()[name] for each in every}
    return tuple(sorted(found, reverse=True))


def _more_machines(needs: Needs) -> Iterator[Step]:
    for more in range(needs.brokers + 1, REPLICAS_MAX + 1):
        words = f"--brokers {more} instead of {needs.brokers}"
        yield more - needs.brokers, "brokers", words, needs._replace(brokers=more)
    racks_max = min(needs.brokers, needs.racks + REPLICAS_MAX)
    for more in range(needs.racks + 1, racks_max + 1) if needs.racks_lost else ():
        words = f"--racks {more} instead of {needs.racks}"
        yield more - needs.racks, "racks", words, needs._replace(racks=more)
