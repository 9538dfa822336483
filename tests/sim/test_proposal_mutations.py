"""Stories about late proposals and late heartbeats can fail: each mutation takes one rule away, and the story
that tells why the rule is there must notice.
"""

from collections.abc import Callable
from typing import Any

import pytest

from tidelog.broker.node.heartbeat_gate import HeartbeatGate
from tidelog.broker.node.lifecycle import BrokerLifecycle
from tidelog.config.modes import QUORUM
from tidelog.controller import leader_assignment
from tidelog.controller.driver import ControllerDriver
from tidelog.controller.effects import Reply, Submit
from tidelog.controller.image import ClusterImage
from tidelog.controller.leader_assignment import InSyncProposal
from tidelog.controller.messages import InSyncAsk, InSyncGot
from tidelog.controller.records import MetadataRecord
from tidelog.errors import ErrorCode, InvariantViolation
from tidelog.replication.fetch_server import FetchServer
from tidelog.replication.replica import Replica
from tidelog.sim.checkers import Violation
from tidelog.sim.checkers.replicas import ReplicaChecker
from tidelog.sim.stories import late_copies
from tidelog.sim.stories import proposals as stories
from tidelog.sim.story import Story
from tidelog.sim.telling import StoryFailed

Patch = Callable[[pytest.MonkeyPatch], None]


def refuse_without_a_trace(patch: pytest.MonkeyPatch) -> None:
    """A refused proposal leaves the partition epoch as it was: an earlier copy still fits."""
    patch.setattr(leader_assignment, "_refused", lambda image, proposal: [])


def refuse_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    """A leader is told that its proposal is refused before the controllers agree."""

    original = ControllerDriver._submit

    def submit(self: ControllerDriver, effect: Submit) -> None:
        ask, token = effect
        if not isinstance(ask, InSyncAsk) or token is None:
            original(self, effect)
            return

        def tell(error: ErrorCode) -> None:
            if token in self._pending:
                self.run([Reply(token, InSyncGot(ask.proposal, error))])

        def decide(image: ClusterImage) -> Any:
            records, error = self._controller.decide(ask, image)
            if error:
                tell(ErrorCode(error))
            return records

        self._store.submit(decide, lambda error: tell(error.code if error else ErrorCode.NONE))

    patch.setattr(ControllerDriver, "_submit", submit)


def refuse_copies_after_a_change_of_the_mode(patch: pytest.MonkeyPatch) -> None:
    """A proposal from before the replicas voted is judged as if it were about the present partition."""
    original = leader_assignment._take

    def take(image: ClusterImage, proposal: InSyncProposal, *rest: Any) -> list[MetadataRecord]:
        topic = image.topic_by_id(proposal.topic_id)
        if topic is not None and topic.partitions[proposal.partition].mode == QUORUM and not proposal.elected:
            present = topic.partitions[proposal.partition].partition_epoch
            proposal = proposal._replace(partition_epoch=present)
        return original(image, proposal, *rest)

    patch.setattr(leader_assignment, "_take", take)


def begin_again_with_a_snapshot(patch: pytest.MonkeyPatch) -> None:
    """The state that a proposal was made on, told once more, ends the proposal."""
    original = Replica._members_changed

    def changed(self: Replica, replicas: Any, in_sync: Any, partition_epoch: int, now_ms: int) -> Any:
        if partition_epoch == self.partition_epoch:
            self.proposals.drop()
            self._set_members(in_sync)
        return original(self, replicas, in_sync, partition_epoch, now_ms)

    patch.setattr(Replica, "_members_changed", changed)


def answer_heartbeats_at_once(patch: pytest.MonkeyPatch) -> None:
    """A controller that was replaced goes on telling brokers that they are alive."""
    patch.setattr(HeartbeatGate, "pass_on", lambda self, since_ms, got, answer: answer(got))


def take_old_words_for_new_ones(patch: pytest.MonkeyPatch) -> None:
    """Whatever arrives from a voter shows that it follows now."""
    original = FetchServer.ask
    patch.setattr(FetchServer, "ask", lambda self, ask: original(self, ask._replace(heard=-1)))


def credit_the_newest_heartbeat(patch: pytest.MonkeyPatch) -> None:
    """An answer is taken for one to the oldest heartbeat since the last answer."""
    original = BrokerLifecycle._heartbeat_answered

    def answered(self: BrokerLifecycle, got: Any) -> None:
        oldest = min(self._sent_ms, default=got.number)
        original(self, got._replace(number=oldest))
        self._sent_ms.clear()

    patch.setattr(BrokerLifecycle, "_heartbeat_answered", answered)


def take_being_fenced_for_being_heard(patch: pytest.MonkeyPatch) -> None:
    """Whatever the controllers answer, a broker takes it for a sign that it may lead on. One that cannot
    write its metadata log gives its session up in any case, so that is taken out, too.
    """
    original = BrokerLifecycle._heartbeat_answered

    def answered(self: BrokerLifecycle, got: Any) -> None:
        original(self, got._replace(fenced=False))

    patch.setattr(BrokerLifecycle, "_heartbeat_answered", answered)
    patch.setattr(BrokerLifecycle, "give_up", lambda self: None)


def give_up_behind_the_end_only(patch: pytest.MonkeyPatch) -> None:
    """The checker takes all of an uncleanly elected leader's log for what was committed."""
    patch.setattr(ReplicaChecker, "agreed_end", lambda self, driver: driver.log.end_offset)


@pytest.mark.parametrize(
    ("mutation", "story"),
    [
        (refuse_without_a_trace, stories.late_copy_of_a_refused_proposal),
        (refuse_before_the_commit, stories.refusal_that_was_not_committed),
        (refuse_copies_after_a_change_of_the_mode, late_copies.copy_after_a_change_of_the_mode),
        (begin_again_with_a_snapshot, stories.snapshot_with_a_proposal_under_way),
        (answer_heartbeats_at_once, stories.leader_beside_the_old_controller),
        (take_old_words_for_new_ones, stories.leader_beside_a_controller_that_hears_old_news),
        (credit_the_newest_heartbeat, stories.late_answers_to_heartbeats),
        (take_being_fenced_for_being_heard, stories.fenced_leader_that_cannot_hear_of_it),
        (give_up_behind_the_end_only, stories.former_leader_elected_uncleanly),
    ],
    ids=lambda each: each.__name__,
)
def test_a_story_notices(
    mutation: Patch, story: Callable[[], Story], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutation(monkeypatch)
    with pytest.raises((Violation, InvariantViolation, StoryFailed)):
        story()
