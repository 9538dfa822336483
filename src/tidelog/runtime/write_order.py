"""Which requests of a connection wait for earlier ones, so that a read sees the writes before it.

Kafka starts the next request of a connection after the response to the previous one. Here requests do not
wait, with one exception: a request after a pending write waits for it. For instance, a client that commits an
offset and then fetches it must get it. Writes of the kinds in ``PIPELINED`` do not wait for each other,
because each partition and each coordinator processes them in the order of their arrival. So the pending
writes of a connection are all of one kind, and they need not be counted until a request of another kind
arrives.
"""

from collections.abc import Iterable

from kio.schema.index import api_key_map

from tidelog.runtime.slots import Slot

NO_WRITE = -1  # as a kind of requests: no write to wait for
NO_KIND = -2

_WRITES = {
    "produce", "offset_commit", "leave_group", "create_topics", "delete_topics", "delete_records",
    "init_producer_id", "add_partitions_to_txn", "add_offsets_to_txn", "end_txn", "write_txn_markers",
    "txn_offset_commit", "alter_configs", "create_partitions", "delete_groups", "elect_leaders",
    "incremental_alter_configs", "alter_partition_reassignments", "offset_delete", "unregister_broker",
    "consumer_group_heartbeat", "add_raft_voter", "remove_raft_voter", "update_raft_voter",
    "create_acls", "delete_acls", "alter_client_quotas", "alter_user_scram_credentials",
}  # fmt: skip
"""Requests whose changes a later request may read. Not JoinGroup and SyncGroup, which wait for other members:
heartbeats and a member's leaving must not wait for them. Only descriptions of groups do.
"""

WRITES = frozenset(key for key, name in api_key_map.items() if name in _WRITES)
PIPELINED = frozenset(key for key, name in api_key_map.items() if name in ("produce", "offset_commit"))
CHANGES = WRITES - PIPELINED
"""Writes that wait for earlier reads, too, whose responses are worked out late and may describe what they
change: a topic must not be missing from a Metadata response because the next request deletes it.
"""

REBALANCES = frozenset(key for key, name in api_key_map.items() if name in ("join_group", "sync_group"))
GROUP_READS = frozenset(
    key for key, name in api_key_map.items() if name in ("describe_groups", "list_groups")
)
"""They wait for pending ``REBALANCES``, too: a client that is given an assignment must not read after it that
the group has none.
"""


def kind_that_passes(api_key: int) -> int:
    """The kind of requests that need not wait for this write; ``NO_KIND`` if all must wait."""
    return api_key if api_key in PIPELINED else NO_KIND


class WriteOrder:
    """The pending requests for which the next request of one connection may have to wait."""

    __slots__ = ("awaited", "awaits_rebalances", "kind")

    def __init__(self) -> None:
        # Requests of this kind need not wait for the pending writes; NO_WRITE: there are none.
        self.kind = NO_WRITE
        self.awaited = 0  # how many pending requests the one that is held back waits for
        self.awaits_rebalances = False  # whether these are rebalances, and not writes

    def must_follow_writes(self, slots: Iterable[Slot]) -> bool:
        """Whether pending writes block this request. They are counted only here, because most connections
        only write or only read.
        """
        self.awaited = sum(slot.writes and slot.parts is None for slot in slots)
        self.awaits_rebalances = False
        if not self.awaited:
            self.kind = NO_WRITE
        return self.awaited > 0

    def must_follow_rebalances(self, slots: Iterable[Slot]) -> bool:
        """The same for a description of groups. No write is pending."""
        self.awaited = sum(slot.rebalances and slot.parts is None for slot in slots)
        self.awaits_rebalances = self.awaited > 0
        return self.awaits_rebalances
