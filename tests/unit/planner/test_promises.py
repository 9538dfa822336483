"""The table of promises says what the faults of the scenarios do to each mode."""

import re
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import pytest

from tidelog.config.modes import ISR, MODES, PRIMARY_BACKUP, QUORUM
from tidelog.planner.faults import Faults, Placement
from tidelog.planner.model import outcome
from tidelog.planner.promises import (
    DLEDGER_OF_FIVE,
    EXAMPLES,
    RULES,
    Terms,
    losses,
    may_lose,
    survives_destruction,
    writes_continue,
)
from tidelog.planner.table import describe, failures_tolerated

A, B, C = 0, 1, 2


def elsewhere(terms: Terms) -> Placement:
    """Controllers that no fault reaches."""
    return Placement(tuple(range(terms.replicas)))


def tolerated(terms: Terms) -> tuple[int, int]:
    """Failures tolerated for writes and reads, with controllers elsewhere."""
    return failures_tolerated(terms, elsewhere(terms))


def reads_continue(terms: Terms, dead: frozenset[int]) -> bool:
    return outcome(terms, elsewhere(terms), Faults(dead=dead)).reads


ALL_TERMS = [
    Terms(mode, replicas, min_in_sync=minimum, synced=synced, degrades=degrades)
    for mode in MODES
    for replicas in (1, 2, 3, 4, 5)
    for minimum in range(1, replicas + 1)
    for synced in (False, True)
    for degrades in ((False, True) if mode == PRIMARY_BACKUP else (False,))
]


@pytest.mark.parametrize(
    ("dead", "going_on"),
    [
        # Rows 1 to 4 of the scenarios: A leads; the double write has one backup, B.
        ({A}, {"isr", "quorum"}),
        ({B}, {"isr", "async", "quorum"}),
        ({B, C}, {"async"}),
        ({A, B}, set()),
    ],
)
def test_who_takes_writes_when_brokers_are_dead(dead: set[int], going_on: set[str]) -> None:
    there = {name: {place for place in dead if place < terms.replicas} for name, terms in EXAMPLES.items()}
    assert {name for name, terms in EXAMPLES.items() if writes_continue(terms, there[name])} == going_on


def test_with_a_second_backup_the_double_write_goes_on_without_one() -> None:
    double = Terms(PRIMARY_BACKUP, 3, min_in_sync=2)
    assert writes_continue(double, {B})
    assert not writes_continue(double, {B, C})
    assert not writes_continue(double, {A})


@pytest.mark.parametrize(
    ("name", "without_power", "lost"),
    [
        # Row 9: the power failure of one, and of all at once.
        ("isr", {A}, False),
        ("isr", {A, B, C}, True),
        ("async", {A}, True),
        ("async", {B}, False),
        ("double", {A}, False),
        ("double", {A, B}, True),
        ("quorum", {A, B, C}, False),
    ],
)
def test_power_failures(name: str, without_power: set[int], lost: bool) -> None:
    assert may_lose(EXAMPLES[name], without_power=without_power) is lost
    assert not may_lose(EXAMPLES[name]._replace(synced=True), without_power=without_power)


@pytest.mark.parametrize(
    ("name", "lost"), [("isr", False), ("async", True), ("double", False), ("quorum", False)]
)
def test_an_empty_disk(name: str, lost: bool) -> None:
    """Row 10."""
    assert may_lose(EXAMPLES[name], destroyed={A}) is lost


@pytest.mark.parametrize("terms", ALL_TERMS, ids=str)
def test_the_numbers_hold_for_every_fault_set_of_their_size(terms: Terms) -> None:
    places = range(terms.replicas)

    def sets(size: int) -> list[frozenset[int]]:
        return [frozenset(each) for each in combinations(places, size)]

    (writing, reading), destroyed = tolerated(terms), survives_destruction(terms)
    assert all(writes_continue(terms, dead) for dead in sets(writing))
    assert not all(writes_continue(terms, dead) for dead in sets(writing + 1))
    assert not any(may_lose(terms, destroyed=gone) for gone in sets(destroyed))
    assert any(may_lose(terms, destroyed=gone) for gone in sets(destroyed + 1))
    assert reading == terms.replicas - 1


@pytest.mark.parametrize("failures", [1, 2, 3])
def test_2n_plus_1_against_n_plus_1(failures: int) -> None:
    quorum = Terms(QUORUM, RULES[QUORUM].nodes_for(failures))
    isr = Terms(ISR, RULES[ISR].nodes_for(failures), min_in_sync=1)
    assert (quorum.replicas, isr.replicas) == (2 * failures + 1, failures + 1)
    assert tolerated(quorum)[0] == tolerated(isr)[0] == failures
    assert tolerated(quorum._replace(replicas=quorum.replicas - 1))[0] < failures


def test_the_exercise_with_five_nodes() -> None:
    """Any two dead: both go on; three dead: both refuse; an acknowledged record has three copies in both."""
    for terms in DLEDGER_OF_FIVE:
        assert (terms.copies, tolerated(terms)[0], survives_destruction(terms)) == (3, 2, 2)


def test_what_is_said_follows_the_settings() -> None:
    said = losses(Terms(ISR, 3, min_in_sync=1, unclean=True))
    assert said == [
        "the leader is lost for good with records that were not yet copied",
        "the leader loses power with records that were neither synced to disk nor copied",
        "all in-sync replicas are down and another replica becomes leader (unclean election)",
    ]
    assert losses(Terms(QUORUM, 3, synced=True)) == ["2 of 3 replicas are lost for good"]
    assert losses(Terms(ISR, 1, unclean=True))[-1].startswith("the leader loses power")
    assert "slow" not in " ".join(losses(Terms(PRIMARY_BACKUP, 2)))
    assert losses(Terms(PRIMARY_BACKUP, 2, degrades=True))[-1] == (
        "backups are slow or down, writes continue without them, and then the primary is lost for good or "
        "loses power"
    )
    assert describe(EXAMPLES["double"])["writes_stop_when"] == "the primary or its backup is down"
    assert describe(EXAMPLES["isr"])["writes_stop_when"] == "2 of 3 replicas are down"


# What an operator may have set → (copies before acknowledgement, failures tolerated for writes and for reads,
# disks that may be lost, minimum replicas, when writes stop), by hand from the truth table of faults.
SETTINGS = {
    # The brokers are the controllers: with two of three dead, no leader is appointed.
    Terms(ISR, 3, min_in_sync=2): (2, 1, 2, 1, 2, "2 of 3 replicas are down"),
    Terms(ISR, 3, min_in_sync=1): (
        *(1, 1, 2, 0, 1),
        "2 of 3 replicas are down, and the controllers' majority with them",
    ),
    Terms(ISR, 2, min_in_sync=2): (2, 0, 1, 1, 2, "1 of 2 replicas is down"),
    Terms(PRIMARY_BACKUP, 2, min_in_sync=1): (1, 0, 1, 0, 1, "the primary is down"),
    Terms(PRIMARY_BACKUP, 2, min_in_sync=2): (2, 0, 1, 1, 2, "the primary or its backup is down"),
    Terms(PRIMARY_BACKUP, 3, min_in_sync=2): (2, 0, 2, 1, 2, "the primary is down, or 2 of its 2 backups"),
    Terms(PRIMARY_BACKUP, 2, min_in_sync=2, degrades=True): (
        *(2, 0, 1, 0, 2),
        "the primary is down; without backups, writes pause for replication.degrade.after.ms",
    ),
    Terms(QUORUM, 3, synced=True): (2, 1, 2, 1, 3, "2 of 3 replicas are down"),
    Terms(QUORUM, 5, synced=True): (3, 2, 4, 2, 3, "3 of 5 replicas are down"),
    # One more copy to wait for, and nothing more survived.
    Terms(QUORUM, 4, synced=True): (3, 1, 3, 1, 3, "2 of 4 replicas are down"),
    Terms(QUORUM, 3, synced=False): (2, 1, 2, 1, 3, "2 of 3 replicas are down"),
}


@pytest.mark.parametrize(("terms", "expected"), SETTINGS.items(), ids=str)
def test_every_cell_for_every_kind_of_settings(terms: Terms, expected: tuple[object, ...]) -> None:
    said = describe(terms)
    numbers = ("copies", "survives_writing", "survives_reading", "survives_destruction", "least_replicas")
    assert (*(said[name] for name in numbers), said["writes_stop_when"]) == expected


@pytest.mark.parametrize("dead", [{B}, {A}])
def test_a_topic_that_may_degrade_writes_on_without_its_backup(dead: set[int]) -> None:
    degrading = Terms(PRIMARY_BACKUP, 2, min_in_sync=2, degrades=True)
    assert writes_continue(degrading, dead) is (A not in dead)
    assert may_lose(degrading, destroyed={A})
    assert not may_lose(degrading, destroyed={B})


def test_without_syncing_a_majority_can_forget() -> None:
    """Row 9, with flush off: one power failure loses nothing, that of two of three may."""
    unsynced = Terms(QUORUM, 3, synced=False)
    assert not may_lose(unsynced, without_power={A})
    assert may_lose(unsynced, without_power={B, C})
    assert losses(unsynced) == [
        "2 of 3 replicas are lost for good",
        "2 of 3 replicas lose power at once, before records were synced to disk",
    ]


# --- what the simulator shows -------------------------------------------------------------------------------

GOLDEN = Path(__file__).parents[2] / "golden"
TOLD = {
    "isr_leader_killed": EXAMPLES["isr"],
    "isr_follower_killed": EXAMPLES["isr"],
    "isr_both_followers_killed": EXAMPLES["isr"],
    "isr_leader_and_follower_killed": EXAMPLES["isr"],
    "primary_backup_async_primary_killed": EXAMPLES["async"],
    "primary_backup_async_backup_killed": EXAMPLES["async"],
    "primary_backup_double_primary_killed": EXAMPLES["double"],
    "primary_backup_double_backup_killed": EXAMPLES["double"],
    "primary_backup_double_one_of_two_backups_killed": Terms(PRIMARY_BACKUP, 3, min_in_sync=2),
    "quorum_leader_killed": EXAMPLES["quorum"],
    "quorum_follower_killed": EXAMPLES["quorum"],
    "quorum_both_followers_killed": EXAMPLES["quorum"],
    "quorum_leader_and_follower_killed": EXAMPLES["quorum"],
    "quorum_two_of_five_killed": Terms(QUORUM, 5, synced=True),
}
_LINE = re.compile(r" s  (kill|start|write|read)\b(.*)")


def _happened(story: str) -> Iterator[tuple[frozenset[int], str, bool]]:
    """(who is dead, "write" or "read", whether it worked), line by line."""
    dead: set[int] = set()
    for verb, rest in _LINE.findall((GOLDEN / f"{story}.txt").read_text(encoding="utf-8")):
        named = {"ABCDE".index(letter) for letter in re.findall(r"\b[A-E]\b", rest.partition(":")[0])}
        outcome = rest.rpartition(": ")[2]
        if verb == "kill":
            dead |= named
        elif verb == "start":
            dead -= named
        elif (verb == "read" and dead) or "acks=all" in rest:
            # While all are there, a backup sends readers back.
            yield frozenset(dead), verb, not outcome.isupper()


@pytest.mark.parametrize(("story", "terms"), TOLD.items())
def test_the_stories_bear_it_out(story: str, terms: Terms) -> None:
    lines = list(_happened(story))
    assert any(dead for dead, _, _ in lines)
    for dead, verb, worked in lines:
        expected = writes_continue(terms, dead) if verb == "write" else reads_continue(terms, dead)
        assert worked is expected, f"{verb} with {sorted(dead)} dead"
