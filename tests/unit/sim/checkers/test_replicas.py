"""What counts as committed for the simulator's checker of replicas."""

from types import SimpleNamespace
from typing import Any

import pytest

from tidelog.replication.replica import Role
from tidelog.sim.checkers import replicas
from tidelog.sim.checkers.replicas import ReplicaChecker
from tidelog.sim.checkers.violation import Violation
from tidelog.sim.world import World

KEY = "t-0"


class Seen:
    """A replica with one record per offset, named by the epoch that wrote it."""

    def __init__(self, me: int, role: Role, epoch: int, log: str) -> None:
        self.key, self.log = KEY, log
        self.voter = SimpleNamespace(watches_leader=False)
        self.replica = SimpleNamespace(me=me, role=role, epoch=epoch, high_watermark=0)


@pytest.fixture
def checker(monkeypatch: pytest.MonkeyPatch) -> ReplicaChecker:
    def between(log: str, start: int, end: int, *, may_extend: bool = False) -> list[tuple[int, Any]]:
        return [(offset, (offset + 1, log[offset])) for offset in range(start, min(end, len(log)))]

    monkeypatch.setattr(replicas, "batches_between", between)
    return ReplicaChecker(World(1))


def lead(checker: ReplicaChecker, me: int, epoch: int, log: str, watermark: int) -> Seen:
    seen = Seen(me, Role.LEADER, epoch, log)
    checker.role_changed(seen)  # type: ignore[arg-type]
    take(checker, seen, watermark)
    return seen


def take(checker: ReplicaChecker, seen: Seen, watermark: int) -> None:
    seen.replica.high_watermark = watermark
    checker.committed(seen)  # type: ignore[arg-type]


def test_what_a_leader_said_before_it_was_given_up_commits_nothing_afterwards(
    checker: ReplicaChecker,
) -> None:
    lead(checker, 1, 1, "aaa", 3)
    checker.forget(KEY, 2)
    follower = Seen(2, Role.FOLLOWER, 1, "aaa")
    take(checker, follower, 3)
    assert checker.committed_end(KEY) == 2
    lead(checker, 1, 2, "aab", 3)
    follower.replica.epoch, follower.log = 2, "aab"
    take(checker, follower, 3)
    assert checker.committed_end(KEY) == 3


def test_what_was_given_up_may_end_within_a_batch_that_was_written_since(
    checker: ReplicaChecker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk lied, and records were given up from offset 2 on. Offsets 1 to 3 are one batch now, and a
    follower hears of its commit.
    """

    def between(log: str, start: int, end: int, *, may_extend: bool = False) -> list[tuple[int, Any]]:
        batches = [(0, (1, log[0])), (1, (4, log[1]))]
        found = [(base, batch) for base, batch in batches if batch[0] > start and base < end]
        if not may_extend and any(batch[0] > end for _, batch in found):
            raise Violation("no batch ends there")
        return found

    monkeypatch.setattr(replicas, "batches_between", between)
    lead(checker, 1, 1, "ab", 4)
    checker.forget(KEY, 2)
    follower = Seen(2, Role.FOLLOWER, 1, "ab")
    take(checker, follower, 4)
    assert checker.committed_end(KEY) == 2
    leader = lead(checker, 1, 2, "ac", 4)
    follower.replica.epoch, follower.log = 2, leader.log
    take(checker, follower, 4)
    assert checker.committed_end(KEY) == 4
    with pytest.raises(Violation):
        take(checker, Seen(3, Role.FOLLOWER, 2, "ab"), 4)


def test_what_the_next_leader_commits_counts(checker: ReplicaChecker) -> None:
    lead(checker, 1, 1, "aaa", 3)
    checker.forget(KEY, 2)
    lead(checker, 1, 2, "aab", 3)
    with pytest.raises(Violation):
        take(checker, Seen(2, Role.FOLLOWER, 2, "aaa"), 3)


def test_what_a_leader_commits_after_others_were_given_up_counts_for_its_followers(
    checker: ReplicaChecker,
) -> None:
    leader = lead(checker, 1, 1, "aaaa", 3)
    checker.forget(KEY, 2)
    take(checker, leader, 4)
    with pytest.raises(Violation):
        take(checker, Seen(2, Role.FOLLOWER, 1, "aaab"), 4)


def test_a_leader_owes_what_earlier_epochs_committed_only(checker: ReplicaChecker) -> None:
    lead(checker, 1, 1, "aa", 2)
    lead(checker, 3, 5, "aab", 3)
    assert checker.committed_before(KEY, 4) == 2
    assert checker.committed_before(KEY, 6) == 3
    checker.forget(KEY, 1)
    assert checker.committed_before(KEY, 6) == 1


class TestCompactedLogs:
    """After an unclean election, replicas may copy the log of their leader from the start."""

    @pytest.fixture
    def compacted(self, monkeypatch: pytest.MonkeyPatch) -> ReplicaChecker:
        monkeypatch.setattr(replicas, "records_between", lambda log, start, end: [])
        return ReplicaChecker(World(1), is_compacted=lambda key: True)

    @pytest.fixture
    def follower(self, compacted: ReplicaChecker) -> Seen:
        lead(compacted, 1, 1, "aaa", 3)
        follower = Seen(2, Role.FOLLOWER, 1, "aaa")
        compacted.role_changed(follower)  # type: ignore[arg-type]
        take(compacted, follower, 3)
        return follower

    def follow(self, checker: ReplicaChecker, follower: Seen, epoch: int) -> None:
        follower.replica.epoch = epoch
        checker.role_changed(follower)  # type: ignore[arg-type]

    def test_a_follower_of_the_new_leader_begins_anew_once(
        self, compacted: ReplicaChecker, follower: Seen
    ) -> None:
        compacted.elected_uncleanly(KEY, 2)
        self.follow(compacted, follower, 2)
        take(compacted, follower, 1)
        take(compacted, follower, 3)
        with pytest.raises(Violation):
            take(compacted, follower, 2)

    def test_not_before_it_follows_the_new_leader(self, compacted: ReplicaChecker, follower: Seen) -> None:
        compacted.elected_uncleanly(KEY, 2)
        with pytest.raises(Violation):
            take(compacted, follower, 1)

    def test_not_after_it_has_committed_with_the_new_leader(
        self, compacted: ReplicaChecker, follower: Seen
    ) -> None:
        compacted.elected_uncleanly(KEY, 2)
        self.follow(compacted, follower, 2)
        take(compacted, follower, 3)
        with pytest.raises(Violation):
            take(compacted, follower, 1)

    def test_not_after_another_election(self, compacted: ReplicaChecker, follower: Seen) -> None:
        self.follow(compacted, follower, 2)
        with pytest.raises(Violation):
            take(compacted, follower, 1)

    def test_not_if_the_log_is_not_compacted(self, checker: ReplicaChecker) -> None:
        lead(checker, 1, 1, "aaa", 3)
        checker.elected_uncleanly(KEY, 2)
        follower = Seen(2, Role.FOLLOWER, 2, "aaa")
        take(checker, follower, 3)
        with pytest.raises(Violation):
            take(checker, follower, 1)
