"""Racks: where their brokers are, how many may lose power at once, and which sets of them stop or lose what.

A rack that fails takes the power of all its brokers, and the controllers among them. Every replica may be the
leader when it does.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

from tidelog.planner.faults import Faults, Placement, listed
from tidelog.planner.losses import loss
from tidelog.planner.model import moment
from tidelog.planner.outages import reads_go_on, writes_go_on
from tidelog.planner.promises import LEADER, Terms


def spread(brokers: int, racks: int) -> tuple[tuple[int, str], ...]:
    """Broker and rack, in turns, so that replicas on neighbouring brokers are in different racks."""
    return tuple((broker, str((broker - 1) % racks + 1)) for broker in range(1, brokers + 1)) if racks else ()


class RackSet(NamedTuple):
    """Racks that lose power at once."""

    racks: tuple[str, ...]
    others_slow: bool = False  # and the replicas in the other racks had fallen behind


def tolerated(terms: Terms, where: Placement) -> int:
    """How many racks may lose power, whichever they are: writes go on, and no acknowledged record is lost,
    however late the other replicas were.
    """
    count = 0
    while count < len(where.rack_names) and not any(
        _stops(terms, where, racks) or _loses(terms, where, racks, others_slow=True)
        for racks in combinations(where.rack_names, count + 1)
    ):
        count += 1
    return count


def stopping_writes(terms: Terms, where: Placement) -> list[RackSet]:
    """The minimal sets."""
    return _minimal(RackSet(racks) for racks in _sets(where) if _stops(terms, where, racks))


def stopping_reads(terms: Terms, where: Placement) -> list[RackSet]:
    def stops(racks: Sequence[str]) -> bool:
        faults = Faults(power_lost=_brokers(where, racks))
        return any(not reads_go_on(terms, moment(each, faults)) for each in _with_each_leader(where))

    return _minimal(RackSet(racks) for racks in _sets(where) if stops(racks))


def losing(terms: Terms, where: Placement) -> list[RackSet]:
    found = (
        RackSet(racks, slow)
        for racks in _sets(where)
        for slow in (False, True)
        if _loses(terms, where, racks, others_slow=slow)
    )
    return _minimal(found)


def sentences(sets: Sequence[RackSet], where: Placement) -> list[str]:
    """Sets of the same size are one sentence if they are all of that size."""
    said = []
    for slow, size in sorted({(each.others_slow, len(each.racks)) for each in sets}):
        same = [each.racks for each in sets if (each.others_slow, len(each.racks)) == (slow, size)]
        every = list(combinations(where.rack_names, size))
        names = where.rack_names if len(same) == len(every) and size < len(where.rack_names) else None
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


def _sets(where: Placement) -> Iterator[tuple[str, ...]]:
    """The smallest first."""
    for size in range(1, len(where.rack_names) + 1):
        yield from combinations(where.rack_names, size)


def _minimal(sets: Iterator[RackSet]) -> list[RackSet]:
    found: list[RackSet] = []
    for each in sets:
        if not any({*one.racks} <= {*each.racks} and one.others_slow <= each.others_slow for one in found):
            found.append(each)
    return found


def _brokers(where: Placement, racks: Sequence[str]) -> frozenset[int]:
    return frozenset(broker for rack in racks for broker in where.in_rack(rack))


def _with_each_leader(where: Placement) -> Iterator[Placement]:
    for leader in where.replicas:
        yield where._replace(replicas=(leader, *(each for each in where.replicas if each != leader)))


def _stops(terms: Terms, where: Placement, racks: Sequence[str]) -> bool:
    faults = Faults(power_lost=_brokers(where, racks))
    return any(not writes_go_on(terms, moment(each, faults)) for each in _with_each_leader(where))


def _loses(terms: Terms, where: Placement, racks: Sequence[str], *, others_slow: bool) -> bool:
    struck = _brokers(where, racks)
    return any(
        bool(
            loss(
                terms, each, Faults(power_lost=struck, slow=_others(each, struck) if others_slow else NOBODY)
            )
        )
        for each in _with_each_leader(where)
    )


NOBODY: frozenset[int] = frozenset()


def _others(where: Placement, struck: frozenset[int]) -> frozenset[int]:
    """The followers that were not hit."""
    return frozenset(where.replicas[LEADER + 1 :]) - struck
