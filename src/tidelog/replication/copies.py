"""What a leader knows of the copies of its log."""

from tidelog.replication.replica import Replica, Role


def is_copied(replica: Replica) -> bool:
    """Whether another member of the in-sync set holds the whole log of this replica."""
    end_offset = replica.log.end_offset
    return any(
        progress.holds(end_offset)
        for member, progress in replica.progress.items()
        if member in replica.in_sync
    )


def has_copies_of(replica: Replica, end_offset: int) -> bool:
    """Whether as many replicas as the topic requires hold everything before ``end_offset``, and have deleted
    what this one has. Only a leader can tell.
    """
    leads = replica.role is Role.LEADER
    return leads and replica.policy.has_copies_of(replica, end_offset, replica.log.start_offset)
