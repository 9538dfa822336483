"""A leader with damaged records does not step aside for a replica that can lead: a story notices."""

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


@pytest.mark.parametrize(
    ("mutation", "story"), [(wait_for_a_member, damaged_leaders.eligible_follower_takes_over)]
)
def test_mutation_is_noticed(mutation: Patch, story: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    mutation(monkeypatch)
    with pytest.raises(StoryFailed):
        story()
