"""The rules by which a promise counts from its confirmation, and by which a backup serves readers, have
guards: each mutation breaks one of them, and a story that sets the trap must notice.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
import pytest

from tidelog.controller import brokers, leader_assignment, promises, reassignment, successions
from tidelog.controller.image import PartitionImage
from tidelog.controller.successions import mode_changes, steps
from tidelog.controller.successions.promising import promised
from tidelog.controller.successions.steps import Rules
from tidelog.errors import InvariantViolation
from tidelog.replication.attachments.restorer import Mandate, Restoring
from tidelog.replication.attachments.stand_in import Backup
from tidelog.replication.effects import Commit, Effects
from tidelog.replication.replica import Replica, Role
from tidelog.sim.checkers import Violation
from tidelog.sim.stories import durability, stand_ins
from tidelog.sim.telling import StoryFailed

Patch = Callable[[pytest.MonkeyPatch], None]


def sync_at_once(patch: pytest.MonkeyPatch) -> None:
    """A setting holds from its record on, whether or not what came before is synced."""

    def at_once(*args: Any) -> PartitionImage:
        return msgspec.structs.replace(promised(*args), unsynced=())

    for module in (promises, leader_assignment, successions):
        patch.setattr(module, "promised", at_once)


def trust_who_has_not_synced(patch: pytest.MonkeyPatch) -> None:
    """A power failure counts by the setting alone."""
    patch.setattr(brokers, "survives_power_failure", lambda partition, broker_id, rules: rules.synced)


def confirm_for_ever(patch: pytest.MonkeyPatch) -> None:
    """What was confirmed once counts also when the setting was taken back and given again."""
    original = promises._confirmed

    def confirmed(
        partition: PartitionImage, broker_id: int, promise: promises.ConfirmedPromise, rules: Rules
    ) -> PartitionImage:
        return original(partition, broker_id, promise._replace(promise_epoch=partition.promise_epoch), rules)

    patch.setattr(promises, "_confirmed", confirmed)


def count_copies_at_once(patch: pytest.MonkeyPatch) -> None:
    """Whoever is to lead goes by the copies that are asked for now."""
    copies = property(lambda self: self._driver.replica.limits.min_in_sync)
    patch.setattr(Restoring, "_copies", copies)


def drop_newcomers_at_once(patch: pytest.MonkeyPatch) -> None:
    """A move that is taken back ends at once, whoever leads by then."""
    patch.setattr(reassignment, "leavers", steps.from_before)


def believe_the_first_answer(patch: pytest.MonkeyPatch) -> None:
    """What a backup said of its log is true for ever."""
    original, parted = Restoring.got, Restoring.diverged

    def got(self: Restoring, answer: Any) -> None:
        if answer.sender not in self._tails:
            original(self, answer)

    def diverged(self: Restoring, diverging: tuple[int, int]) -> bool:
        self._doubted.update(self._tails)
        return parted(self, diverging)

    def renewed(self: Restoring, mandate: Mandate) -> bool:
        if mandate.epoch != self.mandate.epoch:
            return False
        self.mandate = mandate
        self._look()
        return True

    patch.setattr(Restoring, "follower_restarted", lambda self, broker, now_ms: None)
    patch.setattr(Restoring, "got", got)
    patch.setattr(Restoring, "diverged", diverged)
    patch.setattr(Restoring, "renewed", renewed)


def keep_what_was_said_of_the_log(patch: pytest.MonkeyPatch) -> None:
    """Another wish leaves the partition as it is: what was said under the last one still fits."""
    patch.setattr(mode_changes, "wanted_mode_changed", lambda topic, since: iter(()))


def serve_all_it_holds(patch: pytest.MonkeyPatch) -> None:
    """A backup takes its whole log for confirmed, wherever it has it from."""

    def stand_in(self: Replica, acted_epoch: int) -> Effects:
        if self.role is not Role.FOLLOWER or self.limits.min_in_sync > 2 or self.limits.durable:
            return []
        self.watermark.offset = self.log.end_offset
        return [Commit(self.high_watermark)]

    patch.setattr(Replica, "stand_in", stand_in)


def serve_what_it_agreed_on_with_anybody(patch: pytest.MonkeyPatch) -> None:
    """In whatever epoch that was."""
    original = Replica.stand_in
    patch.setattr(Replica, "stand_in", lambda self, acted_epoch: original(self, self.watermark.agreed[0]))


def serve_only_what_it_was_told(patch: pytest.MonkeyPatch) -> None:
    """The watermark stays where the primary last saw it."""
    patch.setattr(Replica, "stand_in", lambda self, acted_epoch: [])


def serve_what_was_given_up(patch: pytest.MonkeyPatch) -> None:
    """What a backup knows to be confirmed stays confirmed, whatever an operator gave up."""
    patch.setattr(Backup, "is_outdated", False)


class Mutation(NamedTuple):
    patch: Patch
    story: Callable[[], object]


MUTATIONS = [
    Mutation(sync_at_once, durability.sync_turned_on),
    Mutation(sync_at_once, durability.sync_turned_on_for_all),
    Mutation(sync_at_once, durability.sync_by_another_mode),
    Mutation(trust_who_has_not_synced, durability.sync_turned_on),
    Mutation(confirm_for_ever, durability.sync_turned_off_and_on),
    Mutation(count_copies_at_once, durability.more_copies),
    Mutation(drop_newcomers_at_once, durability.move_taken_back),
    Mutation(believe_the_first_answer, durability.source_forgets),
    Mutation(keep_what_was_said_of_the_log, durability.seal_of_an_earlier_wish),
    Mutation(serve_all_it_holds, stand_ins.leader_of_another_mode),
    Mutation(serve_all_it_holds, stand_ins.forced_promotion),
    Mutation(serve_all_it_holds, stand_ins.restarted),
    Mutation(serve_what_it_agreed_on_with_anybody, stand_ins.forced_promotion),
    Mutation(serve_what_was_given_up, stand_ins.forced_promotion),
    Mutation(serve_what_was_given_up, stand_ins.given_up_in_another_mode),
    Mutation(serve_only_what_it_was_told, stand_ins.agreed_and_confirmed),
]


@pytest.mark.parametrize(
    "mutation", MUTATIONS, ids=lambda mutation: f"{mutation.patch.__name__}-{mutation.story.__name__}"
)
def test_its_story_notices(mutation: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
    mutation.patch(monkeypatch)
    with pytest.raises((Violation, InvariantViolation, StoryFailed)):
        mutation.story()
