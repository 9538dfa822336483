"""The rules hold whatever happens between two slices: here each of them has one element."""

import pytest

from tidelog.broker.metadata import quorum
from tidelog.broker.node import controller_asks, other_brokers
from tidelog.broker.partitions import opening_queue
from tidelog.config.modes import MODES
from tidelog.controller import review
from tidelog.sim.run import run

SEEDS = (101, 405)
SLICES = (
    (quorum, "APPLIED_AT_ONCE"),
    (controller_asks, "ASKS_AT_ONCE"),
    (other_brokers, "INVITED_AT_ONCE"),
    (opening_queue, "ASSIGNED_PER_SLICE"),
    (opening_queue, "PARTITIONS_PER_SLICE"),
    (review, "REVIEWED_AT_ONCE"),
)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_cluster_whose_slices_have_one_element(
    mode: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, name in SLICES:
        monkeypatch.setattr(module, name, 1)
    run(mode, seed)
