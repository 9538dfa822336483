"""Runs the groups of one partition of ``__consumer_offsets``. The part that all machines share is in
:mod:`~tidelog.broker.coordinators.machine`.
"""

from tidelog.broker.coordinators.machine import CoordinatorMachine
from tidelog.broker.coordinators.shard import Shard
from tidelog.broker.links.ports import BrokerPorts
from tidelog.groups.effects import NO_PRODUCER_ID, Reload
from tidelog.groups.shard import GroupShard
from tidelog.protocol.batch import BatchHeader
from tidelog.protocol.records import Record


class GroupMachine(CoordinatorMachine[Reload]):
    def __init__(self, shard: "Shard[GroupMachine]", broker: BrokerPorts) -> None:
        self.groups = GroupShard(lambda: broker.config, lambda: broker.image)
        super().__init__(shard, self.groups)

    def topics_deleted(self, topics: list[str]) -> None:
        self._perform(self.groups.topics_deleted(topics))

    def _carry_out(self, effect: Reload) -> None:
        self._shard.throw_away()

    def replay(self, record: Record, batch: BatchHeader) -> None:
        producer_id = batch.producer_id if batch.is_transactional else NO_PRODUCER_ID
        self.groups.replay(record.key, record.value, producer_id)

    def marker(self, producer_id: int, epoch: int, committed: bool) -> None:
        self.groups.marker(producer_id, committed)
