"""Losses that a replica has noted while it voted, when its partition changes its mode."""

from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from tidelog.broker.partitions.assigning import AppointedAssigner, ElectedAssigner
from tidelog.config.modes import ISR, QUORUM
from tidelog.controller.image import PartitionImage

ME = 1
KEY = (UUID(int=7), 0)


class NotedLoss:
    """The voting replicas of a broker, of which one has noted a loss."""

    def __init__(self, *, begins: bool = True) -> None:
        self.begins = begins
        self.lost = {KEY}

    def dissolve(self, driver: Any) -> None: ...

    def not_relied_on(self, key: Any) -> None:
        self.lost.discard(key)

    def assign(self, driver: Any, partition: PartitionImage) -> bool:
        return self.begins

    def is_lost(self, key: Any) -> bool:
        return key in self.lost


class Driver:
    """A replica that does what it is told."""

    key = KEY
    replica = SimpleNamespace(epoch=3, leader=2)

    def __getattr__(self, name: str) -> Any:
        return Driver()

    def __call__(self, *args: Any) -> None: ...


def partition(mode: str, in_sync: tuple[int, ...], eligible: tuple[int, ...] = ()) -> PartitionImage:
    return PartitionImage((1, 2, 3), in_sync, 2, 3, eligible=eligible, mode=mode)


@pytest.mark.parametrize(
    ("in_sync", "eligible", "lost"),
    [((2, 3), (), set()), ((2, 3), (ME,), {KEY}), ((ME, 2, 3), (), {KEY})],
)
def test_a_loss_is_over_only_where_nobody_relies_on_the_replica(
    in_sync: tuple[int, ...], eligible: tuple[int, ...], lost: set[Any]
) -> None:
    """A member may be one because of what its leader said before the loss."""
    quorum: Any = NotedLoss()
    anything: Any = Driver()
    host: Any = SimpleNamespace(me=ME)
    mine: Any = SimpleNamespace(driver=Driver())
    AppointedAssigner(host, quorum, anything).assign(mine, partition(ISR, in_sync, eligible))
    assert quorum.lost == lost


@pytest.mark.parametrize("begins", [True, False])
def test_a_loss_that_is_not_over_is_reported_when_votes_begin(begins: bool) -> None:
    quorum: Any = NotedLoss(begins=begins)
    reported: list[Any] = []
    assigner = ElectedAssigner(quorum, lambda *key: None, lambda *key: reported.append(key))
    mine: Any = SimpleNamespace(driver=Driver(), name="t-0")
    assigner.assign(mine, partition(QUORUM, (ME, 2, 3)))
    assert reported == ([KEY] if begins else [])
