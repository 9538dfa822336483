"""The checker of groups notices what it is there for."""

import pytest

from tidelog.sim.checkers.batches import Entry
from tidelog.sim.checkers.groups import GroupChecker
from tidelog.sim.checkers.offsets import CommittedOffsets
from tidelog.sim.checkers.violation import Violation

LOG = [Entry(offset, 0, b"") for offset in range(3)]


@pytest.fixture
def group() -> GroupChecker:
    return GroupChecker("g", "t", lambda: False)


class TestOwners:
    def test_a_partition_belongs_to_another_member_in_each_generation(self, group: GroupChecker) -> None:
        group.assigned(1, "a", [0, 1])
        group.assigned(2, "b", [0, 1])

    def test_but_not_to_two_in_one(self, group: GroupChecker) -> None:
        group.assigned(1, "a", [0, 1])
        with pytest.raises(Violation, match="t-1 belongs to a and to b"):
            group.assigned(1, "b", [1])

    def test_a_generation_is_over_when_a_later_one_has_begun(self, group: GroupChecker) -> None:
        group.assigned(1, "a", [0])
        assert not group.is_over(1)
        group.assigned(2, "b", [0])
        assert group.is_over(1)


class TestConsumed:
    def test_whoever_consumed_it(self, group: GroupChecker) -> None:
        for offset in (0, 1, 1, 2):
            group.consumed(0, offset)
        group.check(0, LOG)

    def test_nothing_is_left_out(self, group: GroupChecker) -> None:
        group.consumed(0, 0)
        group.consumed(0, 2)
        with pytest.raises(Violation, match=r"\[1\] of .* were never consumed"):
            group.check(0, LOG)


class TestOffsets:
    def test_an_answer_that_comes_late_says_nothing_of_later_commits(self) -> None:
        offsets = CommittedOffsets("g")
        first, second = offsets.asked(5), offsets.asked(7)
        offsets.told(7, second)
        offsets.told(5, first)
        offsets.found(7, given_up=False)

    def test_nobody_commits_what_lies_before(self) -> None:
        offsets = CommittedOffsets("g")
        offsets.told(7, offsets.asked(7))
        with pytest.raises(Violation, match="went back, from 7 to 5"):
            offsets.told(5, offsets.asked(5))

    def test_unless_records_were_given_up(self) -> None:
        offsets = CommittedOffsets("g")
        offsets.told(7, offsets.asked(7))
        offsets.reset(4)
        offsets.told(5, offsets.asked(5))

    def test_a_commit_of_before_does_not_come_back(self) -> None:
        offsets = CommittedOffsets("g")
        offsets.asked(5)
        offsets.told(7, offsets.asked(7))
        with pytest.raises(Violation, match="went back"):
            offsets.found(5, given_up=False)


class TestHolders:
    def test_a_partition_is_given_on_when_it_was_given_up_or_its_holder_is_silent(self) -> None:
        group = GroupChecker("g", "t", lambda: False, session_ms=1000)
        group.taken("a", 0, 0)
        group.heard("a", 0)
        group.released("a", ())
        group.taken("b", 0, 100)
        group.heard("b", 100)
        group.taken("c", 0, 1200)

    def test_not_while_its_holder_is_heard_of(self) -> None:
        group = GroupChecker("g", "t", lambda: False, session_ms=1000)
        group.taken("a", 0, 0)
        group.heard("a", 0)
        with pytest.raises(Violation, match="was given to b"):
            group.taken("b", 0, 500)
