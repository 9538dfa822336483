"""``primary-backup``: the classic way of RocketMQ. The placement names the primary, nobody is elected, and a
record is confirmed when as many replicas hold it as ``min.insync.replicas`` says, the primary included: one
copy is asynchronous copying, two are the synchronous double write.

The in-sync set holds the backups that serve and have caught up since they came; a slow one stays in it, and
each write waits for it. That set decides only whether a write is taken at all: what is confirmed is counted
in copies.
"""

from tidelog.errors import ErrorCode
from tidelog.replication.view import WAIT, YES, Refuse, Verdict, View


class PrimaryBackupPolicy:
    tracks_in_sync = True
    drops_laggards = False
    newest_log_wins = False
    too_late = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND

    def committed(self, view: View) -> int:
        """What so many distinct replicas hold, the primary being one of them.

        Never past the primary's own end, however far backups that were ahead of it have come: what the
        primary does not hold, as durably as it promises, it cannot give to anybody.
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
        """Whatever the producer asked for but "no answer": the topic says how many copies make an ok."""
        if view.high_watermark >= end_offset:
            return YES
        if len(view.in_sync) < view.min_in_sync:
            # The backup is gone: better the truth now than at the end of the client's patience.
            return Refuse(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        return WAIT
