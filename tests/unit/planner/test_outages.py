"""Which promises hold while brokers are down, cut off or unable to write: the table of faults and modes.

Brokers 1, 2, 3 are A, B, C; A leads. All are controllers unless a test says so.
"""

from collections.abc import Set

import pytest

from tidelog.planner.outages import CLIENTS, Outage, line, reads_go_on, records_may_be_lost, writes_go_on
from tidelog.planner.promises import EXAMPLES, Terms

MODES = ("isr", "async", "double", "quorum")
REPLICAS = {"isr": (1, 2, 3), "async": (1, 2), "double": (1, 2), "quorum": (1, 2, 3)}
ELSEWHERE = (7, 8, 9)  # controllers


def outage(
    mode: str,
    voters: tuple[int, ...] = (1, 2, 3),
    *,
    dead: Set[int] = frozenset(),
    unwritable: Set[int] = frozenset(),
) -> Outage:
    return Outage(REPLICAS[mode], 1, voters, dead, unwritable)


def goes_on(mode: str, *, dead: Set[int] = frozenset(), unwritable: Set[int] = frozenset()) -> bool:
    return writes_go_on(EXAMPLES[mode], outage(mode, dead=dead, unwritable=unwritable))


def cut(one: int, *others: int) -> frozenset[frozenset[int]]:
    return frozenset(line(one, other) for other in others)


# What is dead, and whether writes go on in isr, async, double and quorum.
DEAD = [
    ("A", {1}, (True, False, False, True)),
    ("B", {2}, (True, True, False, True)),
    ("C", {3}, (True, True, True, True)),
    ("B and C", {2, 3}, (False, True, False, False)),
    ("A and B", {1, 2}, (False, False, False, False)),
    ("all", {1, 2, 3}, (False, False, False, False)),
]


@pytest.mark.parametrize(("name", "dead", "expected"), DEAD)
def test_writes_with_dead_brokers(name: str, dead: set[int], expected: tuple[bool, ...]) -> None:
    assert tuple(goes_on(mode, dead=dead) for mode in MODES) == expected


@pytest.mark.parametrize(("name", "dead", "expected"), DEAD)
def test_disks_that_refuse_writes_are_like_dead_brokers_for_writes(
    name: str, dead: set[int], expected: tuple[bool, ...]
) -> None:
    assert tuple(goes_on(mode, unwritable=dead) for mode in MODES) == expected


def test_committed_records_are_readable_while_a_replica_lives() -> None:
    """Where the controllers say who serves."""

    def readable(mode: str, *dead: int, voters: tuple[int, ...] = ELSEWHERE) -> bool:
        return reads_go_on(EXAMPLES[mode], outage(mode, voters, dead=set(dead)))

    assert [readable(mode, 1, 2) for mode in MODES] == [True, False, False, True]
    assert [readable(mode, 1) for mode in MODES] == [True] * 4
    assert not any(readable(mode, 1, 2, 3) for mode in MODES)
    # Two of three brokers that are the controllers take their majority with them.
    # A replica that does not know that they have ended serves nothing; one that knows does.
    assert not any(readable(mode, 1, 2, voters=(1, 2, 3)) for mode in MODES)
    ended = [outage(mode, dead={1, 2})._replace(ended={1, 2}) for mode in MODES]
    found = [reads_go_on(EXAMPLES[mode], now) for mode, now in zip(MODES, ended, strict=True)]
    assert found == [True, False, False, True]


class TestCuts:
    def test_a_leader_that_only_clients_reach(self) -> None:
        found = {m: writes_go_on(EXAMPLES[m], outage(m)._replace(cut=cut(1, 2, 3))) for m in MODES}
        assert found == {"isr": True, "async": True, "double": False, "quorum": True}

    def test_a_leader_that_nobody_reaches(self) -> None:
        alone = cut(1, 2, 3, CLIENTS)
        found = {m: writes_go_on(EXAMPLES[m], outage(m)._replace(cut=alone)) for m in MODES}
        assert found == {"isr": True, "async": False, "double": False, "quorum": True}

    def test_a_leader_that_only_clients_do_not_reach(self) -> None:
        alone = cut(1, CLIENTS)
        assert not any(writes_go_on(EXAMPLES[m], outage(m)._replace(cut=alone)) for m in MODES)

    def test_followers_that_do_not_reach_the_leader_while_the_controllers_do(self) -> None:
        """The leader keeps its session, and nobody replaces it."""
        now = Outage((1, 2, 3), 1, ELSEWHERE, cut=cut(1, 2, 3))
        assert not writes_go_on(EXAMPLES["isr"], now)
        assert writes_go_on(EXAMPLES["quorum"], now)

    def test_a_replica_can_be_read_that_clients_reach(self) -> None:
        assert reads_go_on(EXAMPLES["quorum"], outage("quorum")._replace(cut=cut(1, CLIENTS)))
        for mode in MODES:
            assert not reads_go_on(EXAMPLES[mode], outage(mode)._replace(cut=cut(CLIENTS, 1, 2, 3)))


class TestControllersElsewhere:
    GONE: Set[int] = frozenset(ELSEWHERE)

    def test_without_them_serving_goes_on(self) -> None:
        for mode in MODES:
            assert writes_go_on(EXAMPLES[mode], outage(mode, ELSEWHERE, dead=self.GONE))

    def test_without_them_nobody_is_appointed_but_votes_go_on(self) -> None:
        found = {m: writes_go_on(EXAMPLES[m], outage(m, ELSEWHERE, dead=self.GONE | {1})) for m in MODES}
        assert found == {"isr": False, "async": False, "double": False, "quorum": True}

    def test_without_them_nobody_leaves_the_in_sync_set(self) -> None:
        found = {m: writes_go_on(EXAMPLES[m], outage(m, ELSEWHERE, dead=self.GONE | {2})) for m in MODES}
        assert found == {"isr": False, "async": True, "double": False, "quorum": True}

    def test_one_of_three_is_not_missed(self) -> None:
        assert writes_go_on(EXAMPLES["isr"], outage("isr", ELSEWHERE, dead={7, 1}))

    def test_where_none_are_known_they_are_alive(self) -> None:
        assert writes_go_on(EXAMPLES["isr"], outage("isr", (), dead={1}))


def test_a_slow_broker_without_a_replica_changes_nothing() -> None:
    """A lone replica that is cut off has no successor, and goes on."""
    now = Outage((1,), 1, ELSEWHERE, cut=cut(1, *ELSEWHERE), slow={2})
    assert writes_go_on(Terms("isr", 1, min_in_sync=1), now)


def test_five_nodes_tolerate_two_in_both_modes() -> None:
    five = (1, 2, 3, 4, 5)
    for terms in (Terms("quorum", 5, synced=True), Terms("isr", 5, min_in_sync=3)):
        assert writes_go_on(terms, Outage(five, 1, five, dead={1, 2}))
        assert not writes_go_on(terms, Outage(five, 1, five, dead={1, 2, 3}))


class TestLoss:
    @pytest.mark.parametrize(
        ("unpowered", "expected"),
        [
            ({1}, (False, True, False, False)),
            ({2}, (False, False, False, False)),
            ({1, 2, 3}, (True, True, True, False)),
        ],
    )
    def test_power_failures(self, unpowered: set[int], expected: tuple[bool, ...]) -> None:
        found = [
            records_may_be_lost(EXAMPLES[mode], REPLICAS[mode], 1, without_power=unpowered) for mode in MODES
        ]
        assert tuple(found) == expected

    def test_an_empty_disk_of_the_leader(self) -> None:
        found = [records_may_be_lost(EXAMPLES[mode], REPLICAS[mode], 1, destroyed={1}) for mode in MODES]
        assert found == [False, True, False, False]

    def test_the_leader_is_who_leads_now(self) -> None:
        terms = Terms("isr", 3, min_in_sync=1)
        assert records_may_be_lost(terms, (1, 2, 3), 2, destroyed={2})
        assert not records_may_be_lost(terms, (1, 2, 3), 1, destroyed={2})


KAFKA = EXAMPLES["isr"]._replace(kafka=True)


@pytest.mark.parametrize(
    ("dead", "reads"),
    [({1}, True), ({2, 3}, True), ({1, 2}, False), ({1, 3}, False), ({1, 2, 3}, False)],
    ids=str,
)
def test_kafka_has_no_readers_without_leader_and_controllers(dead: set[int], reads: bool) -> None:
    """Tried with Kafka 4.3.1: with brokers 1 and 2 killed, the partitions that they led could not be read,
    and those that broker 3 led could.
    """
    now = outage("isr", dead=dead)._replace(ended=dead)
    assert reads_go_on(KAFKA, now) is reads
    assert reads_go_on(EXAMPLES["isr"], now) is (len(dead) < 3)
    assert writes_go_on(KAFKA, now) is writes_go_on(EXAMPLES["isr"], now)


def test_a_leader_of_kafka_serves_readers_whatever_the_controllers_do() -> None:
    now = outage("isr", dead={2})._replace(cut=cut(1, 3))
    assert reads_go_on(KAFKA, now)
    assert not reads_go_on(EXAMPLES["isr"], now)


def test_kafka_refuses_writes_below_a_minimum_that_cannot_be_reached() -> None:
    terms = Terms("isr", 2, min_in_sync=3)
    now = Outage((1, 2), 1, (1, 2, 3))
    assert writes_go_on(terms, now)
    assert not writes_go_on(terms._replace(kafka=True), now)
