"""Group commit over many partitions: few syncs at a time, everybody's turn comes, nothing is left out."""

from collections.abc import Callable
from typing import Any, cast

from tidelog.replication.syncing import RUNNING_MAX, Synced, Syncer
from tidelog.services import Services


class Ticket:
    def run(self) -> None: ...


class FakeLog:
    closed = False
    failure = None

    def __init__(self) -> None:
        self.begun = 0
        self.finished = 0

    def begin_sync(self) -> Ticket:
        self.begun += 1
        return Ticket()

    def finish_sync(self, ticket: Ticket, now_ms: int) -> None:
        self.finished += 1


class FakePartition:
    def __init__(self) -> None:
        self.log = FakeLog()

    def synced(self) -> None: ...


class FakeServices:
    """What is asked for happens when the test says so."""

    def __init__(self) -> None:
        self.due: list[Callable[[], None]] = []
        self.threads: list[Callable[[], None]] = []

    def perturb(self, name: str) -> bool:
        return False

    def soon(self, callback: Callable[[], None]) -> None:
        self.due.append(callback)

    def offload(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        self.threads.append(lambda: done(work()))

    def now_ms(self) -> int:
        return 0

    def turn(self) -> None:
        due, self.due = self.due, []
        for callback in due:
            callback()


def make(count: int) -> tuple[Syncer, FakeServices, list[Synced]]:
    services = FakeServices()
    partitions = [cast(Synced, FakePartition()) for _ in range(count)]
    return Syncer(cast(Services, services)), services, partitions


def test_few_run_at_a_time_and_all_get_their_turn() -> None:
    syncer, services, partitions = make(5 * RUNNING_MAX)
    for partition in partitions:
        syncer.want(partition)
    while services.due or services.threads:
        services.turn()
        assert len(services.threads) <= RUNNING_MAX
        if services.threads:
            services.threads.pop(0)()
    assert {partition.log.finished for partition in cast(Any, partitions)} == {1}


def test_a_write_while_its_sync_runs_or_waits_is_covered_by_one_that_begins_later() -> None:
    syncer, services, partitions = make(RUNNING_MAX + 1)
    for partition in partitions:
        syncer.want(partition)
    services.turn()
    first, last = cast(Any, partitions[0]), cast(Any, partitions[-1])
    assert (first.log.begun, last.log.begun) == (1, 0)
    syncer.want(first)
    syncer.want(last)
    while services.threads or services.due:
        if services.threads:
            services.threads.pop(0)()
        services.turn()
    assert (first.log.begun, last.log.begun) == (2, 1)
    assert {partition.log.begun for partition in cast(Any, partitions[1:])} == {1}
