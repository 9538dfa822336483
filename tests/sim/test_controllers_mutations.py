"""The controllers' seeds can find bugs: each mutation breaks one rule of elections, snapshots or membership,
and one of a bounded number of seeds must notice.

A mutation that nobody catches shows a rule without a guard.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from noticing import notice

from tidelog.broker.metadata import opening as metadata_opening
from tidelog.broker.metadata.quorum import MetadataQuorum
from tidelog.broker.metadata.snapshots import Applied, MetadataSnapshots
from tidelog.broker.metadata.voters import MetadataVoters
from tidelog.controller.snapshot_store import SnapshotStore
from tidelog.errors import TidelogError
from tidelog.replication.attachments.voter import Elected
from tidelog.replication.driver import ReplicaDriver
from tidelog.replication.effects import Truncate
from tidelog.replication.election import Election
from tidelog.replication.policies.quorum import QuorumPolicy
from tidelog.replication.replica import Replica, Role
from tidelog.replication.view import YES
from tidelog.replication.voters import VoterHistory, VoterSet
from tidelog.sim.run import CONTROLLERS

MAX_SEEDS = 30

Patch = Callable[[pytest.MonkeyPatch], None]


# --- votes --------------------------------------------------------------------------------------------------


def vote_before_sync(patch: pytest.MonkeyPatch) -> None:
    """The ballot is written, but nobody waits for it."""
    original = Elected._save

    def save(self: Elected, ballot: Any) -> None:
        original(self, ballot)
        self._saving = False

    patch.setattr(Elected, "_save", save)


def forget_the_ballot(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Elected, "_save", lambda self, ballot: None)


def vote_for_anybody(patch: pytest.MonkeyPatch) -> None:
    """Whether the candidate's log is complete does not matter."""

    def grant(self: Election, ask: Any, now_ms: int, tail: Any) -> bool:
        free = self.voted_for in (-1, ask.candidate)
        return bool(ask.epoch >= self.epoch and self.leader == -1 and free)

    def would_elect(self: Election, ask: Any, now_ms: int, chance: float, tail: Any) -> bool:
        return bool(ask.epoch >= self.epoch and not self._hears_leader(now_ms))

    patch.setattr(Election, "_grant", grant)
    patch.setattr(Election, "_would_elect", would_elect)


def vote_twice(patch: pytest.MonkeyPatch) -> None:
    def grant(self: Election, ask: Any, now_ms: int, tail: Any) -> bool:
        return bool(ask.epoch >= self.epoch and self.leader == -1 and ask.tail >= tail)

    patch.setattr(Election, "_grant", grant)


# --- commits ------------------------------------------------------------------------------------------------


def count_unsynced_copies(patch: pytest.MonkeyPatch) -> None:
    """Followers fetch on, and so acknowledge, before their disk has the records."""
    patch.setattr(
        ReplicaDriver, "may_fetch", property(lambda self: not self.closed and self.log.failure is None)
    )
    patch.setattr(Replica, "durable_end_offset", property(lambda self: self.log.end_offset))


def commit_with_one_copy(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(QuorumPolicy, "committed", lambda self, view: view.durable_end_offset)


def acknowledge_before_commit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(QuorumPolicy, "acknowledged", lambda self, view, end_offset, acks: YES)


def truncate_to_the_watermark(patch: pytest.MonkeyPatch) -> None:
    """A follower drops everything above its watermark and trusts the rest."""

    def follow(self: Replica, *args: Any) -> Any:
        effects = original(self, *args)
        return [*effects, Truncate(max(self.high_watermark, self.log.start_offset))]

    original = Replica.follow
    patch.setattr(Replica, "diverged", lambda self, epoch, parts, *, unclean=False: [])
    patch.setattr("tidelog.replication.replica.divergence", lambda *histories: None)
    patch.setattr(Replica, "follow", follow)


def ignore_divergence(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("tidelog.replication.replica.divergence", lambda *histories: None)


# --- snapshots ----------------------------------------------------------------------------------------------


def drop_the_log_before_the_snapshot_is_synced(patch: pytest.MonkeyPatch) -> None:
    def finish(self: SnapshotStore, file: Any, temporary: str, path: str) -> None:
        self._storage.rename(temporary, path)

    patch.setattr(SnapshotStore, "_finish", finish)


def snapshot_what_is_not_committed(patch: pytest.MonkeyPatch) -> None:
    original = MetadataSnapshots._write

    def write(self: MetadataSnapshots) -> None:
        quorum: MetadataQuorum = self._ports.on_installed.__self__  # type: ignore[attr-defined]
        honest = self._ports
        self._ports = honest._replace(applied=lambda: Applied(quorum._decided, quorum.driver.log.end_offset))
        original(self)
        self._ports = honest

    patch.setattr(MetadataSnapshots, "_write", write)


def forget_the_epoch_before_the_log(patch: pytest.MonkeyPatch) -> None:
    """Where a log begins later, nobody knows any more which epoch ended there."""
    patch.setattr(Replica, "base_epoch", property(lambda self: -1, lambda self, epoch: None))


def leave_voters_out_of_snapshots(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MetadataVoters, "restarted", lambda self, voters: None)
    patch.setattr(metadata_opening, "_voters", lambda log, contents, first: VoterHistory(first))


def drop_more_than_the_snapshot_stands_for(patch: pytest.MonkeyPatch) -> None:
    """After a snapshot everything committed leaves the log, also what was committed since it was begun."""
    original = MetadataSnapshots._drop_beginning

    def drop(self: MetadataSnapshots) -> None:
        original(self)
        self._driver.log.advance_start(self._driver.replica.high_watermark)

    patch.setattr(MetadataSnapshots, "_drop_beginning", drop)


# --- membership ---------------------------------------------------------------------------------------------


def several_changes_in_flight(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        MetadataVoters, "is_committed", property(lambda self: self._driver.replica.role is Role.LEADER)
    )


def several_voters_at_once(patch: pytest.MonkeyPatch) -> None:
    """All wishes whose time has come make one set of voters."""

    def grant(self: MetadataVoters) -> None:
        wanted, granted = self.latest, []
        for change_request in list(self._requested):
            try:
                changed = change_request.change(wanted)
            except TidelogError:
                continue
            if changed is not None and self._could_decide(changed):
                wanted = changed
                granted.append(change_request)
        for change_request in granted:
            self._requested.remove(change_request)
            change_request.done(None)
        if granted:
            self._write(wanted)

    patch.setattr(MetadataVoters, "_grant", grant)
    patch.setattr(VoterSet, "is_safe_after", lambda self, before: True)


def the_old_majority_counts(patch: pytest.MonkeyPatch) -> None:
    """A leader goes on to commit with the voters it was elected by."""
    patch.setattr(ReplicaDriver, "change_replicas", lambda self, replicas: None)


def vote_while_forgetful(patch: pytest.MonkeyPatch) -> None:
    """A voter with another disk is the voter it was."""
    patch.setattr(Election, "_is_meant", lambda self, ask, now_ms, tail: True)
    patch.setattr(VoterSet, "counts", lambda self, voter_id, directory: voter_id in self)


class Mutation(NamedTuple):
    patch: Patch
    wanted: dict[str, Any] = {}  # noqa: RUF012 - what the seeds are about; never changed


HASTY = {"hasty": True}
NEW_DISKS = {"operator_ms": 0}
NEW_VOTERS = {"operator_ms": 500, "zeal": 0.5}

MUTATIONS = [
    Mutation(forget_the_ballot),
    Mutation(vote_before_sync),
    Mutation(vote_for_anybody),
    Mutation(vote_twice, HASTY),
    Mutation(count_unsynced_copies),
    Mutation(commit_with_one_copy),
    Mutation(acknowledge_before_commit),
    Mutation(truncate_to_the_watermark),
    Mutation(ignore_divergence),
    Mutation(drop_the_log_before_the_snapshot_is_synced),
    Mutation(snapshot_what_is_not_committed),
    Mutation(forget_the_epoch_before_the_log),
    Mutation(leave_voters_out_of_snapshots, NEW_VOTERS),
    Mutation(drop_more_than_the_snapshot_stands_for),
    Mutation(several_changes_in_flight, {**NEW_VOTERS, **HASTY}),
    Mutation(several_voters_at_once, NEW_VOTERS),
    Mutation(the_old_majority_counts, NEW_VOTERS),
    Mutation(vote_while_forgetful, NEW_DISKS),
]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.patch.__name__)
def test_a_seed_notices(mutation: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
    mutation.patch(monkeypatch)
    notice(CONTROLLERS, mutation.patch.__name__, MAX_SEEDS, mutation.wanted)
