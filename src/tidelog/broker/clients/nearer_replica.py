"""Fetching from a replica in the consumer's rack (KIP-392)."""

from tidelog.broker.links.ports import BrokerPorts
from tidelog.replication.replica import Replica


def nearer_replica(broker: BrokerPorts, replica: Replica, rack: str, offset: int) -> int | None:
    """A follower in the consumer's rack that has ``offset``; None if the consumer should use the leader.

    Only members of the in-sync set: they have all committed records, so the consumer misses none.
    """
    brokers = broker.image.brokers
    me = brokers.get(broker.broker_id)
    if me is None or me.rack == rack:
        return None
    for member in replica.in_sync:
        other = brokers.get(member)
        progress = replica.progress.get(member)
        if other is None or other.fenced or other.rack != rack or progress is None:
            continue
        if progress.log_start_offset <= offset <= progress.end_offset:
            return member
    return None
