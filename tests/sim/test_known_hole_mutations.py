"""Holes that were known before they were closed: each mutation opens one again, and a story notices."""

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
import pytest

from tidelog.broker.node.promise_confirmations import PromiseConfirmations
from tidelog.controller import reassignment
from tidelog.controller.image import PartitionImage
from tidelog.controller.promises import ConfirmedPromise
from tidelog.controller.successions import isr, primary_backup
from tidelog.controller.successions.steps import Rules, finish_move, led_by
from tidelog.errors import InvariantViolation
from tidelog.replication.attachments.deletions import Deletions, LoggedDeletions
from tidelog.replication.attachments.restorer import Restoring
from tidelog.replication.attachments.successors import NoSuccessors, Successors
from tidelog.replication.policies.primary_backup import PrimaryBackupPolicy
from tidelog.replication.replica import Replica
from tidelog.sim.checkers import Violation
from tidelog.sim.stories import cancelled_moves, known_holes, last_members, unaware_leaders
from tidelog.sim.telling import StoryFailed

Patch = Callable[[pytest.MonkeyPatch], None]


def lead_without_asking(patch: pytest.MonkeyPatch) -> None:
    """The last leader leads with what it has, whatever others have kept."""

    def member(partition: PartitionImage, leader: int, in_sync: Any, *rest: Any, **named: Any) -> Any:
        unclean = named.get("unclean", False)
        return led_by(partition, leader, in_sync or (leader,) if unclean else in_sync, *rest, **named)

    patch.setattr(isr, "led_by", member)


def end_moves_at_once(patch: pytest.MonkeyPatch) -> None:
    """Replicas leave as soon as all that are to stay have caught up once."""
    original = primary_backup._look_for_the_end

    def ended(partition: PartitionImage) -> PartitionImage:
        found = original(partition)
        return finish_move(found) if found.ending else found

    patch.setattr(primary_backup, "_look_for_the_end", ended)


def count_those_that_go(patch: pytest.MonkeyPatch) -> None:
    """Copies on replicas that are about to go make an acknowledgement."""
    patch.setattr(PartitionImage, "uncounted", ())


def acknowledge_by_those_that_go(patch: pytest.MonkeyPatch) -> None:
    """The same only for what is written now: what was there before is confirmed without them."""
    original = PrimaryBackupPolicy.committed

    def committed(self: PrimaryBackupPolicy, view: Any) -> int:
        uncounted, view.uncounted = view.uncounted, frozenset()
        found = original(self, view)
        view.uncounted = uncounted
        return found

    patch.setattr(PrimaryBackupPolicy, "committed", committed)


def confirm_unseen(patch: pytest.MonkeyPatch) -> None:
    """A leader confirms copies as soon as it is asked for them."""
    original = PromiseConfirmations._confirmed

    def confirmed(self: Any) -> Any:
        yield from (each._replace(copied=True) for each in original(self))
        for (topic_id, partition), mark in self._open.items():
            yield ConfirmedPromise(topic_id, partition, mark.promise_epoch, copied=True)

    patch.setattr(PromiseConfirmations, "_confirmed", confirmed)


def delete_without_a_record(patch: pytest.MonkeyPatch) -> None:
    """Voters that are heard of raise their log's start, and whoever is elected later has its own."""
    patch.setattr(LoggedDeletions, "delete_before", Deletions.delete_before)


def go_on_while_members_follow(patch: pytest.MonkeyPatch) -> None:
    """A leader that may have been given up goes on while all members follow it."""
    original = Successors.all_follow

    def all_follow(self: Successors, *, by_hand: bool = False) -> bool:
        return original(self, by_hand=by_hand and not self._able(by_hand=False))

    patch.setattr(Successors, "all_follow", all_follow)


def commit_in_doubt(patch: pytest.MonkeyPatch) -> None:
    """A leader that may have a successor takes no more records, but commits what it has."""
    patch.setattr(Replica, "ask_before_commit", lambda self, safe_end_offset: None)


def commit_what_members_hold(patch: pytest.MonkeyPatch) -> None:
    """A leader that may have been fenced does not look at what followers outside the in-sync set hold."""
    patch.setattr(Successors, "held_by_all", NoSuccessors.held_by_all)


def drop_added_replicas_at_once(patch: pytest.MonkeyPatch) -> None:
    """A cancelled reassignment removes the replicas that it added, even if none is known to be complete."""
    original = reassignment._check_dropped

    def check(present: PartitionImage, wanted: PartitionImage, rules: Rules) -> None:
        if present.in_sync:
            original(present, wanted, rules)

    patch.setattr(reassignment, "_check_dropped", check)


def keep_only_the_last_leader(patch: pytest.MonkeyPatch) -> None:
    """If none is known to be complete, only the last leader must not be dropped."""
    original = reassignment._check_dropped

    def check(present: PartitionImage, wanted: PartitionImage, rules: Rules) -> None:
        if present.in_sync or present.last_leader not in wanted.replicas:
            original(present, wanted, rules)

    patch.setattr(reassignment, "_check_dropped", check)


def appoint_replicas_that_are_added(patch: pytest.MonkeyPatch) -> None:
    """An unclean election takes any replica that is available."""
    original = isr._led_by_other

    def led_by_any(partition: PartitionImage, available: Any, rules: Rules) -> PartitionImage:
        before = msgspec.structs.replace(partition, adding=())
        return msgspec.structs.replace(original(before, available, rules), adding=partition.adding)

    patch.setattr(isr, "_led_by_other", led_by_any)


def copy_the_log_with_the_highest_epoch(patch: pytest.MonkeyPatch) -> None:
    """The last member copies the log whose last record is the newest, even if its own diverges from it."""
    original = Restoring.diverged

    def diverged(self: Restoring, diverging: tuple[int, int]) -> bool:
        source = self._driver.replica.leader
        if self._own_log_decides and self._doubted.get(source) == self._tails.get(source):
            return False
        return original(self, diverging)

    patch.setattr(Restoring, "diverged", diverged)


def forget_sessions_of_closed_connections(patch: pytest.MonkeyPatch) -> None:
    """Whoever is fenced is considered to lead nothing any more."""
    patch.setattr(isr, "_in_session", lambda partition, available: False)


class Mutation(NamedTuple):
    patch: Patch
    story: Callable[[], object]


MUTATIONS = (
    Mutation(lead_without_asking, known_holes.others_hold_more_than_the_last_member),
    Mutation(lead_without_asking, known_holes.longest_log_was_not_the_last_one),
    Mutation(end_moves_at_once, known_holes.slow_backup_at_the_end_of_a_move),
    Mutation(end_moves_at_once, known_holes.disk_is_lost_before_the_end_of_a_move),
    Mutation(confirm_unseen, known_holes.disk_is_lost_before_the_end_of_a_move),
    Mutation(count_those_that_go, known_holes.slow_backup_at_the_end_of_a_move),
    Mutation(delete_without_a_record, known_holes.voter_that_has_not_heard_of_a_deletion),
    Mutation(delete_without_a_record, known_holes.deletion_that_only_its_leader_has),
    Mutation(go_on_while_members_follow, known_holes.forced_while_members_follow),
    Mutation(commit_in_doubt, known_holes.followed_again_after_a_forced_election),
    Mutation(commit_what_members_hold, unaware_leaders.follower_lacks_what_members_hold),
    Mutation(appoint_replicas_that_are_added, unaware_leaders.replica_that_is_being_added),
    Mutation(
        forget_sessions_of_closed_connections, unaware_leaders.connections_close_before_an_unclean_election
    ),
    Mutation(
        forget_sessions_of_closed_connections, unaware_leaders.connections_close_before_a_forced_election
    ),
    Mutation(drop_added_replicas_at_once, cancelled_moves.last_leader_was_being_added),
    Mutation(keep_only_the_last_leader, cancelled_moves.newest_log_was_being_added),
    Mutation(copy_the_log_with_the_highest_epoch, last_members.committed_record_of_an_earlier_epoch),
    Mutation(acknowledge_by_those_that_go, known_holes.written_during_the_end_of_a_move),
)


@pytest.mark.parametrize(
    "mutation", MUTATIONS, ids=lambda each: f"{each.patch.__name__}:{each.story.__name__}"
)
def test_mutation_is_noticed(mutation: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
    mutation.patch(monkeypatch)
    with pytest.raises((Violation, StoryFailed, InvariantViolation)):
        mutation.story()
