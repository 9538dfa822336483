"""Assigning, opening and dropping in slices."""

from typing import Any, cast
from uuid import UUID

import pytest

from tidelog.broker.partitions.opening_queue import (
    ASSIGNED_PER_SLICE,
    AT_ONCE,
    OPEN_STEPS,
    PARTITIONS_PER_SLICE,
    OpeningQueue,
)
from tidelog.broker.partitions.partition import Partition
from tidelog.errors import TidelogError
from unit.broker.fakes import FakeServices

TOPIC = UUID(int=1)
BROKEN = -1


class Work:
    def __init__(self) -> None:
        self.services = FakeServices()
        self.done: list[Any] = []
        self.queue = OpeningQueue(
            self.services,
            self._assign,
            lambda topic_id, index: self.done.append(index),
            lambda topic_id, partition: self.done.append(partition),
        )

    def _assign(self, topic_id: UUID, index: int) -> None:
        if index == BROKEN:
            raise TidelogError("cannot be assigned")
        self.done.append(f"role {index}")


def test_roles_come_first_and_then_what_goes() -> None:
    work = Work()
    work.queue.open(TOPIC, 0)
    work.queue.drop(TOPIC, cast(Partition, "gone"))
    work.queue.assign(TOPIC, 1)
    work.queue.begin()
    assert work.done == ["role 1", "gone", 0]


def test_more_roles_than_logs_in_a_slice() -> None:
    work, settled = Work(), []
    for index in range(ASSIGNED_PER_SLICE + 1):
        work.queue.assign(TOPIC, index)
    work.queue.begin()
    work.queue.when_open(lambda: settled.append(len(work.done)))
    assert (len(work.done), work.queue.all_assigned, settled) == (0, False, [])
    work.services.step()
    assert (len(work.done), work.queue.all_assigned, settled) == (ASSIGNED_PER_SLICE, False, [])
    work.services.settle()
    assert (work.queue.slices, work.queue.all_assigned, settled) == (2, True, [ASSIGNED_PER_SLICE + 1])


def test_the_others_go_on_when_one_cannot_be_assigned() -> None:
    work = Work()
    work.queue.assign(TOPIC, BROKEN)
    work.queue.assign(TOPIC, 2)
    with pytest.raises(TidelogError):
        work.queue.begin()
    work.services.settle()
    assert (work.done, work.queue.all_open) == (["role 2"], True)


@pytest.mark.parametrize("more", [0, 1])
def test_a_few_at_once_and_more_with_the_next_turn(more: int) -> None:
    """What has led to them, such as the application of metadata, has used the time of this turn."""
    work = Work()
    for index in range(AT_ONCE - OPEN_STEPS + more):
        work.queue.assign(TOPIC, index)
    work.queue.open(TOPIC, 0)
    work.queue.begin()
    assert len(work.done) == (0 if more else AT_ONCE - OPEN_STEPS + 1)
    assert work.queue.all_open is not bool(more)
    work.services.settle()
    assert len(work.done) == AT_ONCE - OPEN_STEPS + 1 + more
    assert (work.queue.slices, work.queue.all_open) == (1, True)


def test_one_slice_per_turn() -> None:
    work, settled = Work(), []
    for index in range(PARTITIONS_PER_SLICE + 1):
        work.queue.open(TOPIC, index)
    work.queue.begin()
    work.services.step()
    work.queue.when_open(lambda: settled.append(len(work.done)))
    assert (len(work.done), settled) == (PARTITIONS_PER_SLICE, [])
    work.queue.begin()  # The next slice is on its way.
    assert len(work.done) == PARTITIONS_PER_SLICE
    work.services.settle()
    assert settled == [PARTITIONS_PER_SLICE + 1]
    assert work.queue.all_open


def test_who_comes_when_nothing_is_left_is_told_at_once() -> None:
    told: list[bool] = []
    Work().queue.when_open(lambda: told.append(True))
    assert told == [True]
