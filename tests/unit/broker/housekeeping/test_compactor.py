"""Which partitions a broker looks at for compaction, and how many of them in one turn of the loop."""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tidelog.broker.broker import Broker
from tidelog.broker.housekeeping.compactor import LOGS_PER_LOOK, Compactor
from tidelog.config import BrokerConfig
from tidelog.log.cleaner import Candidate, Cleaner
from tidelog.services import ignore
from tidelog.sim.disk import SimulatedDisk
from tidelog.types import TopicPartition
from unit.log.compaction_model import CompactSettings, all_records, short, write_each
from unit.log.log_model import open_log, sync


@dataclass(frozen=True)
class Compacted(CompactSettings):
    segment_bytes: int = 1 << 20
    compacts: bool = True


class Turns:
    """Turns of the loop, one at a time; work for threads is done at once."""

    def __init__(self) -> None:
        self.pending: deque[Callable[[], None]] = deque()

    def now_ms(self) -> int:
        return 10_000

    def soon(self, callback: Callable[[], None]) -> None:
        self.pending.append(callback)

    def offload(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        done(work())

    def run(self) -> None:
        while self.pending:
            self.pending.popleft()()


class Logs:
    """Compacted partitions of one broker."""

    def __init__(self, count: int) -> None:
        disk = SimulatedDisk()
        disk.make_directory("data")
        settings = Compacted()
        self.partitions = [
            SimpleNamespace(
                name=TopicPartition("t", number),
                log=open_log(disk, settings, directory=f"data/t-{number}"),
                config=settings,
                readable_end_offset=0,
            )
            for number in range(count)
        ]
        self.turns = Turns()
        broker = SimpleNamespace(config=BrokerConfig(), services=self.turns, partitions=self.partitions)
        self.compactor = Compactor(cast(Broker, broker), disk, ignore)

    def write(self, number: int, text: str) -> None:
        partition = self.partitions[number]
        write_each(partition.log, text)
        sync(partition.log)
        partition.readable_end_offset = partition.log.end_offset

    def run(self) -> None:
        self.compactor.run()
        self.turns.run()

    def records(self, number: int) -> str:
        return short(all_records(self.partitions[number].log))


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many logs were looked at, each time."""
    found: list[int] = []
    pick = Cleaner.pick

    def counting(cleaner: Cleaner, candidates: Iterable[Candidate], *args: Any, **more: Any) -> Any:
        found.append(len(list(candidates)))
        return pick(cleaner, candidates, *args, **more)

    monkeypatch.setattr(Cleaner, "pick", counting)
    return found


def test_one_turn_looks_at_some_logs_and_all_have_their_turn(looks: list[int]) -> None:
    logs = Logs(2 * LOGS_PER_LOOK + 10)
    dirty = [0, 1, LOGS_PER_LOOK + 1, 2 * LOGS_PER_LOOK + 9]
    for number in dirty:
        logs.write(number, "a1 a2 roll b1")
    for _ in range(2):  # Two dirty logs are looked at together: the second one may be for the next time.
        logs.run()
    assert [logs.records(number) for number in dirty] == ["1a2 2b1"] * len(dirty)
    assert max(looks) == LOGS_PER_LOOK


def test_a_few_logs_are_all_looked_at_before_each_pass(looks: list[int]) -> None:
    """So the one that needs it most is next."""
    logs = Logs(3)
    logs.write(2, "a1 a2 roll b1")
    logs.run()
    assert logs.records(2) == "1a2 2b1"
    assert looks == [3, 3]
    assert not logs.turns.pending


def test_logs_that_need_nothing_are_looked_at_once_in_a_round(looks: list[int]) -> None:
    logs = Logs(2 * LOGS_PER_LOOK)
    logs.run()
    assert looks == [LOGS_PER_LOOK, LOGS_PER_LOOK]


def test_compaction_goes_on_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    logs = Logs(1)
    logs.write(0, "a1 a2 roll b1")
    with monkeypatch.context() as patch, pytest.raises(ZeroDivisionError):
        patch.setattr(Cleaner, "pick", lambda *_, **__: 1 // 0)
        logs.run()
    logs.run()
    assert logs.records(0) == "1a2 2b1"
