"""Runs the groups of one partition of ``__consumer_offsets``. The part that all machines share is in
:mod:`~tidelog.broker.coordinators.machine`.

Offsets of a topic that is deleted are removed. A machine that is being loaded cannot do that yet, so it does
it when it is loaded: for topics that were deleted meanwhile, also if one of the same name was created since,
and for topics that do not exist, because they were deleted while no broker coordinated. Offsets are committed
only for topics that their coordinator knows, and the next coordinator is appointed by a later record of the
same metadata log. So a topic that it does not know when it is loaded was deleted.
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
        self._broker = broker
        self._topics_before = broker.image.topic_names  # when the loading began
        super().__init__(shard, self.groups)

    def start(self) -> None:
        super().start()
        image = self._broker.image
        deleted = {
            name for topic_id, name in self._topics_before.items() if topic_id not in image.topic_names
        }
        self._topics_before = {}
        unknown = {name for name in self.groups.offsets.topics() if name not in image.topics}
        if deleted or unknown:
            self.topics_deleted(sorted(deleted | unknown))

    def topics_deleted(self, topics: list[str]) -> None:
        self._perform(self.groups.topics_deleted(topics))

    def _carry_out(self, effect: Reload) -> None:
        self._shard.throw_away()

    def replay(self, record: Record, batch: BatchHeader) -> None:
        producer_id = batch.producer_id if batch.is_transactional else NO_PRODUCER_ID
        self.groups.replay(record.key, record.value, producer_id)

    def marker(self, producer_id: int, epoch: int, committed: bool) -> None:
        self.groups.marker(producer_id, committed)
