"""A shard with a log in memory, a clock that stands still unless told, and somebody who writes markers."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tidelog.errors import ErrorCode, TidelogError
from tidelog.shard_effects import KeyValue
from tidelog.transactions.effects import AppendRecords, Effects, Now, Respond, SendMarkers, TakeProducerId
from tidelog.transactions.rules import EndRequest, ProducerIdAndEpoch
from tidelog.transactions.shard import COMPLETION_DELAY_MS, TransactionShard
from tidelog.transactions.states import TransactionState
from tidelog.transactions.transaction import Transaction
from tidelog.types import TopicPartition

ID = "orders"
P0, P1, P2 = (TopicPartition("t", number) for number in range(3))
WALL_MS = 1_000_000


@dataclass
class Settings:
    transaction_max_timeout_ms: int = 900_000
    transactional_id_expiration_ms: int = 604_800_000
    transaction_remove_expired_transaction_cleanup_interval_ms: int = 3_600_000


class Waiter:
    """Hears its answer once."""

    def __init__(self) -> None:
        self.answers: list[Any] = []

    @property
    def answer(self) -> Any:
        assert len(self.answers) == 1, self.answers
        return self.answers[0]

    @property
    def error(self) -> ErrorCode:
        answer = self.answer
        return answer.code if isinstance(answer, TidelogError) else ErrorCode.NONE


class Driver:
    def __init__(
        self, log: list[KeyValue] | None = None, settings: Settings | None = None, wall_ms: int = WALL_MS
    ) -> None:
        self.settings = settings or Settings()
        self.log = log if log is not None else []
        self.uptime_ms = 0
        self.wall_ms = wall_ms
        self.next_id = 1000 + len(self.log)
        self.holds_writes = False
        self.refuses_ids = False
        self.held: list[AppendRecords] = []
        self.sent: list[SendMarkers] = []
        self.shard = TransactionShard(lambda: self.settings)
        for key, value in self.log:
            self.shard.replay(key, value)
        self.perform(self.shard.start(self.now))

    def restarted(self, after_ms: int = 0) -> "Driver":
        """Another coordinator, with the same log, some time later."""
        other = Driver(list(self.log), self.settings, self.wall_ms + after_ms)
        other.next_id = self.next_id
        return other

    @property
    def now(self) -> Now:
        return Now(self.uptime_ms, self.wall_ms)

    def perform(self, effects: Effects) -> None:
        for effect in effects:
            if isinstance(effect, Respond):
                effect.waiter.answers.append(effect.response)
            elif isinstance(effect, TakeProducerId):
                self._grant(effect)
            elif isinstance(effect, SendMarkers):
                self.sent.append(effect)
            elif self.holds_writes:
                self.held.append(effect)
            else:
                self._commit(effect)

    def _grant(self, effect: TakeProducerId) -> None:
        if self.refuses_ids:
            refusal = TidelogError("no ids", ErrorCode.COORDINATOR_NOT_AVAILABLE)
            self.perform(self.shard.got_producer_id(effect.token, refusal, self.now))
            return
        self.next_id += 1
        self.perform(self.shard.got_producer_id(effect.token, self.next_id, self.now))

    def _commit(self, write: AppendRecords) -> None:
        self.log += write.records
        self.perform(self.shard.appended(write.token, ErrorCode.NONE, self.now))

    def commit_held(self) -> None:
        """What is held is committed; what follows from it is held again where writes are."""
        held, self.held = self.held, []
        for write in held:
            self._commit(write)

    def refuse_held(self, error: ErrorCode = ErrorCode.COORDINATOR_NOT_AVAILABLE) -> None:
        held, self.held = self.held, []
        for write in held:
            self.perform(self.shard.appended(write.token, error, self.now))

    def pass_ms(self, duration_ms: int) -> None:
        self.uptime_ms += duration_ms
        self.wall_ms += duration_ms
        self.perform(self.shard.pass_to(self.now))

    def state_after(self, duration_ms: int) -> TransactionState:
        self.pass_ms(duration_ms)
        return self.state

    # -- requests ----------------------------------------------------------------------

    def ask(self, request: Callable[[Waiter, Now], Effects]) -> Waiter:
        waiter = Waiter()
        try:
            effects = request(waiter, self.now)
        except TidelogError as refusal:
            waiter.answers.append(refusal)
            return waiter
        self.perform(effects)
        return waiter

    def init(
        self, expected: ProducerIdAndEpoch | None = None, timeout_ms: int = 60_000, name: str = ID
    ) -> Waiter:
        return self.ask(lambda waiter, now: self.shard.init_producer(name, timeout_ms, expected, waiter, now))

    def add(
        self, producer: ProducerIdAndEpoch, *partitions: TopicPartition, version: int = 0, name: str = ID
    ) -> Waiter:
        wanted = frozenset(partitions or (P0,))
        return self.ask(
            lambda waiter, now: self.shard.add_partitions(name, producer, wanted, version, waiter, now)
        )

    def end(
        self, producer: ProducerIdAndEpoch, *, commits: bool = True, version: int = 0, name: str = ID
    ) -> Waiter:
        request = EndRequest(producer, commits, version)
        return self.ask(lambda waiter, now: self.shard.end(name, request, waiter, now))

    def write_markers(self) -> list[SendMarkers]:
        """All partitions have got what was sent."""
        sent, self.sent = self.sent, []
        for each in sent:
            self.perform(self.shard.markers_written(each, self.now))
        return sent

    # -- looking -----------------------------------------------------------------------

    def transaction(self, name: str = ID) -> Transaction:
        found = self.shard.get(name)
        assert found is not None
        return found

    @property
    def state(self) -> TransactionState:
        return self.transaction().state


def in_state(state: TransactionState, *, version: int = 0) -> tuple[Driver, ProducerIdAndEpoch]:
    """A driver whose id is in a state, and the producer that its client believes to be."""
    driver = Driver()
    producer = driver.init().answer
    if state is TransactionState.EMPTY:
        return driver, producer
    driver.add(producer, P0, P1, version=version)
    if state is TransactionState.ONGOING:
        return driver, producer
    commits = state in (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)
    producer = driver.end(producer, commits=commits, version=version).answer
    if state in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT):
        driver.write_markers()
        driver.pass_ms(COMPLETION_DELAY_MS)
    assert driver.state is state
    return driver, producer
