"""Replicas with damaged records step aside for none that can lead, or all at once: a story notices."""

from collections.abc import Callable

import msgspec
import pytest

from tidelog.broker.node.failed_logs import FailedLogs
from tidelog.controller.image import PartitionImage
from tidelog.replication.driver import ReplicaDriver
from tidelog.sim.stories import damaged_leaders
from tidelog.sim.telling import StoryFailed, Telling

Patch = Callable[[pytest.MonkeyPatch], None]
Told = Callable[[], Telling]


def wait_for_a_member(patch: pytest.MonkeyPatch) -> None:
    """Eligible replicas do not count. They cannot join, because they cannot fetch the damaged record."""
    original = FailedLogs._steps_aside

    def steps_aside(self: FailedLogs, driver: ReplicaDriver, partition: PartitionImage) -> bool:
        return original(self, driver, msgspec.structs.replace(partition, eligible=()))

    patch.setattr(FailedLogs, "_steps_aside", steps_aside)


def keep_reports(patch: pytest.MonkeyPatch) -> None:
    """A report is made until it is recorded, though the partition has lost its leader."""
    original = FailedLogs._tell_or_hold

    def tell(self: FailedLogs, driver: ReplicaDriver, partition: PartitionImage) -> None:
        self._optional.clear()
        original(self, driver, partition)

    patch.setattr(FailedLogs, "_tell_or_hold", tell)


@pytest.mark.parametrize(
    ("mutation", "story"),
    [
        (wait_for_a_member, damaged_leaders.eligible_follower_takes_over),
        (keep_reports, damaged_leaders.last_members_do_not_both_step_aside),
    ],
)
def test_mutation_is_noticed(mutation: Patch, story: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    mutation(monkeypatch)
    with pytest.raises(StoryFailed):
        story()
