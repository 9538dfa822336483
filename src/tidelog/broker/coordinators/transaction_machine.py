"""The transactions of one partition of ``__transaction_state``, alive: carries out what the pure shard
decides.

Answers go to the promises that wait for them, records to the log, markers to the partitions' leaders,
deadlines to one alarm.
"""

from collections.abc import Callable
from typing import Any

from tidelog.broker.coordinators.alarm import Alarm
from tidelog.broker.coordinators.markers import MarkerOrder, MarkerSender
from tidelog.broker.coordinators.producer_ids import ProducerIds
from tidelog.broker.coordinators.shard import Shard
from tidelog.broker.links.ports import BrokerPorts
from tidelog.broker.promise import Promise
from tidelog.errors import ErrorCode, TidelogError
from tidelog.protocol.batch import BatchHeader
from tidelog.protocol.records import Record
from tidelog.transactions.effects import Answer, Effects, Now, SendMarkers, TakeProducerId, Write
from tidelog.transactions.shard import TransactionShard


class TransactionMachine:
    def __init__(
        self,
        shard: "Shard[TransactionMachine]",
        broker: BrokerPorts,
        producer_ids: ProducerIds,
        markers: MarkerSender,
    ) -> None:
        self.transactions = TransactionShard(lambda: broker.config)
        self._shard = shard
        self._producer_ids = producer_ids
        self._services = shard.services
        self._markers = markers
        self._orders: set[MarkerOrder] = set()  # on their way
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
        self._perform(effects)
        return answer

    # -- effects -----------------------------------------------------------------------

    def _perform(self, effects: Effects, *, written: bool = False) -> None:
        """``written``: they follow from a write that is committed, or refused."""
        for effect in effects:
            if isinstance(effect, Answer):
                if written:
                    effect.waiter.keep(effect.answer)
                else:
                    self._shard.answer(effect.waiter, effect.answer)
            elif isinstance(effect, Write):
                self._write(effect)
            elif isinstance(effect, TakeProducerId):
                self._take_producer_id(effect)
            else:
                self._send_markers(effect)
        if not self._stopped:
            self._alarm.set(self.transactions.next_ms)

    def _write(self, write: Write) -> None:
        def done(error: ErrorCode) -> None:
            self._perform(write.then(error, self.now()), written=True)

        self._shard.append(write.records, done)

    def _take_producer_id(self, effect: TakeProducerId) -> None:
        def granted(grant: int | TidelogError) -> None:
            if isinstance(grant, TidelogError):
                # Whatever stands in the way of the controller: clients wait for a coordinator and ask again.
                grant = TidelogError(grant.message, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            self._perform(effect.then(grant, self.now()))

        self._producer_ids.next().then(granted)

    def _send_markers(self, effect: SendMarkers) -> None:
        if self._stopped:
            return

        def done() -> None:
            self._orders.discard(order)
            self._perform(self.transactions.markers_written(effect, self.now()))

        shard = self._shard
        order = MarkerOrder(effect, shard.leader_epoch, shard.partition.log.end_offset, done)
        self._orders.add(order)
        self._markers.send(order)

    def _time_passed(self) -> None:
        self._perform(self.transactions.pass_to(self.now()))

    @property
    def is_sure(self) -> bool:
        return self._shard.partition.is_sure

    def when_sure(self, then: Callable[[bool], None]) -> None:
        """Tell whether nobody coordinated in our place when this was asked."""
        self._shard.when_sure(then)

    # -- what the shard tells ----------------------------------------------------------

    def replay(self, record: Record, batch: BatchHeader) -> None:
        self.transactions.replay(record.key, record.value)

    def marker(self, producer_id: int, epoch: int, committed: bool) -> None:
        """Nobody writes to this topic in a transaction."""

    def start(self) -> None:
        self._perform(self.transactions.start(self.now()))

    def stop(self) -> None:
        self._stopped = True
        self._alarm.cancel()
        for order in self._orders:
            order.closed = True
        self._orders.clear()
        self._perform(self.transactions.stop())
