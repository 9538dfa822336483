"""``primary-backup``: as in classic RocketMQ. The placement names the primary, and there are no elections. A
record is committed when ``min.insync.replicas`` replicas hold it, the primary included: with one copy
replication is asynchronous, with two it is a synchronous double write.

The in-sync set holds the backups that serve and have caught up since they started. A slow backup stays a
member, and each write waits for it. The set decides only whether a write is accepted at all; what is
committed is decided by the number of copies.
"""

from tidelog.errors import ErrorCode
from tidelog.replication.view import WAIT, YES, Refuse, Verdict, View


class PrimaryBackupPolicy:
    tracks_in_sync = True
    drops_laggards = False
    newest_log_wins = False
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
