"""An isr leader that lost committed records without knowing goes on, or stops at the wrong time: a story
notices.
"""

from collections.abc import Callable

import pytest

from tidelog.broker.node.failed_logs import FailedLogs
from tidelog.controller.image import PartitionImage
from tidelog.errors import InvariantViolation
from tidelog.replication.attachments.stand_in import AnyMember
from tidelog.replication.driver import ReplicaDriver
from tidelog.sim.checkers.cluster import ClusterChecker
from tidelog.sim.checkers.violation import Violation
from tidelog.sim.stories import deceived_leaders
from tidelog.sim.telling import StoryFailed, Telling

Patch = Callable[[pytest.MonkeyPatch], None]
Told = Callable[[], Telling]


def lead_on(patch: pytest.MonkeyPatch) -> None:
    """A leader does not listen to its followers. Those that know of more stop, one after the other."""
    patch.setattr(AnyMember, "is_behind", lambda *_: False)


def step_back_for_everybody(patch: pytest.MonkeyPatch) -> None:
    """Also for a follower without which records are committed: members that lack them take turns."""
    patch.setattr(AnyMember, "is_behind", lambda self, _, last_epoch: self._has_lost_records(last_epoch))


def wait_for_a_member(patch: pytest.MonkeyPatch) -> None:
    """A leader that has stepped back tells the controllers only when another member is there."""

    def steps_aside(self: FailedLogs, _: ReplicaDriver, partition: PartitionImage) -> bool:
        me = self._node_state.me
        if partition.leader != me:
            return partition.leader >= 0
        others = self._node_state.unfenced - {me} - set(partition.offline)
        return not others.isdisjoint(partition.in_sync)

    patch.setattr(FailedLogs, "_steps_aside", steps_aside)


def stop_for_a_defect(patch: pytest.MonkeyPatch) -> None:
    """The disk that lied is not known to the checkers: a contradiction is a defect."""
    patch.setattr(ClusterChecker, "lacks_unnoticed", lambda *_: False)


@pytest.mark.parametrize(
    ("mutation", "story"),
    [
        (lead_on, deceived_leaders.complete_follower_returns),
        (wait_for_a_member, deceived_leaders.complete_follower_returns),
        (step_back_for_everybody, deceived_leaders.late_follower_stops),
        (stop_for_a_defect, deceived_leaders.late_follower_stops),
    ],
)
def test_mutation_is_noticed(mutation: Patch, story: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    mutation(monkeypatch)
    with pytest.raises((StoryFailed, InvariantViolation, Violation)):
        story()
