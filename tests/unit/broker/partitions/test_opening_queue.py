"""Opening and dropping in slices."""

from typing import Any, cast
from uuid import UUID

from fakes import FakeServices

from tidelog.broker.partitions.opening_queue import PARTITIONS_PER_SLICE, OpeningQueue
from tidelog.broker.partitions.partition import Partition

TOPIC = UUID(int=1)


class Work:
    def __init__(self) -> None:
        self.services = FakeServices()
        self.done: list[Any] = []
        self.queue = OpeningQueue(
            self.services,
            lambda topic_id, index: self.done.append(index),
            lambda topic_id, partition: self.done.append(partition),
        )


def test_what_goes_comes_first() -> None:
    work = Work()
    work.queue.open(TOPIC, 0)
    work.queue.drop(TOPIC, cast(Partition, "gone"))
    work.queue.begin()
    assert work.done == ["gone", 0]


def test_a_slice_at_once_and_the_others_later() -> None:
    work, settled = Work(), []
    for index in range(PARTITIONS_PER_SLICE + 1):
        work.queue.open(TOPIC, index)
    work.queue.begin()
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
