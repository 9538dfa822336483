"""Which requests of a connection wait for which earlier ones: a read sees the writes that came before it.

Kafka takes up a connection's next request when the last one is answered. Here work does not wait, with one
exception. A request that comes behind an unanswered write waits for it: somebody who commits an offset and
asks for it in the next breath must find it. Writes of the kinds in ``PIPELINED`` do not wait for each other:
each partition, and each coordinator, takes them in the order of their arrival.
"""

from kio.schema.index import api_key_map

NO_WRITE = -1

_WRITES = {
    "produce", "offset_commit", "leave_group", "create_topics", "delete_topics", "delete_records",
    "init_producer_id", "add_partitions_to_txn", "add_offsets_to_txn", "end_txn", "write_txn_markers",
    "txn_offset_commit", "alter_configs", "create_partitions", "delete_groups", "elect_leaders",
    "incremental_alter_configs", "alter_partition_reassignments", "offset_delete", "unregister_broker",
    "consumer_group_heartbeat", "add_raft_voter", "remove_raft_voter", "update_raft_voter",
}  # fmt: skip
"""Requests that change what a later one may ask for. Not JoinGroup and SyncGroup, which wait for other
members and tell all that they change in their answer."""

WRITES = frozenset(key for key, name in api_key_map.items() if name in _WRITES)
PIPELINED = frozenset(key for key, name in api_key_map.items() if name in ("produce", "offset_commit"))


class WriteOrder:
    """The unanswered writes of one connection. They are all of one kind: others wait."""

    __slots__ = ("_api_key", "_count")

    def __init__(self) -> None:
        self._api_key = NO_WRITE
        self._count = 0

    def holds_back(self, api_key: int) -> bool:
        """Whether a request of this kind must wait."""
        own = self._api_key
        return own != NO_WRITE and (api_key != own or api_key not in PIPELINED)

    def began(self, api_key: int) -> bool:
        """A request is taken up; whether it is a write, whose end has to be told."""
        if api_key not in WRITES:
            return False
        self._api_key = api_key
        self._count += 1
        return True

    def ended(self) -> bool:
        """A write is answered; whether it was the last one."""
        self._count -= 1
        if self._count:
            return False
        self._api_key = NO_WRITE
        return True
