"""The truth table of faults and modes, row by row, as the model says it.

Brokers A, B and C; A leads or is the primary. Columns: isr (3 replicas, min ISR 2), async (A and B, 1 copy),
double (A and B, 2 copies), quorum (3 replicas, synced). In each cell: w writes go on, r reads go on, l
records may be lost. Controllers are X, Y and Z unless a row says that the brokers are the controllers.
"""

import pytest

from tidelog.planner.faults import Faults, Placement
from tidelog.planner.model import outcome
from tidelog.planner.promises import EXAMPLES, Terms

A, B, C = 1, 2, 3
X, Y, Z = 7, 8, 9
REPLICAS = {"isr": (A, B, C), "async": (A, B), "double": (A, B), "quorum": (A, B, C)}


def some(*brokers: int) -> frozenset[int]:
    return frozenset(brokers)


ROWS = [
    ("1 A killed", Faults(dead=some(A)), "wr r r wr"),
    ("2 B killed", Faults(dead=some(B)), "wr wr r wr"),
    ("3 B and C killed", Faults(dead=some(B, C)), "r wr r r"),
    ("4 A and B killed", Faults(dead=some(A, B)), "r - - r"),
    ("5 B and C fell out, then A killed", Faults(slow=some(B, C), dead=some(A)), "r r r r"),
    ("6 all killed", Faults(dead=some(A, B, C)), "- - - -"),
    ("7 A frozen", Faults(dead=some(A)), "wr r r wr"),
    ("8 A cut off, clients reach it", Faults(cut_off=some(A)), "wr wr r wr"),
    ("9 power failure of A", Faults(power_lost=some(A)), "wr rl r wr"),
    ("9 power failure of all", Faults(power_lost=some(A, B, C)), "l l l -"),
    ("10 A's disk lost", Faults(disk_lost=some(A)), "wr rl r wr"),
    ("11 B slow", Faults(slow=some(B)), "wr wr r wr"),
    ("14 a controller killed", Faults(dead=some(X)), "wr wr wr wr"),
    ("15 the controllers' majority gone", Faults(controllers_lost=True), "wr wr wr wr"),
    ("15 and A killed", Faults(dead=some(A), controllers_lost=True), "r r r wr"),
    ("15 and B killed", Faults(dead=some(B), controllers_lost=True), "r wr r wr"),
]


def shown(terms: Terms, where: Placement, faults: Faults) -> str:
    found = outcome(terms, where, faults)
    rows = (("w", found.writes), ("r", found.reads), ("l", bool(found.loss)))
    return "".join(letter for letter, holds in rows if holds) or "-"


@pytest.mark.parametrize(("row", "faults", "expected"), ROWS, ids=[row[0] for row in ROWS])
def test_rows(row: str, faults: Faults, expected: str) -> None:
    cells = [shown(EXAMPLES[mode], Placement(REPLICAS[mode], (X, Y, Z)), faults) for mode in EXAMPLES]
    assert " ".join(cells) == expected


@pytest.mark.parametrize("mode", EXAMPLES)
def test_two_of_three_brokers_take_the_controllers_with_them(mode: str) -> None:
    """What has ended is known, and the last replica serves what is committed. Silence tells nothing."""
    where = Placement(REPLICAS[mode], (A, B, C))
    assert shown(EXAMPLES[mode], where, Faults(dead=some(A, B))) == ("r" if len(where.replicas) > 2 else "-")
    assert shown(EXAMPLES[mode], where, Faults(power_lost=some(A, B))).strip("l") in ("", "-")


class TestSettings:
    """What other settings change in these rows."""

    WHERE = Placement((A, B, C), (X, Y, Z))
    BEHIND = Faults(slow=some(B, C), dead=some(A))

    def test_min_isr_1_loses_the_record_that_only_the_leader_has(self) -> None:
        one = Terms("isr", 3, min_in_sync=1)
        assert "l" not in shown(one, self.WHERE, Faults(disk_lost=some(A)))
        assert "l" in shown(one, self.WHERE, Faults(slow=some(B, C), disk_lost=some(A)))
        assert "l" not in shown(one, self.WHERE, self.BEHIND)

    def test_unclean_elections_give_it_up_though_no_disk_is_lost(self) -> None:
        assert "l" in shown(Terms("isr", 3, min_in_sync=1, unclean=True), self.WHERE, self.BEHIND)
        assert "l" not in shown(Terms("isr", 3, min_in_sync=2, unclean=True), self.WHERE, self.BEHIND)
        both = Faults(slow=some(C), dead=some(A, B))
        assert "l" in shown(Terms("isr", 3, min_in_sync=2, unclean=True), self.WHERE, both)

    def test_a_controller_majority_that_is_gone_leaves_nobody_out(self) -> None:
        """With two of three brokers down, the last one cannot be the only member: it acknowledges nothing
        that the others lack.
        """
        one = Terms("isr", 3, min_in_sync=1)
        alone = Faults(dead=some(B, C), disk_lost=some(A))
        assert "l" in shown(one, self.WHERE, alone)
        assert "l" not in shown(one, Placement((A, B, C), (A, B, C)), alone)

    def test_flushed_records_survive_a_power_failure_of_all(self) -> None:
        every = Faults(power_lost=some(A, B, C))
        assert "l" not in shown(Terms("isr", 3, synced=True), self.WHERE, every)
        assert "l" in shown(Terms("quorum", 3, synced=False), self.WHERE, every)

    def test_acks_1_is_lost_when_the_leader_is_replaced(self) -> None:
        assert "l" in shown(Terms("isr", 3, acks="1"), self.WHERE, Faults(dead=some(A)))
        assert "l" not in shown(Terms("isr", 3, acks="1"), self.WHERE, Faults(dead=some(B)))
        assert "l" not in shown(Terms("quorum", 3, acks="1"), self.WHERE, Faults(dead=some(A)))

    def test_a_double_write_that_may_degrade(self) -> None:
        where = Placement((A, B), (X, Y, Z))
        double = Terms("primary-backup", 2, min_in_sync=2, degrades=True)
        assert shown(double, where, Faults(dead=some(B))) == "wr"
        assert "l" not in shown(double, where, Faults(disk_lost=some(A)))
        assert "l" in shown(double, where, Faults(slow=some(B), disk_lost=some(A)))

    def test_acks_0_promises_nothing(self) -> None:
        assert "l" in shown(Terms("quorum", 3, acks="0"), self.WHERE, Faults())
