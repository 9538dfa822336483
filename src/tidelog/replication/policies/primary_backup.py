"""``primary-backup``: as in classic RocketMQ. The placement names the primary, and there are no elections. A
record is committed when ``min.insync.replicas`` replicas hold it, the primary included: with one copy
replication is asynchronous, with two it is a synchronous double write.

The in-sync set holds the backups that serve and have caught up since they started. A slow backup stays a
member, and each write waits for it. The set decides only whether a write is accepted at all; what is
committed is decided by the number of copies. A topic may allow that fewer are enough while too few backups
keep up: that decision is in :mod:`tidelog.replication.policies.degrading`.
"""

from collections.abc import Mapping

from tidelog.errors import ErrorCode
from tidelog.replication.limits import Limits
from tidelog.replication.policies.policy import Policy
from tidelog.replication.progress import Progress
from tidelog.replication.view import WAIT, YES, Refuse, Verdict, View


class PrimaryBackupPolicy(Policy):
    tracks_in_sync = True
    too_late = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND

    def committed(self, view: View) -> int:
        """The end offset that the required number of replicas holds, the primary being one of them.

        Never beyond the primary's own log, even if backups are ahead of it: records that the primary does not
        hold, as durably as it promises, it cannot serve.
        """
        own = view.durable_end_offset
        copies = view.min_in_sync
        if copies <= 1:
            return own
        held = [
            backup.end_offset
            for replica, backup in view.progress.items()
            if backup.seen and replica not in view.uncounted
        ]
        held.sort(reverse=True)
        if len(held) < copies - 1:
            return view.high_watermark
        return min(own, held[copies - 2])

    def commits_alone(self, view: View) -> bool:
        return view.min_in_sync <= 1

    def committed_without_leader(self, view: View, confirmed: int) -> int:
        """Where two copies are enough, everything that the primary held and this backup fetched from it is
        committed, even if the primary could not say so any more. This does not apply where acknowledgements
        require a sync, because the records may not be synced there.
        """
        limits = view.limits
        return view.high_watermark if limits.min_in_sync > 2 or limits.durable else confirmed

    def may_degrade(self, limits: Limits) -> bool:
        return limits.degrade_after_ms >= 0 and limits.min_in_sync > 1

    def fewest_copies(self, limits: Limits) -> int:
        return 1 if limits.degrade_after_ms >= 0 else limits.min_in_sync

    def has_copies_of(self, view: View, end_offset: int, start_offset: int) -> bool:
        """Unlike for a commit, as many as the topic requires, even if fewer are enough for now.

        With more copies a backup leads without hearing this leader. A deletion from when fewer were enough
        may be known to this leader only, so a backup counts when it has deleted, too.
        """
        if view.durable_end_offset < end_offset:
            return False
        held = [
            replica
            for replica, backup in view.progress.items()
            if replica not in view.uncounted and backup.holds(end_offset) and backup.has_deleted(start_offset)
        ]
        return 1 + len(held) >= view.limits.min_in_sync

    def holders_of_sealed(
        self, view: View, holders: Mapping[int, Progress], start_offset: int
    ) -> tuple[int, ...] | None:
        """A backup that was away may not have learned of every deletion, and the records would return with
        it: it is left out, or waited for if its copy is needed.
        """
        able = tuple(each for each, backup in holders.items() if backup.has_deleted(start_offset))
        is_enough = 1 + len(frozenset(able) - view.uncounted) >= view.min_in_sync
        return able if is_enough or len(able) == len(holders) else None

    def before_append(self, view: View, acks: int) -> Refuse | None:
        if acks and len(view.in_sync) < view.min_in_sync:
            return Refuse(ErrorCode.NOT_ENOUGH_REPLICAS)
        return None

    def acknowledged(self, view: View, end_offset: int, acks: int) -> Verdict:
        """Independent of the producer's acks (other than 0): the topic sets how many copies an
        acknowledgement requires.
        """
        if view.high_watermark >= end_offset:
            return YES
        if len(view.in_sync) < view.min_in_sync:
            # A backup is gone: refuse now instead of letting the client wait for its timeout.
            return Refuse(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        return WAIT
