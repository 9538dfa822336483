"""The rules hold whatever happens between two slices: here each of them has one element, and its turn comes
late.
"""

from collections.abc import Callable

import pytest

from tidelog.broker.clients import woken_fetches
from tidelog.broker.metadata import quorum
from tidelog.broker.node import controller_asks, other_brokers
from tidelog.broker.partitions import fetch_waiters, opening_queue
from tidelog.config.modes import MODES
from tidelog.controller import review
from tidelog.sim.process import SimServices
from tidelog.sim.run import run

SEEDS = (101, 405)
LATE_MS = 5  # Others have read and sent a few messages by then.
SLICES = (
    (quorum, "APPLIED_AT_ONCE"),
    (controller_asks, "ASKS_AT_ONCE"),
    (other_brokers, "INVITED_AT_ONCE"),
    (fetch_waiters, "TOLD_AT_ONCE"),
    (opening_queue, "ASSIGNED_PER_SLICE"),
    (opening_queue, "AT_ONCE"),
    (opening_queue, "PARTITIONS_PER_SLICE"),
    (review, "REVIEWED_AT_ONCE"),
    (woken_fetches, "TAKEN_AT_ONCE"),
)


def come_late(services: SimServices, callback: Callable[[], None], *, urgent: bool = False) -> None:
    services.later(LATE_MS, callback)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_cluster_whose_slices_have_one_element(
    mode: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SimServices, "in_turn", come_late)
    for module, name in SLICES:
        monkeypatch.setattr(module, name, 1)
    run(mode, seed)
