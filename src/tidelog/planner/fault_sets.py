"""The minimal sets of faults that stop writes, stop reads or lose an acknowledged record. Exact, not sampled.

A set is minimal if every fault in it is needed. Brokers that are the same for the model are tried once for
all of them, and so are faults with the same effect: seven replicas with five kinds of faults are a few
hundred sets instead of 280,000. Sets that differ only in the kind of one fault become one :class:`Pattern`,
and a pattern is one sentence.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations_with_replacement, product
from typing import NamedTuple

from tidelog.planner.faults import (
    CUT_OFF,
    DEAD,
    DISK_LOST,
    EVENTS,
    POWER_LOST,
    SLOW,
    Faults,
    Placement,
    listed,
)
from tidelog.planner.model import Outcome, outcome
from tidelog.planner.promises import LEADER, RULES, Terms

REPLICAS_MAX = 7


class Slot(NamedTuple):
    """One broker of a group with one of these faults."""

    group: tuple[int, ...]  # brokers that are the same for the model
    events: frozenset[str]


ENDED, SILENT = "ended", "silent"
Controllers = frozenset[str]
"""What a majority of the controllers may have besides: their processes have ended, or nothing is heard of
them, because they have no power or are cut off. Empty: nothing.
"""
NEVER: Controllers = frozenset()


class Pattern(NamedTuple):
    """Fault sets: for every slot one broker of its group, no broker twice, and one of the slot's faults."""

    slots: tuple[Slot, ...]
    controllers: Controllers = NEVER  # one of these

    @property
    def size(self) -> int:
        return len(self.slots) + bool(self.controllers)

    def has(self, event: str) -> bool:
        return any(event in slot.events for slot in self.slots)

    def example(self) -> Faults:
        """One set of the pattern."""
        free: dict[tuple[int, ...], list[int]] = {}
        events = {}
        for slot in self.slots:
            brokers = free.setdefault(slot.group, list(slot.group))
            events[brokers.pop(0)] = _mildest(slot.events)
        return _faults(events, self.controllers)


def _faults(events: Mapping[int, str], controllers: Controllers) -> Faults:
    silent = bool(controllers) and ENDED not in controllers
    return Faults.of(events, controllers_lost=bool(controllers), controllers_silent=silent)


Question = Callable[[Outcome], bool]
"""Whether the outcome is the bad one."""


Kinds = Sequence[frozenset[str]]
"""Faults with the same effect are one kind."""


def losing(terms: Terms, where: Placement) -> list[Pattern]:
    """What may lose an acknowledged record."""
    spared = frozenset({POWER_LOST} if terms.synced else ())
    kinds = [
        frozenset({SLOW}),
        frozenset({DEAD, CUT_OFF}) | spared,
        frozenset({DISK_LOST, POWER_LOST}) - spared,
    ]
    return minimal(terms, where, lambda found: bool(found.loss), kinds)


def stopping_writes(terms: Terms, where: Placement) -> list[Pattern]:
    return minimal(terms, where, lambda found: not found.writes, [frozenset({DEAD}), frozenset({CUT_OFF})])


def slowing_writes(terms: Terms, where: Placement) -> list[Pattern]:
    """Where writes wait for a slow replica, alone or because others are down."""
    kinds = [frozenset({each}) for each in (SLOW, DEAD, CUT_OFF)]
    return minimal(terms, where, lambda found: not found.writes, kinds, with_fault=SLOW)


def stopping_reads(terms: Terms, where: Placement) -> list[Pattern]:
    """A machine without power stops more than a process that has ended: others do not know of its end."""
    kinds = [frozenset({each}) for each in (DEAD, CUT_OFF, POWER_LOST)]
    both = (frozenset({ENDED}), frozenset({SILENT}))
    return minimal(terms, where, lambda found: not found.reads, kinds, controllers=both)


def minimal(
    terms: Terms,
    where: Placement,
    is_bad: Question,
    kinds: Kinds,
    *,
    controllers: Sequence[Controllers] = (frozenset({ENDED}),),
    with_fault: str = "",
) -> list[Pattern]:
    """All minimal fault sets of this question, as patterns, the smallest first. ``controllers``: what those
    without a replica may have. ``with_fault``: only sets that have it.
    """

    def bad(faults: Faults) -> bool:
        return is_bad(outcome(terms, where, faults))

    apart = bool(where.separate_controllers) or not where.controllers
    losses = (NEVER, *controllers) if apart else (NEVER,)
    groups = _groups(where, bad, kinds, losses)
    found: list[_Counts] = []
    for counts in sorted(_all_counts(groups, kinds, losses), key=lambda each: each.size):
        if any(smaller.is_within(counts) for smaller in found):
            continue
        if bad(counts.faults()):
            found.append(counts)
    patterns = [each.pattern() for each in found]
    return _merged([each for each in patterns if not with_fault or each.has(with_fault)])


# --- all sets, by groups of brokers -------------------------------------------------------------------------


class _Counts(NamedTuple):
    """How many brokers of each group have which fault."""

    groups: tuple[tuple[int, ...], ...]
    events: tuple[tuple[frozenset[str], ...], ...]  # kinds of each group, in order
    controllers: Controllers

    @property
    def size(self) -> int:
        return sum(map(len, self.events)) + bool(self.controllers)

    def faults(self) -> Faults:
        chosen = {
            broker: _mildest(kind)
            for group, kinds in zip(self.groups, self.events, strict=True)
            for broker, kind in zip(group, kinds, strict=False)
        }
        return _faults(chosen, self.controllers)

    def is_within(self, other: "_Counts") -> bool:
        """Whether the other set has all of these faults."""
        if not self.controllers <= other.controllers:
            return False
        return all(
            mine.count(event) <= others.count(event)
            for mine, others in zip(self.events, other.events, strict=True)
            for event in set(mine)
        )

    def pattern(self) -> Pattern:
        slots = [
            Slot(group, kind) for group, kinds in zip(self.groups, self.events, strict=True) for kind in kinds
        ]
        return Pattern(_sorted(slots), self.controllers)


def _all_counts(
    groups: Sequence[tuple[int, ...]], kinds: Kinds, losses: Sequence[Controllers]
) -> Iterator[_Counts]:
    """``losses``: whether the majority of the controllers may be lost besides."""
    for chosen, lost in product(product(*(_kinds_of(group, kinds) for group in groups)), losses):
        yield _Counts(tuple(groups), chosen, lost)


def _groups(
    where: Placement, bad: Callable[[Faults], bool], kinds: Kinds, losses: Sequence[Controllers]
) -> list[tuple[int, ...]]:
    """Replicas that are the same for the question."""
    found: dict[bool, list[int]] = {}
    for broker in where.replicas:
        found.setdefault(broker in where.controllers, []).append(broker)
    leader = where.replicas[LEADER]
    groups = [tuple(group) for group in found.values()]
    if all(_is_symmetric(group, leader, groups, bad, kinds, losses) for group in groups if leader in group):
        return [tuple(sorted(group)) for group in groups]
    others = [tuple(sorted(each for each in group if each != leader)) for group in groups]
    return [(leader,), *(group for group in others if group)]


def _is_symmetric(
    group: tuple[int, ...],
    leader: int,
    groups: Sequence[tuple[int, ...]],
    bad: Callable[[Faults], bool],
    kinds: Kinds,
    losses: Sequence[Controllers],
) -> bool:
    """Whether it makes no difference which fault of a set hits the leader."""
    others = [each for each in group if each != leader]
    rest = [each for each in groups if each != group]
    # What the other groups have decides, too: a controller that is cut off is not known to have ended.
    bases = [
        {
            broker: _mildest(kind)
            for one, had in zip(rest, kinds_had, strict=True)
            for broker, kind in zip(one, had, strict=False)
        }
        for kinds_had in product(*(_kinds_of(one, kinds) for one in rest))
    ]
    for chosen, base, lost in product(_kinds_of(group, kinds), bases, losses):
        found = {
            bad(_faults(base | _placed(kind, chosen, leader, others), lost))
            for kind in {*chosen, *((None,) if len(chosen) < len(group) else ())}
        }
        if len(found) > 1:
            return False
    return True


def _kinds_of(group: tuple[int, ...], kinds: Kinds) -> list[tuple[frozenset[str], ...]]:
    """What the brokers of a group may have, without regard to which of them."""
    return [had for size in range(len(group) + 1) for had in combinations_with_replacement(kinds, size)]


def _mildest(kind: frozenset[str]) -> str:
    return min(kind, key=EVENTS.index)


def _placed(
    leaders: frozenset[str] | None, chosen: Sequence[frozenset[str]], leader: int, others: Sequence[int]
) -> dict[int, str]:
    """The leader has this kind of fault, the others have what is left."""
    left = list(chosen)
    if leaders is not None:
        left.remove(leaders)
    events = {broker: _mildest(kind) for broker, kind in zip(others, left, strict=False)}
    return events if leaders is None else events | {leader: _mildest(leaders)}


# --- patterns -----------------------------------------------------------------------------------------------


def _sorted(slots: Sequence[Slot]) -> tuple[Slot, ...]:
    return tuple(sorted(slots, key=lambda slot: (slot.group, sorted(slot.events))))


def _merged(patterns: list[Pattern]) -> list[Pattern]:
    """Patterns that differ in one slot only become one. What another pattern covers is dropped."""
    same: dict[object, list[Pattern]] = {}
    for each in dict.fromkeys(patterns):
        same.setdefault((tuple(slot.group for slot in each.slots), each.controllers), []).append(each)
    kept = [each for family in same.values() for each in _merged_family(family)]
    together: dict[tuple[Slot, ...], Controllers] = {}
    for each in kept:
        if each.controllers:
            together[each.slots] = together.get(each.slots, NEVER) | each.controllers
    whole = [each for each in kept if not each.controllers] + [Pattern(*each) for each in together.items()]
    return sorted(whole, key=lambda each: (each.size, bool(each.controllers), [s.group for s in each.slots]))


def _merged_family(patterns: list[Pattern]) -> list[Pattern]:
    """Of patterns with the same groups."""
    known = dict.fromkeys(patterns)
    fresh = patterns
    while fresh:
        merged = (_merge(one, other) for one in known for other in fresh)
        fresh = [each for each in dict.fromkeys(merged) if each is not None and each not in known]
        known |= dict.fromkeys(fresh)
    widths = {each: sum(len(slot.events) for slot in each.slots) for each in known}
    kept: list[Pattern] = []
    for each in sorted(known, key=lambda each: -widths[each]):
        # A wider one that is covered itself is covered by one of these.
        if not any(widths[other] > widths[each] and _covers(other, each) for other in kept):
            kept.append(each)
    return [each for each in known if each in kept]


def _merge(one: Pattern, other: Pattern) -> Pattern | None:
    if len(one.slots) != len(other.slots) or one.controllers != other.controllers:
        return None
    mine, others = list(one.slots), list(other.slots)
    for slot in one.slots:
        if slot in others:
            others.remove(slot)
            mine.remove(slot)
    if len(mine) != 1 or mine[0].group != others[0].group:
        return None
    merged = Slot(mine[0].group, mine[0].events | others[0].events)
    kept = list(one.slots)
    kept.remove(mine[0])
    return Pattern(_sorted([*kept, merged]), one.controllers)


def _covers(one: Pattern, other: Pattern) -> bool:
    """Whether every fault set of the other pattern is one of this."""
    if one.controllers != other.controllers or len(one.slots) != len(other.slots):
        return False
    return _fits(list(one.slots), list(other.slots))


def _fits(wide: list[Slot], narrow: list[Slot]) -> bool:
    if not narrow:
        return True
    first, rest = narrow[0], narrow[1:]
    return any(
        slot.group == first.group and slot.events >= first.events and _fits(wide[:at] + wide[at + 1 :], rest)
        for at, slot in enumerate(wide)
    )


# --- in words -----------------------------------------------------------------------------------------------

_ONE = {
    SLOW: "is slow",
    DEAD: "is down",
    CUT_OFF: "is cut off",
    POWER_LOST: "loses power",
    DISK_LOST: "loses its disk",
}
_MANY = {
    SLOW: "are slow",
    DEAD: "are down",
    CUT_OFF: "are cut off",
    POWER_LOST: "lose power",
    DISK_LOST: "lose their disks",
}


_CONTROLLERS: dict[Controllers, str] = {
    frozenset({ENDED}): "is down",
    frozenset({SILENT}): "loses power or is cut off",
    frozenset({ENDED, SILENT}): "loses power, is cut off or is down",
}

_Part = tuple[tuple[int, ...], frozenset[str]]
"""A group of brokers, and what each of them has."""


def sentence(terms: Terms, where: Placement, pattern: Pattern) -> str:
    """One fault set, or a family of them, with the names of the brokers."""
    if not pattern.size:
        return "Always."
    parts: dict[_Part, int] = {}
    for slot in sorted(pattern.slots, key=_mildest_last):
        parts[slot.group, slot.events] = parts.get((slot.group, slot.events), 0) + 1
    parts = _joined(parts)
    clauses = []
    named: dict[tuple[int, ...], int] = {}
    last: tuple[int, ...] = ()
    for (group, events), count in parts.items():
        before = named.get(group, 0)
        named[group] = before + count
        who = _others(group, count, before, last) if before else _who(terms, where, group, count)
        last = group
        clauses.append(f"{who} {_does(events, count)}")
    if pattern.controllers:
        clauses.append(f"a majority of the controllers {_CONTROLLERS[pattern.controllers]}")
    text = ", and ".join(clauses)
    return f"{text[:1].upper()}{text[1:]}."


def _joined(parts: dict[_Part, int]) -> dict[_Part, int]:
    """Groups that are hit as a whole, and in the same way, are named together: without it, "the leader is
    down, and all others are down".
    """
    found: dict[_Part, int] = {}
    for (group, events), count in parts.items():
        whole = next(
            (
                each
                for each in found
                if each[1] == events and len(each[0]) == found[each] and len(group) == count
            ),
            None,
        )
        if whole is None:
            found[group, events] = count
        else:
            found.pop(whole)
            found[tuple(sorted((*whole[0], *group))), events] = len(whole[0]) + count
    return found


def _mildest_last(slot: Slot) -> tuple[int, int, tuple[int, ...]]:
    return len(slot.events), -max(map(EVENTS.index, slot.events)), slot.group


def _does(events: frozenset[str], count: int) -> str:
    if len(events) == len(EVENTS):
        return f"{'has' if count == 1 else 'have'} any fault, even if only slow"
    words = _ONE if count == 1 else _MANY
    verbs = [words[event] for event in sorted(events, key=EVENTS.index, reverse=True)]
    together = count > 1 and POWER_LOST in events and not events & {SLOW, DEAD, CUT_OFF}
    return f"{_alternatives(verbs)}{' at once' if together else ''}"


def _others(group: tuple[int, ...], count: int, named: int, last: tuple[int, ...]) -> str:
    """More brokers of a group that a clause before has named; ``last``: the group of the last clause."""
    them = "them" if group == last else f"the brokers {listed(group)}"
    if len(group) == named + count:
        words = "the other one" if count == 1 else "the others"
        return words if group == last else f"{words} of {them}"
    return f"another one of {them}" if count == 1 else f"{count} others of {them}"


def _alternatives(verbs: list[str]) -> str:
    """``is slow, down or cut off``."""
    for shared in ("is ", "are "):
        if len(verbs) > 1 and all(verb.startswith(shared) for verb in verbs):
            return shared + listed([verb.removeprefix(shared) for verb in verbs], "or")
    return listed(verbs, "or")


def _who(terms: Terms, where: Placement, group: tuple[int, ...], count: int) -> str:
    if len(group) > count:
        return f"{f'any {count}' if count > 1 else 'one'} of the brokers {listed(group)}"
    named = f"broker{'s' if count > 1 else ''} {listed(group)}"
    is_leader = group == (where.replicas[LEADER],) and len(where.replicas) > 1
    return f"{named} (the {RULES[terms.mode].leader})" if is_leader else named
