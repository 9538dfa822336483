"""Fetches that wait for a partition: few are told at once, many in slices that miss nobody and nothing."""

from collections.abc import Callable

from tidelog.broker.partitions.fetch_waiters import TOLD_AT_ONCE, FetchWaiters
from unit.broker.fakes import FakeServices


class Services(FakeServices):
    """Slices wait until the test takes the next one."""

    def __init__(self) -> None:
        super().__init__()
        self.slices: list[Callable[[], None]] = []

    def in_turn(self, callback: Callable[[], None], *, urgent: bool = False) -> None:
        self.slices.append(callback)

    def take(self) -> None:
        (slice_,) = self.slices
        self.slices = []
        slice_()


class Waiter:
    def __init__(self) -> None:
        self.bytes = 0
        self.calls = 0

    def data_arrived(self, size: int) -> None:
        self.bytes += size
        self.calls += 1


def made(count: int) -> tuple[Services, FetchWaiters, list[Waiter]]:
    services = Services()
    waiters = FetchWaiters(services)
    found = [Waiter() for _ in range(count)]
    for each in found:
        waiters.add(each)
    return services, waiters, found


def told(found: list[Waiter]) -> list[int]:
    return [each.bytes for each in found]


def test_few_are_told_at_once() -> None:
    services, waiters, found = made(TOLD_AT_ONCE)
    waiters.tell(7)
    assert told(found) == [7] * TOLD_AT_ONCE
    assert services.slices == []


def test_many_are_told_in_slices() -> None:
    services, waiters, found = made(3 * TOLD_AT_ONCE)
    waiters.tell(7)
    for done in (1, 2, 3):
        assert [each.bytes for each in found].count(7) == done * TOLD_AT_ONCE
        services.take()
    assert services.slices == []
    assert [each.calls for each in found] == [1] * len(found)


def test_commits_meanwhile_are_added_up() -> None:
    """However many there are, one list of those that wait exists."""
    services, waiters, found = made(2 * TOLD_AT_ONCE)
    for _ in range(1000):
        waiters.tell(1)
    assert len(services.slices) == 1
    while services.slices:
        services.take()
    assert told(found) == [1000] * len(found)
    assert [each.calls for each in found] == [2] * len(found)


def test_one_that_begins_to_wait_meanwhile_hears_of_later_commits() -> None:
    services, waiters, found = made(2 * TOLD_AT_ONCE)
    waiters.tell(1)
    late = Waiter()
    waiters.add(late)
    waiters.tell(5)
    while services.slices:
        services.take()
    assert late.bytes == 5
    assert told(found) == [6] * len(found)


def test_one_that_leaves_meanwhile_is_not_told() -> None:
    services, waiters, found = made(2 * TOLD_AT_ONCE)
    waiters.tell(1)
    waiters.remove(found[-1])
    while services.slices:
        services.take()
    assert told(found) == [1] * (len(found) - 1) + [0]
    assert len(waiters) == len(found) - 1
