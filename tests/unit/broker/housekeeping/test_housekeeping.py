"""Which logs the clock looks at: those with a `flush.ms` often, all others now and then."""

from collections.abc import Callable
from itertools import count
from types import SimpleNamespace
from typing import Any, cast

from tidelog.broker.broker import Broker
from tidelog.broker.housekeeping.housekeeping import LOOKS_PER_MS, NAMES_INTERVAL_MS, Housekeeping
from tidelog.config import BrokerConfig
from tidelog.log.directory import DataDirectory
from tidelog.replication.syncing import Syncer
from tidelog.sim.disk import SimulatedDisk


class Clock:
    """Timers that ring when the test says so."""

    def __init__(self) -> None:
        self._now_ms = 0.0
        self._order = count()
        self._timers: list[tuple[float, int, Callable[[], None]]] = []

    def now_ms(self) -> int:
        return int(self._now_ms)

    def perturb(self, name: str) -> bool:
        return False

    def soon(self, callback: Callable[[], None]) -> None:
        self.later(0, callback)

    def in_turn(self, callback: Callable[[], None], *, urgent: bool = False) -> None:
        self.soon(callback)

    def later(self, delay_ms: float, callback: Callable[[], None]) -> Any:
        self._timers.append((self._now_ms + delay_ms, next(self._order), callback))
        return SimpleNamespace(cancel=lambda: None)

    def run(self, ms: float) -> None:
        end_ms = self._now_ms + ms
        while self._timers and min(self._timers)[0] <= end_ms:
            first = min(self._timers)
            self._timers.remove(first)
            self._now_ms = first[0]
            first[2]()
        self._now_ms = end_ms


class Looked:
    """A log that counts who looks at it."""

    def __init__(self, *, timed: bool, due: bool = False) -> None:
        self.closed = False
        self.is_flushed_by_time = timed
        self.due = due
        self.looks = 0

    def sync_due(self, now_ms: int) -> bool:
        self.looks += 1
        return self.due

    def take_deleted(self, now_ms: int) -> list[Any]:
        return []


class Partitions(list[Any]):
    all_open = True


def broker_of(logs: list[Looked], clock: Clock) -> SimpleNamespace:
    partitions = Partitions(SimpleNamespace(log=log, driver=log) for log in logs)
    return SimpleNamespace(config=BrokerConfig(), services=clock, partitions=partitions, image=object())


def keep_house(logs: list[Looked]) -> tuple[Clock, list[Looked]]:
    """A clock with a broker's chores on it, and the logs that they have synced so far."""
    clock = Clock()
    return clock, start_chores(broker_of(logs, clock))


def start_chores(broker: SimpleNamespace) -> list[Looked]:
    synced = cast(list[Looked], [])
    directory = SimpleNamespace(path="data", take_doomed=lambda now_ms: [])
    syncer = SimpleNamespace(want=synced.append)
    Housekeeping(
        cast(Broker, broker), cast(DataDirectory, directory), cast(Syncer, syncer), SimulatedDisk()
    ).start()
    return synced


MANY = 10 * LOOKS_PER_MS * NAMES_INTERVAL_MS


def test_looks_at_thousands_of_quiet_logs_are_spread() -> None:
    quiet = Looked(timed=False)
    clock, _ = keep_house([quiet] * MANY)
    clock.run(60 * NAMES_INTERVAL_MS)
    assert 5 * MANY <= quiet.looks <= 7 * MANY  # and not sixty times


def test_with_thousands_of_logs_new_settings_are_noticed_at_once() -> None:
    quiet, changed = Looked(timed=False), Looked(timed=False)
    clock = Clock()
    broker = broker_of([quiet] * MANY + [changed], clock)
    synced = start_chores(broker)
    clock.run(2 * NAMES_INTERVAL_MS)
    changed.is_flushed_by_time = changed.due = True
    broker.image = object()
    clock.run(NAMES_INTERVAL_MS + 1)
    assert synced == [changed]


def test_with_thousands_of_logs_those_that_are_opened_late_are_looked_at_soon() -> None:
    quiet, late = Looked(timed=False), Looked(timed=False, due=True)
    clock = Clock()
    broker = broker_of([quiet] * MANY, clock)
    synced = start_chores(broker)
    broker.partitions.all_open = False
    clock.run(2 * NAMES_INTERVAL_MS)
    broker.partitions.append(SimpleNamespace(log=late, driver=late))
    broker.partitions.all_open = True
    clock.run(NAMES_INTERVAL_MS + 1)
    assert synced == [late]


def test_a_log_with_a_flush_interval_is_looked_at_often_and_the_others_now_and_then() -> None:
    timed, quiet = Looked(timed=True), Looked(timed=False)
    clock, synced = keep_house([timed, quiet])
    clock.run(10 * NAMES_INTERVAL_MS)
    assert timed.looks > 4 * quiet.looks
    assert quiet.looks == 10
    assert synced == []


def test_a_log_that_gets_a_flush_interval_is_watched_from_the_next_look_on() -> None:
    log = Looked(timed=False)
    clock, synced = keep_house([log])
    clock.run(NAMES_INTERVAL_MS)
    log.is_flushed_by_time = log.due = True
    clock.run(NAMES_INTERVAL_MS)
    assert synced
    before = len(synced)
    clock.run(200)
    assert len(synced) > before


def test_names_that_changed_are_synced_without_a_flush_interval() -> None:
    log = Looked(timed=False, due=True)
    clock, synced = keep_house([log])
    clock.run(NAMES_INTERVAL_MS)
    assert synced == [log]
