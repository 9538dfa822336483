"""Each mutation takes logs that refuse writes and logs that are damaged for the same, and a story notices."""

from collections.abc import Callable
from typing import Any

import pytest

from tidelog.broker.partitions.table import PartitionTable
from tidelog.controller import brokers, logs
from tidelog.controller.image import PartitionImage
from tidelog.controller.promises import survives_power_failure
from tidelog.sim.checkers.violation import Violation
from tidelog.sim.stories import failed_logs as stories
from tidelog.sim.telling import StoryFailed

Patch = Callable[[pytest.MonkeyPatch], None]


def distrust_all_that_failed(patch: pytest.MonkeyPatch) -> None:
    """Whoever could not write has forgotten its tail, also where all it acknowledged was synced."""
    original = survives_power_failure

    def survives(partition: PartitionImage, broker_id: int, rules: Any) -> bool:
        return broker_id not in partition.offline and original(partition, broker_id, rules)

    patch.setattr(brokers, "survives_power_failure", survives)


def take_damage_for_a_refused_write(patch: pytest.MonkeyPatch) -> None:
    """What a damaged log held counts on after a restart."""
    patch.setattr(logs, "take_offline", logs.fail)


def forget_the_power_failure(patch: pytest.MonkeyPatch) -> None:
    """Every log counts as checked, also one whose recovery failed."""
    patch.setattr(PartitionTable, "has_failed_logs", False)


@pytest.mark.parametrize(
    ("mutate", "told"),
    [
        (distrust_all_that_failed, stories.quorum_refused_a_write),
        (distrust_all_that_failed, stories.isr_refused_a_write),
        (take_damage_for_a_refused_write, stories.isr_damaged_and_started_again),
        (forget_the_power_failure, stories.isr_recovery_that_failed),
    ],
)
def test_is_noticed(mutate: Patch, told: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    mutate(monkeypatch)
    with pytest.raises((Violation, StoryFailed)):
        told()
