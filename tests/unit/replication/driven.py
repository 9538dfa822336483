"""A replica and its log, driven by the test."""

from typing import Any

from tidelog.errors import ErrorCode
from tidelog.log.epochs import EpochCache
from tidelog.replication.effects import BeginEpoch, CompleteProduce, Truncate
from tidelog.replication.limits import Limits
from tidelog.replication.modes import MODES
from tidelog.replication.replica import Replica

ALL, LEADER_ONLY = -1, 1
LAG_MS = 1000


class FakeLog:
    def __init__(self) -> None:
        self.start_offset = 0
        self.end_offset = 0
        self.synced_end_offset = 0
        self.epochs = EpochCache()

    def write(self, epoch: int, count: int = 1) -> None:
        self.epochs.assign(epoch, self.end_offset)
        self.end_offset += count


class Driven:
    """A replica with its log; effects are carried out and kept."""

    def __init__(self, mode: str = "isr", me: int = 1, **limits: Any) -> None:
        self.log = FakeLog()
        self.replica = Replica(
            me, self.log, MODES[mode].policy, Limits(**{"min_in_sync": 2, "lag_max_ms": LAG_MS, **limits})
        )
        self.seen: list[Any] = []
        self.answers: list[ErrorCode] = []
        self.completed: list[int] = []  # The tokens: a produce waits under its end offset.

    def run(self, effects: list[Any]) -> list[Any]:
        for effect in effects:
            match effect:
                case BeginEpoch(epoch, start):
                    self.log.epochs.assign(epoch, start)
                case Truncate(end):
                    self.log.end_offset = end
                    self.log.epochs.truncate_from(end)
                case CompleteProduce(token, error):
                    self.answers.append(error)
                    self.completed.append(token)
        self.seen += effects
        return effects

    def lead(
        self, epoch: int = 1, in_sync: tuple[int, ...] = (1, 2, 3), partition_epoch: int = 0
    ) -> "Driven":
        self.run(self.replica.lead(epoch, (1, 2, 3), in_sync, partition_epoch, 0))
        return self

    def produce(self, acks: int = ALL, deadline_ms: int = 10_000) -> list[Any]:
        self.log.write(self.replica.epoch)
        effects = self.run(self.replica.appended())
        return effects + self.wait(self.log.end_offset, acks, deadline_ms)

    def wait(self, end_offset: int, acks: int = ALL, deadline_ms: int = 10_000) -> list[Any]:
        error = self.replica.verdict(end_offset, acks)
        if error is not None:
            return self.run([CompleteProduce(end_offset, error)])
        self.replica.wait(end_offset, acks, deadline_ms, end_offset)
        return []

    def fetched(
        self, replica: int, offset: int, last_epoch: int = 1, now_ms: int = 10, epoch: int = 1, start: int = 0
    ) -> Any:
        answer = self.replica.fetched(replica, epoch, offset, last_epoch, start, now_ms)
        self.run(answer.effects)
        return answer
