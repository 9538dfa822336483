"""Stories about what earlier processes of a broker said can fail: each mutation takes one rule away, and the
story that tells why the rule is there must notice.
"""

from collections.abc import Callable
from typing import Any

import pytest

from tidelog.broker.node.lifecycle import BrokerLifecycle
from tidelog.controller import brokers, leader_assignment, logs
from tidelog.controller.controller import Controller
from tidelog.controller.effects import Effects
from tidelog.controller.image import ClusterImage
from tidelog.controller.messages import HeartbeatAsk
from tidelog.errors import ErrorCode, InvariantViolation
from tidelog.replication.fetch_server import FetchServer
from tidelog.replication.messages import FetchAsk
from tidelog.sim.checkers import Violation
from tidelog.sim.stories import registrations as stories
from tidelog.sim.story import Story
from tidelog.sim.telling import StoryFailed

Patch = Callable[[pytest.MonkeyPatch], None]


def register_whoever_asks(patch: pytest.MonkeyPatch) -> None:
    """An ask is taken for the newest process's, whatever it knows."""
    patch.setattr(brokers, "check_newest", lambda image, broker_id, known_epoch: None)


def forget_who_was_unregistered(patch: pytest.MonkeyPatch) -> None:
    """A broker that is gone could have been registered never."""

    def epoch(self: ClusterImage, broker_id: int) -> int:
        broker = self.brokers.get(broker_id)
        return 0 if broker is None else broker.broker_epoch

    patch.setattr(ClusterImage, "registration_epoch", epoch)


def learn_nothing_from_a_refusal(patch: pytest.MonkeyPatch) -> None:
    """A process that is refused asks again as before, until the metadata tells it more."""
    original = BrokerLifecycle._registered

    def registered(self: BrokerLifecycle, got: Any) -> None:
        if got.error is not ErrorCode.STALE_BROKER_EPOCH:
            original(self, got)

    patch.setattr(BrokerLifecycle, "_registered", registered)
    patch.setattr(BrokerLifecycle, "metadata_says", lambda self, broker_epoch, fenced: None)


def take_heartbeats_of_any_process(patch: pytest.MonkeyPatch) -> None:
    """What one process of a broker says counts for the next."""
    original = Controller._heartbeat

    def heartbeat(self: Controller, ask: HeartbeatAsk, now_ms: int, token: int) -> Effects:
        broker_epoch = self._store.image.registration_epoch(ask.broker_id)
        return original(self, ask._replace(broker_epoch=broker_epoch, metadata_offset=1 << 40), now_ms, token)

    patch.setattr(Controller, "_heartbeat", heartbeat)


def take_proposals_of_any_process(patch: pytest.MonkeyPatch) -> None:
    """A proposal counts whichever epoch it was made in, and whichever runs of the members it means."""
    patch.setattr(leader_assignment, "_check_proposer", lambda image, partition, proposal: None)
    patch.setattr(leader_assignment, "_check_unchanged", lambda partition, proposal: None)
    patch.setattr(leader_assignment, "_check_members", lambda image, partition, proposal: None)


def take_reports_of_any_process(patch: pytest.MonkeyPatch) -> None:
    """A log that failed in one process counts as failed in the next."""
    original = logs._replicas

    def replicas(image: ClusterImage, broker_id: int, broker_epoch: int, partitions: Any) -> Any:
        return original(image, broker_id, image.registration_epoch(broker_id), partitions)

    patch.setattr(logs, "_replicas", replicas)


def take_fetches_of_any_process(patch: pytest.MonkeyPatch) -> None:
    """What one process of a follower has acknowledged counts for the next."""
    original = FetchServer.ask

    def ask(self: FetchServer, ask: FetchAsk) -> None:
        newest = self._broker_epoch_of(ask.sender)
        original(self, ask._replace(broker_epoch=newest, since=0) if ask.broker_epoch < newest else ask)

    patch.setattr(FetchServer, "ask", ask)


@pytest.mark.parametrize(
    ("mutation", "story"),
    [
        (register_whoever_asks, stories.late_word_of_a_power_failure),
        (register_whoever_asks, stories.late_word_of_the_former_disk),
        (learn_nothing_from_a_refusal, stories.late_word_comes_first),
        (forget_who_was_unregistered, stories.late_word_of_a_broker_that_was_unregistered),
        (take_heartbeats_of_any_process, stories.late_heartbeat_of_an_earlier_process),
        (take_heartbeats_of_any_process, stories.late_wish_to_stop),
        (take_proposals_of_any_process, stories.late_proposal_of_an_earlier_process),
        (take_reports_of_any_process, stories.late_report_of_a_failed_log),
        (take_fetches_of_any_process, stories.late_fetch_from_the_former_disk),
    ],
    ids=lambda each: each.__name__,
)
def test_a_story_notices(
    mutation: Patch, story: Callable[[], Story], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutation(monkeypatch)
    with pytest.raises((Violation, InvariantViolation, StoryFailed)):
        story()
