"""The groups of one partition of ``__consumer_offsets``, alive: carries out what the pure shard decides.

Answers go to the promises that wait for them, records to the log, deadlines to one alarm.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from tidelog.broker.coordinators.alarm import Alarm
from tidelog.broker.coordinators.shard import Shard
from tidelog.broker.links.ports import BrokerPorts
from tidelog.broker.promise import Promise
from tidelog.errors import ErrorCode, TidelogError
from tidelog.groups.effects import NO_PRODUCER_ID, Answer, Effects, Now, Reload, Write
from tidelog.groups.shard import GroupShard
from tidelog.protocol.batch import BatchHeader
from tidelog.protocol.records import Record

T = TypeVar("T")


class GroupMachine:
    def __init__(self, shard: "Shard[GroupMachine]", broker: BrokerPorts) -> None:
        self.groups = GroupShard(lambda: broker.config, lambda: broker.image)
        self._shard = shard
        self._services = shard.services
        self._alarm = Alarm(shard.services, self._time_passed)
        self._stopped = False

    # -- requests ----------------------------------------------------------------------

    def now(self) -> Now:
        return Now(self._services.uptime_ms(), self._services.now_ms())

    def ask(self, request: Callable[[Promise[Any], Now], Effects]) -> Promise[Any]:
        """Do something that is answered later. The promise is of the answer, or of the TidelogError that
        refuses it.
        """
        answer: Promise[Any] = Promise()
        try:
            effects = request(answer, self.now())
        except TidelogError as refusal:
            answer.keep(refusal)
            return answer
        self.perform(effects)
        return answer

    def tell(self, request: Callable[[Now], tuple[T, Effects]]) -> T:
        """Do something that is answered at once, whatever follows from it. Raises the refusal."""
        answer, effects = request(self.now())
        self.perform(effects)
        return answer

    def perform(self, effects: Effects, *, written: bool = False) -> None:
        """``written``: they follow from a write that is committed, or refused."""
        for effect in effects:
            if isinstance(effect, Answer):
                if written:
                    effect.waiter.keep(effect.answer)
                else:
                    self._shard.answer(effect.waiter, effect.answer)
            elif isinstance(effect, Reload):
                self._shard.throw_away()
            else:
                self._write(effect)
        if not self._stopped:
            self._alarm.set(self.groups.next_ms)

    def _write(self, write: Write) -> None:
        def done(error: ErrorCode) -> None:
            self.perform(write.then(error, self.now()), written=True)

        self._shard.append(
            write.records,
            done,
            producer_id=write.producer_id,
            epoch=write.producer_epoch,
            transactional=write.producer_id != NO_PRODUCER_ID,
        )

    def _time_passed(self) -> None:
        self.perform(self.groups.pass_to(self.now()))

    def topics_deleted(self, topics: list[str]) -> None:
        self.perform(self.groups.topics_deleted(topics))

    @property
    def is_sure(self) -> bool:
        return self._shard.partition.is_sure

    def when_sure(self, then: Callable[[bool], None]) -> None:
        """Tell whether nobody coordinated in our place when this was asked."""
        self._shard.when_sure(then)

    # -- what the shard tells ----------------------------------------------------------

    def replay(self, record: Record, batch: BatchHeader) -> None:
        producer_id = batch.producer_id if batch.is_transactional else NO_PRODUCER_ID
        self.groups.replay(record.key, record.value, producer_id)

    def marker(self, producer_id: int, epoch: int, committed: bool) -> None:
        self.groups.marker(producer_id, committed)

    def start(self) -> None:
        self.perform(self.groups.start(self.now()))

    def stop(self) -> None:
        self._stopped = True
        self._alarm.cancel()
        self.perform(self.groups.stop())
