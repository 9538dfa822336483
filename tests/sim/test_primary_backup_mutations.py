"""The seeds of mode ``primary-backup`` can find bugs: each mutation breaks one rule, and one of a few seeds
must notice.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
import pytest
from noticing import notice

from tidelog.broker.partitions import table as partitions
from tidelog.broker.partitions.partition import Partition
from tidelog.controller import successions
from tidelog.controller.successions import primary_backup
from tidelog.errors import ErrorCode, OffsetOutOfRange
from tidelog.replication.attachments import restorer
from tidelog.replication.attachments.restorer import Restoring
from tidelog.replication.driver import ReplicaDriver
from tidelog.replication.policies.primary_backup import PrimaryBackupPolicy
from tidelog.replication.replica import Replica
from tidelog.replication.view import YES
from tidelog.sim.plan import ProducerPlan
from tidelog.types import NO_BROKER

MAX_SEEDS = 12

Patch = Callable[[pytest.MonkeyPatch], None]


# --- copies -------------------------------------------------------------------------------------------------


def count_a_backup_twice(patch: pytest.MonkeyPatch) -> None:
    """A backup that fetches again is taken for another copy."""

    def committed(self: PrimaryBackupPolicy, view: Any) -> int:
        held = [each.end_offset for each in view.progress.values() if each.seen for _ in range(2)]
        held = sorted(held, reverse=True)
        if view.min_in_sync <= 1:
            return int(view.durable_end_offset)
        if len(held) < view.min_in_sync - 1:
            return int(view.high_watermark)
        return min(int(view.durable_end_offset), int(held[view.min_in_sync - 2]))

    patch.setattr(PrimaryBackupPolicy, "committed", committed)


def acknowledge_past_the_primarys_end(patch: pytest.MonkeyPatch) -> None:
    """What backups hold is confirmed, whether the primary holds it, synced as promised, or not."""

    def committed(self: PrimaryBackupPolicy, view: Any) -> int:
        held = sorted((each.end_offset for each in view.progress.values() if each.seen), reverse=True)
        if view.min_in_sync <= 1 or len(held) < view.min_in_sync - 1:
            return int(view.log.end_offset)
        return min(int(view.log.end_offset), int(held[view.min_in_sync - 2]))

    patch.setattr(PrimaryBackupPolicy, "committed", committed)


def downgrade_silently(patch: pytest.MonkeyPatch) -> None:
    """Without its backups a primary goes on alone, and says ok."""
    patch.setattr(
        Replica, "min_in_sync", property(lambda self: min(self.limits.min_in_sync, len(self.in_sync)))
    )


def ok_when_time_is_up(patch: pytest.MonkeyPatch) -> None:
    """A backup that does not answer in time is not mentioned."""
    patch.setattr(PrimaryBackupPolicy, "too_late", ErrorCode.NONE)


def ok_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PrimaryBackupPolicy, "acknowledged", lambda self, view, end_offset, acks: YES)


# --- a primary that came back with less ---------------------------------------------------------------------


def _succeed_by(patch: pytest.MonkeyPatch, next_state: Callable[[Any, Any, Any], Any]) -> None:
    mutated = successions.BY_MODE["primary-backup"]._replace(next_state=next_state)
    patch.setitem(successions.BY_MODE, "primary-backup", mutated)


def lead_without_gathering(patch: pytest.MonkeyPatch) -> None:
    """A primary that forgot leads with what it has, and its backups cut off what it lacks."""
    original = primary_backup.next_state

    def next_state(partition: Any, standing: Any, rules: Any) -> Any:
        sound = (*partition.eligible, partition.last_leader)
        return original(msgspec.structs.replace(partition, eligible=sound), standing, rules)

    _succeed_by(patch, next_state)


def hear_nobody(patch: pytest.MonkeyPatch) -> None:
    """It asks, and does not wait for the answers."""
    patch.setattr(restorer, "has_heard_enough", lambda mandate, copies, heard: True)


def believe_who_forgot(patch: pytest.MonkeyPatch) -> None:
    """A backup that lost power is as good a witness as any other."""
    original = restorer.has_heard_enough

    def heard_enough(mandate: Any, copies: int, heard: Any) -> bool:
        return original(mandate._replace(sound=frozenset(mandate.replicas)), copies, heard)

    patch.setattr(restorer, "has_heard_enough", heard_enough)


def copy_from_anybody(patch: pytest.MonkeyPatch) -> None:
    """Whoever was heard first is copied from, and that is all."""
    original = Restoring._copy_from

    def copy_from(self: Restoring, replica: int) -> None:
        first = next(iter(self._tails))
        self._tails = {first: self._tails[first]}
        if self._tails[first] > self._driver.tail:
            original(self, first)
        else:
            self.done = True
            self._propose()

    patch.setattr(Restoring, "_copy_from", copy_from)


def serve_while_gathering(patch: pytest.MonkeyPatch) -> None:
    """A primary that still gathers answers its backups: they are told to cut off what it is about to ask
    them for.
    """
    original = ReplicaDriver.lends_to

    def lends_to(self: ReplicaDriver, asker: int) -> bool:
        return self.restorer.gathers or original(self, asker)

    patch.setattr(ReplicaDriver, "lends_to", lends_to)


# --- roles --------------------------------------------------------------------------------------------------


def backup_takes_over(patch: pytest.MonkeyPatch) -> None:
    """While the primary is away, its backup leads."""
    original = primary_backup.next_state

    def next_state(partition: Any, standing: Any, rules: Any) -> Any:
        new = original(partition, standing, rules)
        able = [member for member in new.in_sync if member in standing.unfenced]
        if new.leader >= 0 or not able:
            return new
        return msgspec.structs.replace(new, leader=able[0], leader_epoch=new.leader_epoch + 1)

    _succeed_by(patch, next_state)


def promoted_leads_at_once(patch: pytest.MonkeyPatch) -> None:
    """Another order of the replicas makes a backup the leader before it has what came last."""
    patch.setattr(
        primary_backup,
        "_is_whole",
        lambda partition, primary: primary in {*partition.in_sync, *partition.eligible},
    )


# --- readers ------------------------------------------------------------------------------------------------


def read_unconfirmed(patch: pytest.MonkeyPatch) -> None:
    """Readers see what the primary alone holds."""
    patch.setattr(Partition, "readable_end_offset", property(lambda self: self.log.end_offset))


def out_of_range_at_the_backup(patch: pytest.MonkeyPatch) -> None:
    """A backup that has less than a reader has seen tells it that the place does not exist."""
    patch.setattr(partitions, "stand_in", lambda partition, present, **_: NO_BROKER)
    patch.setattr(Partition, "_serves_beside", lambda self, follower, rack: True)

    def check_position(self: Partition, offset: int, *, confirmed: bool = False) -> None:
        if not self.log.start_offset <= offset <= self.log.end_offset:
            raise OffsetOutOfRange("outside of the log")

    patch.setattr(Partition, "check_position", check_position)


class Mutation(NamedTuple):
    patch: Patch
    wanted: dict[str, Any] = {}  # noqa: RUF012 - what the seeds are about; never changed


PRODUCERS = tuple(ProducerPlan(number % 3, -1, True) for number in range(6))
OFTEN_MS = (100, 700)
STRANDED = ("slow network", "strand", "worst moment")
# What only some replicas have, and then a power failure: the rules that matter are those about what was lost.
POWER = {
    "synced": False, "faults": ("power", "worst moment", "strand", "slow network"), "controllers": 3,
    "administrated": False, "producers": PRODUCERS, "pace_ms": OFTEN_MS,
}  # fmt: skip

MUTATIONS = (
    Mutation(count_a_backup_twice, {"min_in_sync": 3}),
    Mutation(acknowledge_past_the_primarys_end, {**POWER, "synced": True}),
    Mutation(downgrade_silently, {"min_in_sync": 2}),
    Mutation(ok_when_time_is_up, {**POWER, "min_in_sync": 3, "faults": ("strand", "worst moment")}),
    Mutation(ok_at_once, {**POWER, "min_in_sync": 2, "faults": ("strand", "worst moment")}),
    Mutation(lead_without_gathering, {**POWER, "min_in_sync": 2}),
    Mutation(hear_nobody, {**POWER, "min_in_sync": 2}),
    Mutation(believe_who_forgot, {**POWER, "min_in_sync": 3}),
    Mutation(copy_from_anybody, {**POWER, "min_in_sync": 2}),
    Mutation(serve_while_gathering, {**POWER, "min_in_sync": 2}),
    Mutation(backup_takes_over),
    Mutation(promoted_leads_at_once, {"administrated": True, "min_in_sync": 1}),
    Mutation(read_unconfirmed, {**POWER, "min_in_sync": 3, "faults": STRANDED}),
    Mutation(out_of_range_at_the_backup, {"min_in_sync": 1, "faults": ("kill", "cut")}),
)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.patch.__name__)
def test_seeds_notice(mutation: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
    mutation.patch(monkeypatch)
    notice("primary-backup", mutation.patch.__name__, MAX_SEEDS, mutation.wanted)
