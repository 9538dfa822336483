"""The primary leads or nobody does: what the controller decides where roles are fixed."""

import msgspec
import pytest

from tidelog.controller.availability import BrokerAvailability
from tidelog.controller.image import PartitionImage
from tidelog.controller.leader_assignment import without_memory
from tidelog.controller.successions import acting_leader, copied, force, is_restoring, next_state, stand_in
from tidelog.controller.successions.steps import Rules

A, B, C = 1, 2, 3
RULES = Rules(min_in_sync=2, unclean_allowed=True)  # A broker-wide "unclean" means nothing here.
PAIR = PartitionImage((A, B), (A, B), A, 0, last_leader=A, mode="primary-backup")
replace = msgspec.structs.replace


def state(partition: PartitionImage, *alive: int) -> PartitionImage:
    return next_state(partition, BrokerAvailability(frozenset(alive), frozenset(alive)), RULES)


def told(partition: PartitionImage) -> tuple[int, int, tuple[int, ...], tuple[int, ...]]:
    return partition.leader, partition.leader_epoch, partition.in_sync, partition.eligible


def test_nothing_changes_while_both_live() -> None:
    assert state(PAIR, A, B) == PAIR


def test_backup_killed() -> None:
    alone = state(PAIR, A)
    assert told(alone) == (A, 0, (A,), (B,))
    assert told(state(alone, A, B)) == (A, 0, (A,), (B,))  # It joins when it has caught up.


def test_primary_killed_and_back() -> None:
    waiting = state(PAIR, B)
    assert told(waiting) == (-1, 1, (B,), (A,))
    assert acting_leader(waiting) == -1
    assert told(state(waiting, A, B)) == (A, 2, (A,), (B,))


def test_all_killed_and_the_backup_first() -> None:
    dark = state(PAIR)
    assert told(dark) == (-1, 1, (), (A, B))
    assert told(state(dark, B)) == (-1, 1, (), (A, B))
    assert told(state(state(dark, B), A, B)) == (A, 2, (A,), (B,))


def test_a_primary_that_wants_to_stop_leads_until_it_does() -> None:
    after = next_state(PAIR, BrokerAvailability(frozenset({A, B}), frozenset({B})), RULES)
    assert after == PAIR


@pytest.mark.parametrize("empty", [False, True])
def test_a_primary_that_forgot_gathers_first(empty: bool) -> None:
    back = state(without_memory(state(PAIR, B), A, empty=empty), A, B)
    assert is_restoring(back)
    assert told(back) == (A, 2, (B,), ())
    assert back.last_leader == (-1 if empty else A)


@pytest.mark.parametrize("empty", [False, True])
def test_the_last_backup_that_forgets_does_not_take_the_primarys_place(empty: bool) -> None:
    """With one copy, only the primary need have held everything."""
    back = state(without_memory(state(PAIR, B), A, empty=empty), A, B)
    forgetful = without_memory(back, B, empty=False, tail=True)
    assert forgetful.last_leader == (-1 if empty else A)


def test_one_that_has_gathered_is_whole_from_then_on() -> None:
    back = state(without_memory(state(PAIR, B), A, empty=True), A, B)
    leads = state(replace(back, in_sync=(A,)), A, B)
    assert (acting_leader(leads), leads.last_leader, leads.leader_epoch) == (A, A, back.leader_epoch)
    assert told(state(state(leads, B), A, B))[0] == A


def test_a_backup_that_forgot_changes_nothing_for_the_primary() -> None:
    assert told(without_memory(PAIR, B, empty=True)) == (A, 0, (A,), ())


def test_promoted_it_gathers_from_the_old_primary() -> None:
    promoted = state(replace(PAIR, replicas=(B, A)), A, B)
    assert told(promoted) == (B, 1, (A,), (B,))
    assert is_restoring(promoted)
    done = state(replace(promoted, in_sync=(B,)), A, B)
    assert (acting_leader(done), done.last_leader) == (B, B)


def test_promoted_while_the_primary_is_away_it_waits_and_can_be_taken_back() -> None:
    promoted = state(replace(state(PAIR, B), replicas=(B, A)), B)
    assert told(promoted) == (B, 2, (), (A, B))
    assert is_restoring(promoted)
    back = state(replace(promoted, replicas=(A, B)), A, B)
    assert told(back) == (A, 3, (A,), (B,))


def test_forced_it_leads_with_what_there_is() -> None:
    waiting = state(replace(state(PAIR, B), replicas=(B, A)), B)
    forced = force(waiting, BrokerAvailability(frozenset({B}), frozenset({B})), RULES)
    assert (forced.leader, forced.leader_epoch, forced.unclean_epoch) == (B, 3, 3)
    assert is_restoring(forced)


def test_unclean_elections_are_for_operators_only() -> None:
    assert state(PAIR, B).leader == -1


def test_nobody_can_be_forced_who_does_not_serve() -> None:
    assert force(state(PAIR, B), BrokerAvailability(frozenset({B}), frozenset({B})), RULES).leader == -1


def test_readers_go_to_a_backup_only_while_nobody_leads() -> None:
    trio = PartitionImage((A, B, C), (A, C), A, 0, last_leader=A, mode="primary-backup")
    assert stand_in(trio, {A, B, C}) == -1
    away = state(trio, B, C)
    assert stand_in(away, {B, C}) == C  # It had caught up.
    assert stand_in(away, {B}) == B
    assert stand_in(away, set()) == -1
    assert stand_in(trio, {B, C}) == C  # The primary is gone, and the metadata does not know yet.


def test_a_failed_log_of_the_primary() -> None:
    failed = state(replace(PAIR, offline=(A,)), A, B)
    assert told(failed)[:3] == (-1, 1, (B,))
    assert stand_in(failed, {A, B}) == B


class TestMoving:
    MOVING = PartitionImage(
        (B, C, A), (A, B), A, 0, last_leader=A, adding=(C,), removing=(A,), mode="primary-backup"
    )

    def test_the_old_primary_leads_until_the_new_replicas_have_caught_up(self) -> None:
        assert state(self.MOVING, A, B, C) == self.MOVING

    def test_then_the_new_one_gathers_while_the_old_one_is_still_there(self) -> None:
        handed = state(replace(self.MOVING, in_sync=(A, B, C)), A, B, C)
        assert (handed.leader, handed.in_sync, handed.replicas) == (B, (A, C), (B, C, A))
        assert state(handed, A, B, C) == handed

    def test_and_the_old_one_leaves_when_it_leads_and_all_have_caught_up(self) -> None:
        handed = state(replace(self.MOVING, in_sync=(A, B, C)), A, B, C)
        leads = state(replace(handed, in_sync=(B,)), A, B, C)
        assert leads.is_moving
        ending = state(replace(leads, in_sync=(B, C)), A, B, C)
        assert (ending.replicas, ending.uncounted) == ((B, C, A), (A,))
        assert ending.promise_epoch == leads.promise_epoch + 1
        assert state(ending, A, B, C) == ending
        done = copied(ending)
        assert (done.replicas, done.is_moving, done.leader, done.in_sync) == ((B, C), False, B, (B, C))
        assert not done.ending

    def test_the_end_begins_anew_when_a_replica_that_is_to_stay_has_left(self) -> None:
        leads = state(replace(self.MOVING, in_sync=(A, B, C)), A, B, C)
        ending = state(replace(leads, in_sync=(B, C)), A, B, C)
        left = state(ending, A, B)
        assert (left.in_sync, left.ending, left.uncounted) == ((B,), False, ())
        assert state(left, A, B, C) == left
        again = state(replace(left, in_sync=(B, C)), A, B, C)
        assert again.ending
        assert again.promise_epoch == ending.promise_epoch + 1
