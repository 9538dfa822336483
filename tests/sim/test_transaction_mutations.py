"""The seeds with transactions and groups can find bugs: each mutation breaks one rule of the coordinators or
of what readers of committed records are shown, and one of a bounded number of seeds must notice.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from noticing import notice

from tidelog.broker.coordinators import markers as transaction_markers
from tidelog.broker.coordinators.group_machine import GroupMachine
from tidelog.broker.coordinators.marking import write_marker
from tidelog.broker.handlers import write_txn_markers
from tidelog.broker.partitions.partition import Partition
from tidelog.errors import ErrorCode
from tidelog.groups.classic.messages import SyncResponse
from tidelog.groups.classic.syncing import AssignmentSyncing
from tidelog.groups.consumer import reconcile
from tidelog.groups.effects import NO_PRODUCER_ID
from tidelog.groups.offset_requests import OffsetRequests
from tidelog.log.producers import ProducerStates
from tidelog.log.reading import Reading
from tidelog.protocol.markers import Marker
from tidelog.sim.plan import PLAIN, TRANSACTIONS
from tidelog.transactions import rules

MAX_SEEDS = 30

Patch = Callable[[pytest.MonkeyPatch], None]


# --- what readers are shown ---------------------------------------------------------------------------------


def show_open_transactions(patch: pytest.MonkeyPatch) -> None:
    """Readers of committed records do not wait for the end of a transaction."""
    patch.setattr(Partition, "last_stable_offset", property(lambda self: self.high_watermark))


def hide_nothing(patch: pytest.MonkeyPatch) -> None:
    """Readers are not told which transactions were aborted."""
    patch.setattr(Reading, "aborted_in", lambda self, offset, size, end_offset: [])


# --- how transactions end -----------------------------------------------------------------------------------


def commit_what_is_aborted(patch: pytest.MonkeyPatch) -> None:
    """Whatever the producer wanted, its partitions hear that it is committed."""
    _change_markers(patch, lambda place, marker: marker._replace(commits=True))


def disagree(patch: pytest.MonkeyPatch) -> None:
    """Only one partition hears that a transaction is committed."""
    _change_markers(
        patch, lambda place, marker: marker._replace(commits=marker.commits and place.partition == 0)
    )


def _change_markers(patch: pytest.MonkeyPatch, change: Callable[[Any, Marker], Marker]) -> None:
    original = write_marker

    def write(
        broker: Any, of: Any, name: Any, producer_id: int, epoch: int, marker: Marker, *rest: Any
    ) -> None:
        original(broker, of, name, producer_id, epoch, change(name, marker), *rest)

    patch.setattr(transaction_markers, "write_marker", write)
    patch.setattr(write_txn_markers, "write_marker", write)


def forget_a_marker(patch: pytest.MonkeyPatch) -> None:
    """A partition that refused the end of a transaction is not asked again."""
    patch.setattr(transaction_markers, "_is_done", lambda order, partition, code: True)


def end_what_began_later(patch: pytest.MonkeyPatch) -> None:
    """A late copy of a marker ends the producer's next transaction."""
    patch.setattr(ProducerStates, "is_late", lambda self, producer_id, epoch, marker: False)


def end_pending_offsets_too_early(patch: pytest.MonkeyPatch) -> None:
    """A late copy of a marker is not written, and yet ends what the next transaction has sent."""
    original = Partition.append_marker
    patch.setattr(Partition, "append_marker", lambda self, *args: original(self, *args)._replace(is_new=True))


def count_offsets_at_once(patch: pytest.MonkeyPatch) -> None:
    """Offsets that are sent as part of a transaction do not wait for its end."""
    original = OffsetRequests._committed

    def committed(self: OffsetRequests, group_id: str, accepted: Any, producer_id: int) -> None:
        original(self, group_id, accepted, NO_PRODUCER_ID)

    patch.setattr(OffsetRequests, "_committed", committed)


# --- who may write ------------------------------------------------------------------------------------------


def fence_nobody(patch: pytest.MonkeyPatch) -> None:
    """Whoever takes over a transactional id goes on in its predecessor's epoch."""
    original = rules.start

    def start(transaction: Any, *args: Any, **options: Any) -> Any:
        new = original(transaction, *args, **options)
        same = transaction.producer_id == new.producer_id and transaction.epoch >= 0
        return new.to(new.state, epoch=transaction.epoch) if same else new

    patch.setattr(rules, "start", start)


# --- groups -------------------------------------------------------------------------------------------------


def acknowledge_before_replication(patch: pytest.MonkeyPatch) -> None:
    """A coordinator answers when its own log has a record."""
    patch.setattr(Partition, "when_acknowledged", _at_once(Partition.when_acknowledged))


def _at_once(original: Callable[..., None]) -> Callable[..., None]:
    def when_acknowledged(
        self: Partition, end_offset: int, acks: int, timeout_ms: int, done: Callable[[ErrorCode], None]
    ) -> None:
        if self.name.topic.startswith("__"):
            done(ErrorCode.NONE)
        else:
            original(self, end_offset, acks, timeout_ms, done)

    return when_acknowledged


def begin_with_nothing(patch: pytest.MonkeyPatch) -> None:
    """A new coordinator does not read its log."""
    patch.setattr(GroupMachine, "replay", lambda self, record, batch: None)


def let_anybody_commit(patch: pytest.MonkeyPatch) -> None:
    """Whose generation is over commits like everybody else."""
    patch.setattr(OffsetRequests, "_check_commit", lambda self, request: self.groups.get(request.group_id))


def give_everybody_everything(patch: pytest.MonkeyPatch) -> None:
    """Every member is told what belongs to all of them together."""

    def assigned(self: AssignmentSyncing, member: Any) -> SyncResponse:
        everything = sorted(set().union(*(each.assignment for each in self.members.values())))
        return SyncResponse(ErrorCode.NONE, self.protocol_type, self.protocol, bytes(everything))

    patch.setattr(AssignmentSyncing, "_assigned", assigned)


def give_what_another_has(patch: pytest.MonkeyPatch) -> None:
    """By the consumer protocol: the last owner has not given it up yet."""
    original = reconcile._free
    patch.setattr(
        reconcile, "_free", lambda target, kept, is_free: original(target, kept, lambda *place: True)
    )


class Mutation(NamedTuple):
    patch: Patch
    wanted: dict[str, Any] = {}  # noqa: RUF012 - what the seeds are about; never changed


TEAM = {"members": 3, "faults": ("clock drift",), "consumers": False}
MOVING = {"faults": ("kill", "restart"), "pace_ms": (100, 700)}

MUTATIONS = [
    Mutation(show_open_transactions),
    Mutation(hide_nothing),
    Mutation(commit_what_is_aborted),
    Mutation(disagree),
    Mutation(forget_a_marker, {"faults": ("kill", "cut", "halves"), "pace_ms": (100, 2000)}),
    Mutation(end_what_began_later, {**PLAIN, "faults": ("old letters",), "old_transactors": True}),
    Mutation(end_pending_offsets_too_early, {**PLAIN, "faults": ("old letters",), "old_transactors": True}),
    Mutation(count_offsets_at_once),
    Mutation(fence_nobody),
    Mutation(acknowledge_before_replication, MOVING),
    Mutation(begin_with_nothing, MOVING),
    Mutation(let_anybody_commit, TEAM),
    Mutation(give_everybody_everything, TEAM),
    Mutation(give_what_another_has, {**PLAIN, "members": 3, "consumers": True}),
]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.patch.__name__)
def test_a_seed_notices(mutation: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
    mutation.patch(monkeypatch)
    notice(TRANSACTIONS, mutation.patch.__name__, MAX_SEEDS, mutation.wanted)
