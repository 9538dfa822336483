"""Words that were true when they were said: each mutation has one believed that is not true any more, and a
story notices.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
import pytest

from tidelog.broker.quorum import partitions as quorum_partitions
from tidelog.broker.quorum.partitions import QuorumPartitions
from tidelog.controller import leader_assignment, promises, reassignment, successions
from tidelog.controller.image import PartitionImage
from tidelog.controller.leader_assignment import InSyncProposal
from tidelog.controller.successions import steps
from tidelog.controller.successions.promising import promised
from tidelog.errors import InvariantViolation
from tidelog.replication.attachments.restorer import Mandate
from tidelog.replication.attachments.voter import Elected
from tidelog.replication.driver import ReplicaDriver
from tidelog.replication.fetch_server import FetchServer
from tidelog.replication.host import Host
from tidelog.sim.checkers import Violation
from tidelog.sim.stories import seams
from tidelog.sim.telling import StoryFailed
from tidelog.types import NO_BROKER

Patch = Callable[[pytest.MonkeyPatch], None]


def believe_every_seal(patch: pytest.MonkeyPatch) -> None:
    """Whoever held all of a sealed log when its leader said so is a member."""
    patch.setattr(leader_assignment, "unforgetful", lambda partition: frozenset(partition.replicas))


def overlook_the_elected(patch: pytest.MonkeyPatch) -> None:
    """Who was elected counts only when its voters are settled: behind a seal that is never."""

    class Unnamed(InSyncProposal):
        def __new__(cls, *args: Any, **named: Any) -> Any:
            sender, members, healed = args[0], args[6], args[7]
            if NO_BROKER in members:
                left = [pair for pair in zip(members, healed, strict=True) if pair[0] != sender]
                args = (*args[:6], tuple(each for each, _ in left), tuple(each for _, each in left))
            return super().__new__(cls, *args, **named)

    patch.setattr(quorum_partitions, "InSyncProposal", Unnamed)


def rely_on_who_is_offline(patch: pytest.MonkeyPatch) -> None:
    """A replica whose log is damaged has kept whatever it acknowledged."""
    original = Host.restore

    def restore(self: Host, driver: ReplicaDriver, mandate: Mandate) -> None:
        original(self, driver, mandate._replace(sound=frozenset(mandate.replicas)))

    patch.setattr(Host, "restore", restore)


def end_moves_by_old_words(patch: pytest.MonkeyPatch) -> None:
    """A move is over when its leader names the target's voters, whenever it said so."""
    original = leader_assignment._told

    def told(image: Any, topic: Any, partition: PartitionImage, proposal: Any, *rest: Any) -> Any:
        return original(
            image, topic, partition, proposal._replace(partition_epoch=partition.partition_epoch), *rest
        )

    patch.setattr(leader_assignment, "_told", told)


def number_only_new_copies(patch: pytest.MonkeyPatch) -> None:
    """What was confirmed counts as long as the fewest copies that were ever enough are the same."""

    def same_promise(before: PartitionImage, old: Any, after: PartitionImage, new: Any) -> PartitionImage:
        marked = promised(before, old, after, new)
        if marked.copies == before.copies and marked.unsynced == before.unsynced:
            return msgspec.structs.replace(marked, promise_epoch=before.promise_epoch)
        return marked

    for module in (promises, leader_assignment, successions):
        patch.setattr(module, "promised", same_promise)


def let_the_last_member_lead(patch: pytest.MonkeyPatch) -> None:
    """Whoever was the last to hold everything leads with what it has left."""
    patch.setattr(leader_assignment, "last_leader_without", steps.last_leader_kept)


def keep_what_was_noted(patch: pytest.MonkeyPatch) -> None:
    """What a leader noted of its voters holds until they are noted again."""

    class Kept(dict[int, Any]):
        def clear(self) -> None:
            """Nothing is forgotten."""

    original = Elected.__init__

    def begin(self: Elected, *args: Any, **named: Any) -> None:
        original(self, *args, **named)
        self.seen = Kept()

    def note_alive(self: FetchServer, driver: ReplicaDriver) -> None:
        for follower, standing in self._sessions.items():
            item = standing.items.get(driver)
            if item is not None and follower in driver.voter.seen:
                driver.voter.note_alive(follower, standing.directory, standing.heard_ms)
            elif item is not None:
                driver.voter.note_fetch(follower, standing.directory, item.offset, standing.heard_ms)

    patch.setattr(Elected, "__init__", begin)
    patch.setattr(FetchServer, "note_alive", note_alive)


def remember_healed_losses(patch: pytest.MonkeyPatch) -> None:
    """A replica that begins to vote tells of what it lost when it last voted, even if it has caught up
    since.
    """
    patch.setattr(QuorumPartitions, "not_relied_on", lambda self, key: None)


def trust_who_was_brought(patch: pytest.MonkeyPatch) -> None:
    """A replica that a move brings has nothing to confirm."""

    def confirmed(before: PartitionImage, old: Any, after: PartitionImage, new: Any) -> PartitionImage:
        marked = promised(before, old, after, new)
        left = tuple(each for each in marked.unsynced if each in before.replicas)
        return msgspec.structs.replace(marked, unsynced=left)

    patch.setattr(reassignment, "promised", confirmed)


def bring_replicas_in_the_same_epoch(patch: pytest.MonkeyPatch) -> None:
    """What a replica fetched before it was gone counts when it is brought back."""
    patch.setattr(reassignment, "in_a_new_epoch", lambda partition: partition)


class Mutation(NamedTuple):
    patch: Patch
    story: Callable[[], object]


MUTATIONS = (
    Mutation(believe_every_seal, seams.member_lost_records_since_the_seal),
    Mutation(believe_every_seal, seams.leader_lost_records_since_the_seal),
    Mutation(overlook_the_elected, seams.sealed_by_one_that_lost_power),
    Mutation(rely_on_who_is_offline, seams.backup_dropped_records_and_has_not_said_so),
    Mutation(end_moves_by_old_words, seams.voters_of_an_earlier_move),
    Mutation(number_only_new_copies, seams.fewer_copies_in_between),
    Mutation(let_the_last_member_lead, seams.last_member_is_damaged),
    Mutation(keep_what_was_noted, seams.damaged_on_a_quiet_partition),
    Mutation(remember_healed_losses, seams.loss_noted_in_another_mode),
    Mutation(trust_who_was_brought, seams.gone_and_back_unheard),
    Mutation(trust_who_was_brought, seams.voter_gone_and_back_before_it_heard),
    Mutation(bring_replicas_in_the_same_epoch, seams.gone_and_back_before_it_heard),
)


@pytest.mark.parametrize(
    "mutation", MUTATIONS, ids=lambda each: f"{each.patch.__name__}:{each.story.__name__}"
)
def test_mutation_is_noticed(mutation: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
    mutation.patch(monkeypatch)
    with pytest.raises((Violation, StoryFailed, InvariantViolation)):
        mutation.story()
