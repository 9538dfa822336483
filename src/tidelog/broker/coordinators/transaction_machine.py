"""Runs the transactions of one partition of ``__transaction_state``: allocates their producer ids and sends
their markers. The part that all machines share is in :mod:`~tidelog.broker.coordinators.machine`.
"""

from tidelog.broker.coordinators.machine import CoordinatorMachine
from tidelog.broker.coordinators.markers import MarkerOrder, MarkerSender
from tidelog.broker.coordinators.producer_ids import ProducerIds
from tidelog.broker.coordinators.shard import Shard
from tidelog.broker.links.ports import BrokerPorts
from tidelog.errors import ErrorCode, TidelogError
from tidelog.protocol.batch import BatchHeader
from tidelog.protocol.records import Record
from tidelog.transactions.effects import SendMarkers, TakeProducerId
from tidelog.transactions.shard import TransactionShard


class TransactionMachine(CoordinatorMachine[TakeProducerId | SendMarkers]):
    def __init__(
        self,
        shard: "Shard[TransactionMachine]",
        broker: BrokerPorts,
        producer_ids: ProducerIds,
        markers: MarkerSender,
    ) -> None:
        self.transactions = TransactionShard(lambda: broker.config)
        super().__init__(shard, self.transactions)
        self._producer_ids = producer_ids
        self._markers = markers
        self._orders: set[MarkerOrder] = set()  # not complete yet

    def _carry_out(self, effect: TakeProducerId | SendMarkers) -> None:
        if isinstance(effect, TakeProducerId):
            self._take_producer_id(effect)
        else:
            self._send_markers(effect)

    def _take_producer_id(self, effect: TakeProducerId) -> None:
        def granted(grant: int | TidelogError) -> None:
            if isinstance(grant, TidelogError):
                # Whatever the controller's error was, clients retry on this code.
                grant = TidelogError(grant.message, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            self._perform(self.transactions.got_producer_id(effect.token, grant, self.now()))

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

    def replay(self, record: Record, batch: BatchHeader) -> None:
        self.transactions.replay(record.key, record.value)

    def marker(self, producer_id: int, epoch: int, committed: bool) -> None:
        """Not needed: no transaction writes to this topic."""

    def stop(self) -> None:
        for order in self._orders:
            order.closed = True
        self._orders.clear()
        super().stop()
