"""Which requests of a connection wait for which earlier ones: a read sees the writes before it.

Kafka starts a connection's next request when the last one is answered. Here work does not wait, with one
exception. A request after an unanswered write waits for it: a client that commits an offset and then fetches
it must find it. Writes of the kinds in ``PIPELINED`` do not wait for each other: each partition, and each
coordinator, processes them in the order of their arrival. So the unanswered writes of a connection are all of
one kind, and while no other kind arrives, nothing is counted.
"""

from kio.schema.index import api_key_map

NO_WRITE = -1  # as a kind of requests: no write to wait for
NO_KIND = -2

_WRITES = {
    "produce", "offset_commit", "leave_group", "create_topics", "delete_topics", "delete_records",
    "init_producer_id", "add_partitions_to_txn", "add_offsets_to_txn", "end_txn", "write_txn_markers",
    "txn_offset_commit", "alter_configs", "create_partitions", "delete_groups", "elect_leaders",
    "incremental_alter_configs", "alter_partition_reassignments", "offset_delete", "unregister_broker",
    "consumer_group_heartbeat", "add_raft_voter", "remove_raft_voter", "update_raft_voter",
}  # fmt: skip
"""Requests that change what a later one may read. Not JoinGroup and SyncGroup, which wait for other members
and return all that they change.
"""

WRITES = frozenset(key for key, name in api_key_map.items() if name in _WRITES)
PIPELINED = frozenset(key for key, name in api_key_map.items() if name in ("produce", "offset_commit"))


def kind_that_passes(api_key: int) -> int:
    """The requests that need not wait for a write of this kind; ``NO_KIND`` if all must."""
    return api_key if api_key in PIPELINED else NO_KIND
