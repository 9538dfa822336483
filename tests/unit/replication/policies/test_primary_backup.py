"""Copies are counted: when a record is confirmed, and what a producer hears, with a primary and its
backups.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.errors import ErrorCode
from tidelog.replication.effects import Degrade, ProposeInSync
from tidelog.replication.limits import Limits
from tidelog.replication.modes import MODES
from tidelog.replication.replica import Replica
from unit.replication.driven import ALL, LEADER_ONLY, Driven
from unit.replication.policies.picture import Picture, followers

POLICY = MODES["primary-backup"].policy
ENOUGH = ErrorCode.NOT_ENOUGH_REPLICAS
AFTER = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


@pytest.mark.parametrize(
    ("copies", "end", "ends", "expected"),
    [
        (1, 10, {}, 10),
        (1, 10, {"b2": 3}, 10),
        (2, 10, {"b2": 7}, 7),
        (2, 10, {"b2": None}, 1),
        (2, 10, {}, 1),
        (2, 10, {"b2": 4, "b3": 8}, 8),
        (3, 10, {"b2": 4, "b3": 8}, 4),
        (3, 10, {"b2": 4, "b3": None}, 1),
        # Backups that are ahead of a primary which came back with less: it gives what it has itself.
        (2, 5, {"b2": 9}, 5),
        (2, 5, {"b2": 9, "b3": 9}, 5),
    ],
)
def test_confirmed_by_so_many_copies(
    copies: int, end: int, ends: dict[str, int | None], expected: int
) -> None:
    view = Picture(end, followers(**ends), min_in_sync=copies, high_watermark=1)
    assert POLICY.committed(view) == expected


def test_a_copy_on_a_replica_that_goes_does_not_count() -> None:
    view = Picture(10, followers(b2=4, b3=8), min_in_sync=2, high_watermark=1, uncounted=frozenset({3}))
    assert POLICY.committed(view) == 4


@given(
    end=st.integers(0, 20),
    ends=st.lists(st.integers(0, 20), max_size=4),
    copies=st.integers(1, 5),
)
def test_confirmed_is_what_that_many_hold(end: int, ends: list[int], copies: int) -> None:
    view = Picture(end, followers(**{f"b{n}": each for n, each in enumerate(ends, 2)}), min_in_sync=copies)
    confirmed = POLICY.committed(view)
    assert confirmed <= end
    if confirmed > view.high_watermark:
        assert 1 + sum(each >= confirmed for each in ends) >= copies
        assert confirmed == end or 1 + sum(each > confirmed for each in ends) < copies


def primary(copies: int = 2, in_sync: tuple[int, ...] = (1, 2), **limits: int) -> Driven:
    return Driven("primary-backup", min_in_sync=copies, **limits).lead(in_sync=in_sync)


class TestProducing:
    @pytest.mark.parametrize("acks", [ALL, LEADER_ONLY])
    def test_the_topic_says_how_many_copies_whatever_the_producer_asks_for(self, acks: int) -> None:
        driven = primary()
        driven.produce(acks)
        assert driven.answers == []
        driven.fetched(2, 1)
        assert driven.answers == [ErrorCode.NONE]

    def test_asynchronous_waits_for_nobody(self) -> None:
        driven = primary(copies=1, in_sync=(1,))
        driven.produce()
        assert driven.answers == [ErrorCode.NONE]
        assert driven.replica.high_watermark == 1

    def test_one_of_two_backups_is_enough_for_two_copies(self) -> None:
        driven = primary(in_sync=(1, 2, 3))
        driven.produce()
        driven.fetched(3, 1)
        assert driven.answers == [ErrorCode.NONE]

    def test_one_backup_that_fetches_twice_is_one_copy(self) -> None:
        driven = primary(copies=3, in_sync=(1, 2, 3))
        driven.produce()
        driven.fetched(2, 1)
        driven.fetched(2, 1)
        assert driven.answers == []

    def test_refused_before_the_append_while_backups_are_missing(self) -> None:
        driven = primary(in_sync=(1,))
        assert driven.replica.before_append(ALL) is ENOUGH
        assert driven.replica.before_append(LEADER_ONLY) is ENOUGH
        assert driven.replica.before_append(0) is ErrorCode.NONE

    def test_what_is_under_way_when_the_backup_goes_hears_so_at_once(self) -> None:
        driven = primary()
        driven.produce()
        driven.lead(in_sync=(1,), partition_epoch=1)
        assert driven.answers == [AFTER]

    def test_what_had_its_copies_is_ok_though_the_backup_is_gone(self) -> None:
        driven = primary()
        driven.log.write(1)
        driven.fetched(2, 1)
        driven.lead(in_sync=(1,), partition_epoch=1)
        driven.wait(1)
        assert driven.answers == [ErrorCode.NONE]

    def test_a_backup_that_is_too_slow_gives_an_error_and_stays(self) -> None:
        driven = primary()
        driven.produce(deadline_ms=500)
        driven.run(driven.replica.tick(60_000))
        assert driven.answers == [AFTER]
        assert not any(isinstance(effect, ProposeInSync) for effect in driven.seen)

    def test_a_backup_that_comes_back_counts_when_it_has_caught_up(self) -> None:
        driven = primary(in_sync=(1,))
        driven.fetched(2, 0)
        assert driven.seen[-1] == ProposeInSync((1, 2), 1, 0)


class TestDegrading:
    def degraded(self) -> Driven:
        driven = primary(in_sync=(1,), degrade_after_ms=1000)
        driven.run(driven.replica.tick(0))
        driven.run(driven.replica.tick(999))
        assert driven.replica.before_append(ALL) is ENOUGH
        driven.run(driven.replica.tick(1000))
        return driven

    def test_without_the_backup_for_so_long_one_copy_will_do(self) -> None:
        driven = self.degraded()
        assert Degrade(1) in driven.seen
        assert driven.replica.before_append(ALL) is ErrorCode.NONE
        driven.produce()
        assert driven.answers == [ErrorCode.NONE]

    def test_a_backup_that_lags_for_so_long_is_not_waited_for(self) -> None:
        driven = primary(degrade_after_ms=1000)
        driven.fetched(2, 0, now_ms=0)
        driven.produce()
        driven.run(driven.replica.tick(900))
        assert driven.answers == []
        driven.run(driven.replica.tick(1001))
        assert driven.answers == [ErrorCode.NONE]

    def test_all_copies_again_when_the_backup_has_caught_up(self) -> None:
        driven = self.degraded()
        driven.produce()
        assert not driven.replica.is_quiescent()
        driven.fetched(2, 1, now_ms=1500)
        driven.lead(in_sync=(1, 2), partition_epoch=1)
        driven.run(driven.replica.tick(1600))
        assert driven.seen[-1] == Degrade(None)
        driven.produce()
        assert driven.answers == [ErrorCode.NONE]

    def test_never_without_the_topics_word(self) -> None:
        driven = primary(in_sync=(1,))
        for now_ms in range(0, 1_000_000, 100_000):
            driven.run(driven.replica.tick(now_ms))
        assert driven.replica.before_append(ALL) is ENOUGH

    def test_two_of_three_copies_where_one_backup_is_left(self) -> None:
        driven = primary(copies=3, degrade_after_ms=1000)
        driven.fetched(2, 0, now_ms=0)
        driven.run(driven.replica.tick(0))
        driven.run(driven.replica.tick(1000))
        assert driven.seen[-1] == Degrade(2)
        driven.produce()
        assert driven.answers == []
        driven.fetched(2, 1, now_ms=1001)
        assert driven.answers == [ErrorCode.NONE]


def test_a_follower_whose_proposal_is_refused_confirms_nothing() -> None:
    """It asked to lead, and does not yet: what only it has is not confirmed by that."""
    driven = Driven("primary-backup", min_in_sync=1)
    replica: Replica = driven.replica
    driven.log.write(0)
    driven.run(replica.follow(1, -1, (1, 2), 0))
    driven.run(replica.propose_itself())
    driven.run(replica.proposal_refused())
    assert (replica.proposals.pending, replica.high_watermark) == (None, 0)


@pytest.mark.parametrize(
    ("limits", "confirmed"),
    [({"min_in_sync": 1}, 3), ({"min_in_sync": 2}, 3), ({"min_in_sync": 3}, 1), ({"durable": True}, 1)],
)
def test_what_a_backup_holds_is_on_two_disks(limits: dict[str, int], confirmed: int) -> None:
    driven = Driven("primary-backup", me=2, **limits)
    driven.run(driven.replica.follow(1, 1, (1, 2), 0))
    driven.log.write(1, 3)
    driven.run(driven.replica.received(1, 1))
    driven.run(driven.replica.follow(2, -1, (1, 2), 1))
    driven.run(driven.replica.stand_in(acted_epoch=1))
    assert driven.replica.high_watermark == confirmed


@pytest.mark.parametrize(("agreed", "acted"), [(1, 2), (2, 1), (None, 1)])
def test_a_backup_that_has_not_agreed_with_the_last_primary_serves_what_it_knows(
    agreed: int | None, acted: int
) -> None:
    driven = Driven("primary-backup", me=2, min_in_sync=2)
    driven.log.write(1, 3)
    if agreed is not None:
        driven.run(driven.replica.follow(agreed, 1, (1, 2), 0))
        driven.run(driven.replica.received(agreed, 1))
    driven.run(driven.replica.follow(3, -1, (1, 2), 1))
    driven.run(driven.replica.stand_in(acted_epoch=acted))
    assert driven.replica.high_watermark == (0 if agreed is None else 1)


@pytest.mark.parametrize(
    ("limits", "committed"),
    [(Limits(1), 7), (Limits(2), 7), (Limits(3), 4), (Limits(2, durable=True), 4)],
)
def test_without_a_primary_two_copies_are_committed_where_two_are_enough(
    limits: Limits, committed: int
) -> None:
    view = Picture(9, high_watermark=4, limits=limits)
    assert POLICY.committed_without_leader(view, confirmed=7) == committed
    assert MODES["isr"].policy.committed_without_leader(view, confirmed=7) == 4


@pytest.mark.parametrize(
    ("limits", "may_degrade", "fewest"),
    [
        (Limits(2), False, 2),
        (Limits(2, degrade_after_ms=0), True, 1),
        (Limits(1, degrade_after_ms=0), False, 1),
    ],
)
def test_only_here_fewer_copies_may_be_enough(limits: Limits, may_degrade: bool, fewest: int) -> None:
    assert (POLICY.may_degrade(limits), POLICY.fewest_copies(limits)) == (may_degrade, fewest)
    assert (MODES["isr"].policy.may_degrade(limits), MODES["isr"].policy.fewest_copies(limits)) == (
        False,
        limits.min_in_sync,
    )


@pytest.mark.parametrize(
    ("copies", "ends", "uncounted", "held"),
    [
        (2, {"b2": 5}, (), True),
        (2, {"b2": 4}, (), False),
        (2, {"b2": 5}, (2,), False),
        (3, {"b2": 5, "b3": 6}, (), True),
        (3, {"b2": 5, "b3": None}, (), False),
    ],
)
def test_copies_of_an_offset_are_counted_as_the_topic_requires(
    copies: int, ends: dict[str, int | None], uncounted: tuple[int, ...], held: bool
) -> None:
    # Fewer are enough for an acknowledgement now; that does not matter here.
    view = Picture(6, followers(**ends), min_in_sync=1, uncounted=frozenset(uncounted), limits=Limits(copies))
    assert POLICY.has_copies_of(view, 5, 0) is held
    assert not POLICY.has_copies_of(view, 7, 0)
    # A deletion of which the backups have not heard.
    assert not POLICY.has_copies_of(view, 5, 2)
    for backup in view.progress.values():
        backup.log_start_offset = 2
    assert POLICY.has_copies_of(view, 5, 2) is held
