"""Racks: where their brokers are, how many may lose power at once, and which sets of them stop or lose what.

A rack that fails takes the power of all its brokers, and the controllers among them. Every replica may be the
leader when it does.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from math import comb
from typing import NamedTuple

from tidelog.planner.faults import Faults, Placement, listed
from tidelog.planner.losses import loss
from tidelog.planner.model import moment
from tidelog.planner.outages import reads_go_on, writes_go_on
from tidelog.planner.promises import LEADER, Terms


def spread(brokers: int, racks: int) -> tuple[tuple[int, str], ...]:
    """Broker and rack, in turns, so that replicas on neighbouring brokers are in different racks."""
    return tuple((broker, str((broker - 1) % racks + 1)) for broker in range(1, brokers + 1)) if racks else ()


SETS_MAX = 2_000
"""Sets of racks that are tried for producers that move. Where there are more, fewer racks are promised."""


class RackSet(NamedTuple):
    """Racks that lose power at once."""

    racks: tuple[str, ...]
    others_slow: bool = False  # and the replicas in the other racks had fallen behind


def tolerated(terms: Terms, where: Placement) -> int:
    """How many racks may lose power, whichever they are: writes go on, and no acknowledged record is lost,
    however late the other replicas were.
    """

    def harms(each: RackSet) -> bool:
        return _stops(terms, where, each) or _loses(terms, where, each._replace(others_slow=True))

    smallest = next(_minimal(where, harms), None)
    return len(where.rack_names) if smallest is None else len(smallest.racks) - 1


def stopping_writes(terms: Terms, where: Placement) -> list[RackSet]:
    """The minimal sets."""
    return [*_minimal(where, lambda each: _stops(terms, where, each))]


def stopping_reads(terms: Terms, where: Placement) -> list[RackSet]:
    def stops(each: RackSet) -> bool:
        faults = Faults(power_lost=_brokers(where, each.racks))
        return any(not reads_go_on(terms, moment(one, faults)) for one in _with_each_leader(where))

    return [*_minimal(where, stops)]


def losing(terms: Terms, where: Placement) -> list[RackSet]:
    return [*_minimal(where, lambda each: _loses(terms, where, each), slow=(False, True))]


def tolerated_by_moving(terms: Terms, where: Placement, brokers: int) -> int:
    """The same where producers use the partitions of other primaries: every broker is the primary of some,
    and the next ones are its backups. Writes go on while some partition takes them; no partition may lose.
    """
    groups = [
        where._replace(replicas=tuple((first + place) % brokers + 1 for place in range(terms.replicas)))
        for first in range(brokers)
    ]

    def harms(racks: Sequence[str]) -> bool:
        faults = Faults(power_lost=_brokers(where, racks))
        if not any(writes_go_on(terms, moment(each, faults)) for each in groups):
            return True
        return any(_loses(terms, each, RackSet(tuple(racks), others_slow=True)) for each in groups)

    count, tried = 0, 0
    while count < len(where.rack_names):
        tried += comb(len(where.rack_names), count + 1)
        if tried > SETS_MAX or any(map(harms, combinations(where.rack_names, count + 1))):
            break
        count += 1
    return count


def sentences(sets: Sequence[RackSet], where: Placement) -> list[str]:
    """Sets of the same size are one sentence if they are all of that size."""
    said = []
    known = [name for name in where.rack_names if any(name in each.racks for each in sets)]
    for slow, size in sorted({(each.others_slow, len(each.racks)) for each in sets}):
        same = [each.racks for each in sets if (each.others_slow, len(each.racks)) == (slow, size)]
        names = known if len(same) == comb(len(known), size) and size < len(known) else None
        who = [_any_of(size, names)] if names else [_named(racks) for racks in same]
        more = ", and the replicas in the others are slow" if slow else ""
        said += [f"{each} power{more}." for each in who]
    return said


def _any_of(size: int, names: Sequence[str]) -> str:
    return f"{f'Any {size}' if size > 1 else 'One'} of the racks {listed(names)} {_verb(size)}"


def _named(racks: Sequence[str]) -> str:
    return f"Rack{'s' if len(racks) > 1 else ''} {listed(racks)} {_verb(len(racks))}"


def _verb(count: int) -> str:
    return "lose" if count > 1 else "loses"


def _minimal(
    where: Placement, is_bad: Callable[[RackSet], bool], slow: Sequence[bool] = (False,)
) -> Iterator[RackSet]:
    """The minimal sets, the smallest first. Racks without a replica or a controller make no difference, and
    racks with as many of each are the same: of fifty racks, a few sets are tried.
    """
    found: list[RackSet] = []
    verdicts: dict[object, bool] = {}
    kinds = {name: _kind(where, name) for name in where.rack_names}
    names = [name for name, kind in kinds.items() if any(kind)]
    sets = (
        RackSet(racks, others)
        for size in range(1, len(names) + 1)
        for racks in combinations(names, size)
        for others in slow
    )
    for each in sets:
        if any({*one.racks} <= {*each.racks} and one.others_slow <= each.others_slow for one in found):
            continue
        kind = frozenset(Counter(kinds[rack] for rack in each.racks).items()), each.others_slow
        if kind not in verdicts:
            verdicts[kind] = is_bad(each)
        if verdicts[kind]:
            found.append(each)
            yield each


def _kind(where: Placement, rack: str) -> tuple[int, int, int]:
    """Replicas on brokers that are controllers, other replicas, other controllers."""
    inside, replicas, controllers = where.in_rack(rack), {*where.replicas}, {*where.controllers}
    return (
        len(inside & replicas & controllers),
        len((inside & replicas) - controllers),
        len((inside & controllers) - replicas),
    )


def _brokers(where: Placement, racks: Sequence[str]) -> frozenset[int]:
    return frozenset(broker for rack in racks for broker in where.in_rack(rack))


def _with_each_leader(where: Placement) -> Iterator[Placement]:
    for leader in where.replicas:
        yield where._replace(replicas=(leader, *(each for each in where.replicas if each != leader)))


def _stops(terms: Terms, where: Placement, racks: RackSet) -> bool:
    faults = Faults(power_lost=_brokers(where, racks.racks))
    return any(not writes_go_on(terms, moment(each, faults)) for each in _with_each_leader(where))


def _loses(terms: Terms, where: Placement, racks: RackSet) -> bool:
    struck = _brokers(where, racks.racks)
    every = (
        (each, _others(each, struck) if racks.others_slow else NO_BROKERS)
        for each in _with_each_leader(where)
    )
    return any(bool(loss(terms, each, Faults(power_lost=struck, slow=slow))) for each, slow in every)


NO_BROKERS: frozenset[int] = frozenset()


def _others(where: Placement, struck: frozenset[int]) -> frozenset[int]:
    """The followers that were not hit."""
    return frozenset(where.replicas[LEADER + 1 :]) - struck
