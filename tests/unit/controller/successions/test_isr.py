"""Who leads in mode isr: the rows of the truth table that the controller decides."""

import msgspec

from tidelog.controller import leader_assignment
from tidelog.controller.availability import BrokerAvailability
from tidelog.controller.image import PartitionImage
from tidelog.controller.successions import force, next_state
from tidelog.controller.successions.steps import Rules

SAFE = Rules(min_in_sync=2, unclean_allowed=False)
ONE = Rules(min_in_sync=1, unclean_allowed=False)
UNCLEAN = Rules(min_in_sync=1, unclean_allowed=True)
A, B, C = 1, 2, 3
ALL = PartitionImage((A, B, C), (A, B, C), A, 0, last_leader=A)


def state(partition: PartitionImage, *alive: int, rules: Rules = SAFE) -> PartitionImage:
    return next_state(partition, _alive(*alive), rules)


def _alive(*brokers: int) -> BrokerAvailability:
    return BrokerAvailability(frozenset(brokers), frozenset(brokers))


def test_nothing_changes_while_everybody_lives() -> None:
    assert state(ALL, A, B, C) == ALL


def test_leader_killed() -> None:
    after = state(ALL, B, C)
    assert (after.leader, after.leader_epoch, after.in_sync) == (B, 1, (B, C))
    assert state(after, A, B, C) == after  # Back as a follower: it joins when it has caught up, not before.


def test_follower_killed() -> None:
    after = state(ALL, A, C)
    assert (after.leader, after.leader_epoch, after.in_sync, after.eligible) == (A, 0, (A, C), ())


def test_the_last_one_standing_leads_and_the_others_stay_eligible() -> None:
    after = state(state(ALL, A, C), C)
    assert (after.leader, after.in_sync, after.eligible) == (C, (C,), (A,))


def test_all_dead_then_one_that_was_eligible_returns() -> None:
    alone = state(state(ALL, A, C), C)
    dead = state(alone)
    assert (dead.leader, dead.in_sync) == (-1, (C,))
    after = state(dead, A)
    assert (after.leader, after.in_sync) == (A, (A,))
    assert set(after.eligible) == {C}
    assert after.unclean_epoch == -1


def test_the_last_member_that_lost_its_unsynced_end_leads_and_a_damaged_one_does_not() -> None:
    alone = state(state(ALL, A, C, rules=ONE), C, rules=ONE)
    for tail, leader in ((True, C), (False, -1)):
        forgetful = leader_assignment.without_memory(alone, C, empty=False, tail=tail)
        assert state(forgetful, A, B, C, rules=ONE).leader == leader


def test_all_dead_then_one_that_was_not_in_sync_returns() -> None:
    """With a minimum of one, only the last member holds everything."""
    alone = state(state(ALL, A, C, rules=ONE), C, rules=ONE)
    assert alone.eligible == ()
    dead = state(alone, rules=ONE)
    assert state(dead, B, rules=ONE).leader == -1
    assert state(dead, C, rules=ONE).leader == C
    unclean = state(dead, B, rules=UNCLEAN)
    assert (unclean.leader, unclean.in_sync) == (B, (B,))
    assert unclean.unclean_epoch == unclean.leader_epoch


def test_a_replica_that_is_being_added_is_appointed_only_by_hand() -> None:
    """The leader may live, partitioned with its followers, and not have heard of the reassignment."""
    moving = msgspec.structs.replace(ALL, in_sync=(A, B), adding=(C,))
    for rules in (SAFE, UNCLEAN):
        assert state(moving, C, rules=rules).leader == -1
    assert force(moving, _alive(C), SAFE).leader == C
    assert force(msgspec.structs.replace(moving, in_sync=(A,)), _alive(B, C), SAFE).leader == B


def test_epochs_rise_when_a_leadership_ends_too() -> None:
    alone = state(state(ALL, A, rules=ONE), rules=ONE)
    assert (alone.leader, alone.leader_epoch) == (-1, 1)
    assert state(alone, A, rules=ONE).leader_epoch == 2
