"""The shards of one internal topic on this broker: one for each partition that the broker leads."""

from collections.abc import Callable, Iterator
from typing import Generic

from tidelog.broker.coordinators.keys import partition_of
from tidelog.broker.coordinators.shard import LoadState, M, Shard
from tidelog.broker.links.ports import BrokerPorts
from tidelog.broker.partitions.partition import Partition
from tidelog.errors import ErrorCode, TidelogError
from tidelog.replication.replica import Role


class Coordinator(Generic[M]):
    def __init__(self, broker: BrokerPorts, topic: str, make: Callable[[Shard[M]], M]) -> None:
        self.topic = topic
        self._broker = broker
        self._make = make
        self._shards: dict[int, Shard[M]] = {}

    # -- finding the machine for a key -------------------------------------------------

    def partition_of(self, key: str) -> int | None:
        """The partition of a key; None while the topic does not exist."""
        topic = self._broker.image.topics.get(self.topic)
        return None if topic is None else partition_of(key, len(topic.partitions))

    def machine_of(self, key: str) -> M:
        """The machine of a key. Raises the error for the client if it is on another broker or not ready."""
        index = self.partition_of(key)
        shard = None if index is None else self._shards.get(index)
        if shard is None or shard.state is LoadState.GONE or not shard.partition.leads:
            raise TidelogError(
                f"this broker is not the coordinator of {key[:60]!r}", ErrorCode.NOT_COORDINATOR
            )
        if shard.state is LoadState.LOADING:
            raise TidelogError(
                f"the coordinator of {key[:60]!r} is being loaded", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            )
        return shard.machine

    def machines(self) -> Iterator[M]:
        """All machines that are ready."""
        for shard in list(self._shards.values()):
            if shard.state is LoadState.ACTIVE:
                yield shard.machine

    @property
    def loading(self) -> bool:
        """Whether a shard of this broker is still being loaded."""
        return any(shard.state is LoadState.LOADING for shard in self._shards.values())

    # -- what happens to the partitions ------------------------------------------------

    def marker(self, index: int, producer_id: int, epoch: int, committed: bool) -> None:
        """A transaction marker is committed in partition ``index`` of this topic. A shard that is loading
        finds the marker in the log.
        """
        shard = self._shards.get(index)
        if shard is not None and shard.state is LoadState.ACTIVE:
            shard.machine.marker(producer_id, epoch, committed)

    def load_again(self, index: int) -> None:
        """Reload partition ``index`` of this topic: it is unknown whether a write to it succeeded."""
        shard = self._shards.get(index)
        if shard is not None and shard.state is LoadState.ACTIVE:
            shard.throw_away()

    def role_changed(self, partition: Partition) -> None:
        """This broker became or is no longer the leader of a partition, perhaps of another topic."""
        if partition.name.topic == self.topic:
            self._follow(partition.name.partition, partition if _may_coordinate(partition) else None)

    def follow(self) -> None:
        """Create the shards of partitions that this broker leads, and unload all others."""
        topic = self._broker.image.topics.get(self.topic)
        count = 0 if topic is None else len(topic.partitions)
        for index in range(count):
            partition, _ = self._broker.partitions.find(self.topic, index)
            self._follow(index, partition if partition is not None and _may_coordinate(partition) else None)
        for index in [index for index in self._shards if index >= count]:
            self._follow(index, None)

    def _follow(self, index: int, partition: Partition | None) -> None:
        shard = self._shards.get(index)
        if shard is not None:
            # In a new leader epoch, records that this shard has replayed may have been truncated.
            if shard.partition is partition and shard.leader_epoch == partition.leader_epoch:
                return
            del self._shards[index]
            shard.unload()
        if partition is not None:
            self._begin(partition)

    def _begin(self, partition: Partition) -> None:
        broker = self._broker
        shard = Shard(partition, broker.services, self._make, self._load_again)
        self._shards[shard.index] = shard
        broker.services.soon(shard.load)

    def _load_again(self, shard: Shard[M]) -> None:
        if self._shards.get(shard.index) is not shard:
            return
        del self._shards[shard.index]
        if _may_coordinate(shard.partition):
            self._begin(shard.partition)

    def close(self) -> None:
        """The broker stops: refuse all pending requests."""
        shards, self._shards = self._shards, {}
        for shard in shards.values():
            shard.unload()


def _may_coordinate(partition: Partition) -> bool:
    """Whether this broker is the partition's leader. :attr:`Partition.leads` is false while the controllers
    are unreachable, but the shard is kept during that time and only refuses requests.

    Without the check for a failed log, a shard would be loaded, fail at its first write, and be loaded again
    in an endless loop.
    """
    return partition.replica.role is Role.LEADER and partition.log.failure is None
