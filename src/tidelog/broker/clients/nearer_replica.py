"""Reading from the replica in one's own rack (KIP-392)."""

from tidelog.broker.links.ports import BrokerPorts
from tidelog.replication.replica import Replica


def nearer_replica(broker: BrokerPorts, replica: Replica, rack: str, offset: int) -> int | None:
    """A follower in the reader's rack that can serve it from ``offset`` on; None when the leader itself does.

    Only members of the in-sync set: what is committed is there, so a reader that moves misses nothing.
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
