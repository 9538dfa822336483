"""Minimal fault sets: exact against all sets, and as sentences."""

from collections.abc import Callable, Sequence
from itertools import product

import pytest

from tidelog.planner.fault_sets import (
    ENDED,
    SILENT,
    Pattern,
    Slot,
    losing,
    sentence,
    slowing_writes,
    stopping_reads,
    stopping_writes,
)
from tidelog.planner.faults import (
    CUT_OFF,
    DEAD,
    EVENTS,
    POWER_LOST,
    SLOW,
    Faults,
    Placement,
    usual_placement,
)
from tidelog.planner.model import Outcome, outcome
from tidelog.planner.promises import Terms

TERMS = [
    Terms("isr", 3, min_in_sync=2),
    Terms("isr", 3, min_in_sync=1, unclean=True),
    Terms("isr", 3, min_in_sync=1, acks="1"),
    Terms("isr", 4, min_in_sync=2, synced=True),
    Terms("primary-backup", 2, min_in_sync=1),
    Terms("primary-backup", 3, min_in_sync=2, degrades=True),
    Terms("quorum", 3, synced=True),
    Terms("quorum", 3),
]
WHERE = [usual_placement(4), Placement((1, 2, 3, 4)), Placement((3, 4, 1, 2), (1, 2, 3))]


Chosen = frozenset[tuple[int, str]]
Patterns = Callable[[Terms, Placement], list[Pattern]]


def minimal_by_trying(
    terms: Terms, where: Placement, is_bad: Callable[[Outcome], bool], kinds: Sequence[str], *, apart: bool
) -> set[Chosen]:
    """Every assignment of faults to brokers, without any shortcut. ``apart``: controllers may be lost without
    brokers; broker 0 stands for them. Where power can be lost, theirs can.
    """
    theirs = (None, DEAD, POWER_LOST) if POWER_LOST in kinds and SLOW not in kinds else (None, DEAD)
    bad: list[dict[int, str]] = []
    for events in product((None, *kinds), repeat=terms.replicas):
        chosen = {broker: event for broker, event in zip(where.replicas, events, strict=True) if event}
        for lost in theirs if apart else (None,):
            faults = Faults.of(
                chosen, controllers_lost=lost is not None, controllers_silent=lost == POWER_LOST
            )
            if is_bad(outcome(terms, where, faults)):
                bad.append(chosen | ({0: lost} if lost else {}))
    sets = [frozenset(each.items()) for each in bad]
    return {each for each in sets if not any(other < each for other in sets)}


def expanded(pattern: Pattern) -> set[Chosen]:
    """All fault sets of a pattern."""
    names = {ENDED: DEAD, SILENT: POWER_LOST}
    controllers = [frozenset({(0, names[each])}) for each in pattern.controllers]
    found: set[Chosen] = {*controllers} or {frozenset()}
    for slot in pattern.slots:
        found = {
            each | {(broker, event)}
            for each in found
            for broker in slot.group
            if broker not in dict(each)
            for event in slot.events
        }
    return found


QUESTIONS: dict[str, tuple[Patterns, Callable[[Outcome], bool], Sequence[str]]] = {
    "losing": (losing, lambda found: bool(found.loss), EVENTS),
    "stopping writes": (stopping_writes, lambda found: not found.writes, (DEAD, CUT_OFF)),
    "slowing writes": (slowing_writes, lambda found: not found.writes, (SLOW, DEAD, CUT_OFF)),
    "stopping reads": (stopping_reads, lambda found: not found.reads, (DEAD, CUT_OFF, POWER_LOST)),
}


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("where", WHERE, ids=["controllers", "elsewhere", "some"])
@pytest.mark.parametrize("terms", TERMS, ids=str)
def test_they_are_all_minimal_sets_and_only_those(terms: Terms, where: Placement, question: str) -> None:
    placed = where._replace(replicas=where.replicas[: terms.replicas])
    patterns, is_bad, kinds = QUESTIONS[question]
    found = {each for pattern in patterns(terms, placed) for each in expanded(pattern)}
    apart = not placed.controllers or bool(placed.separate_controllers)
    expected = minimal_by_trying(terms, placed, is_bad, kinds, apart=apart)
    if question == "slowing writes":
        expected = {each for each in expected if SLOW in dict(each).values()}
    assert found == expected


def test_unclean_elections_may_lose_records_without_the_controllers() -> None:
    """The next active controller takes holders that live for dead. It was missing where the controllers are
    elsewhere.
    """
    terms, where = Terms("isr", 3, min_in_sync=2, unclean=True), Placement((1, 2, 3))
    found = [sentence(terms, where, each) for each in losing(terms, where)]
    assert any("a majority of the controllers is down" in each for each in found)


def test_a_leader_that_is_cut_off_from_controllers_elsewhere_is_replaced() -> None:
    """It was taken for one that they still hear."""
    terms, where = Terms("isr", 3, min_in_sync=2), Placement((1, 2, 3))
    assert outcome(terms, where, Faults(cut_off=frozenset({1}))).writes
    found = [sentence(terms, where, each) for each in stopping_writes(terms, where)]
    assert found[0] == "Any 2 of the brokers 1, 2 and 3 are cut off or down."


def test_writes_wait_for_a_slow_replica_if_another_is_down() -> None:
    terms, where = Terms("isr", 3, min_in_sync=2), usual_placement(3)
    assert [sentence(terms, where, each) for each in slowing_writes(terms, where)] == [
        "One of the brokers 2 and 3 is slow, and broker 1 (the leader) is cut off or down.",
        "One of the brokers 2 and 3 is slow, and the other one is cut off, down or slow.",
    ]


def _is_in(pattern: Pattern, events: dict[int, str], controllers: str) -> bool:
    """Whether these faults have all that one of the pattern's sets has."""
    if pattern.controllers and controllers not in pattern.controllers:
        return False

    def fits(left: Sequence[Slot], used: frozenset[int]) -> bool:
        if not left:
            return True
        return any(
            event in left[0].events and fits(left[1:], used | {broker})
            for broker, event in events.items()
            if broker in left[0].group and broker not in used
        )

    return fits(pattern.slots, frozenset())


@pytest.mark.slow
@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("terms", [each for each in TERMS if each.replicas < 4], ids=str)
def test_faults_of_controllers_without_a_replica_are_covered(terms: Terms, question: str) -> None:
    """Each of them has a fault of its own here. Reads that stop because controllers have no power, or are cut
    off, were missing.
    """
    where = Placement((3, 4, 5)[: terms.replicas], (1, 2, 3))
    patterns, is_bad, kinds = QUESTIONS[question]
    known = patterns(terms, where)
    if question == "slowing writes":
        known = [*known, *stopping_writes(terms, where)]
    nodes = sorted({*where.replicas, *where.controllers})
    for chosen in product((None, *kinds), repeat=len(nodes)):
        faults = {node: event for node, event in zip(nodes, chosen, strict=True) if event}
        away = {node for node, event in faults.items() if node in where.controllers and event != SLOW}
        told = {node for node in away if faults[node] == DEAD}
        silent = question == "stopping reads" and len(told) < 2
        controllers = "" if len(away) < 2 else SILENT if silent else ENDED
        if is_bad(outcome(terms, where, Faults.of(faults))):
            assert any(_is_in(each, faults, controllers) for each in known), faults


@pytest.mark.parametrize("terms", TERMS, ids=str)
def test_the_example_of_a_pattern_is_bad(terms: Terms) -> None:
    where = usual_placement(terms.replicas)
    assert all(outcome(terms, where, each.example()).loss for each in losing(terms, where))
    assert not any(outcome(terms, where, each.example()).writes for each in stopping_writes(terms, where))
    assert not any(outcome(terms, where, each.example()).reads for each in stopping_reads(terms, where))


SENTENCES = {
    Terms("quorum", 3, synced=True): ["Any 2 of the brokers 1, 2 and 3 lose their disks."],
    Terms("isr", 3, min_in_sync=2): [
        "Any 2 of the brokers 1, 2 and 3 lose their disks or lose power at once, and the other one has any "
        "fault, even if only slow."
    ],
    Terms("primary-backup", 2, min_in_sync=1): ["Broker 1 (the primary) loses its disk or loses power."],
    Terms("primary-backup", 2, min_in_sync=2, synced=True): ["Brokers 1 and 2 lose their disks."],
    Terms("primary-backup", 2, min_in_sync=2, degrades=True): [
        "Broker 1 (the primary) loses its disk or loses power, and broker 2 has any fault, even if only slow."
    ],
}


@pytest.mark.parametrize(("terms", "expected"), SENTENCES.items(), ids=str)
def test_sentences(terms: Terms, expected: list[str]) -> None:
    where = usual_placement(terms.replicas)
    assert [sentence(terms, where, each) for each in losing(terms, where)] == expected


def test_brokers_with_the_same_fault_are_named_together() -> None:
    terms, where = Terms("isr", 5, min_in_sync=3), usual_placement(5)
    found = [sentence(terms, where, each) for each in stopping_reads(terms, where)]
    assert found[-1] == "Brokers 1, 2, 3, 4 and 5 are down."


def test_seven_replicas_are_not_too_many() -> None:
    terms = Terms("quorum", 7, synced=True)
    assert [
        sentence(terms, Placement(tuple(range(1, 8))), each)
        for each in losing(terms, Placement(tuple(range(1, 8))))
    ] == ["Any 4 of the brokers 1, 2, 3, 4, 5, 6 and 7 lose their disks."]


def test_controllers_elsewhere_can_be_lost_as_well() -> None:
    terms, where = Terms("isr", 3), Placement((1, 2, 3), (7, 8, 9))
    found = [sentence(terms, where, each) for each in stopping_writes(terms, where)]
    assert (
        "One of the brokers 1, 2 and 3 is cut off or down, and a majority of the controllers is down."
        in found
    )
