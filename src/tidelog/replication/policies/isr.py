"""``isr``: the way of Kafka. A record is committed when the whole in-sync set has it; the controller
elects.
"""

from tidelog.errors import ErrorCode
from tidelog.replication.view import WAIT, YES, Refuse, Verdict, View

ACKS_ALL = -1


class IsrPolicy:
    tracks_in_sync = True
    drops_laggards = True
    newest_log_wins = True
    too_late = ErrorCode.REQUEST_TIMED_OUT

    def committed(self, view: View) -> int:
        """Where the high watermark may stand.

        A member that is behind holds everybody back: that is what makes each member a possible leader. Below
        the topic's minimum nothing more is committed, or a lone survivor would commit what nobody else holds.
        """
        if len(view.in_sync) < view.min_in_sync:
            return view.high_watermark
        smallest = view.durable_end_offset
        progress = view.progress
        for member in view.maximal_in_sync:
            if member == view.me:
                continue
            follower = progress[member]
            if not follower.seen:
                return view.high_watermark
            if follower.end_offset < smallest:
                smallest = follower.end_offset
        return smallest

    def commits_alone(self, view: View) -> bool:
        return len(view.maximal_in_sync) == 1

    def before_append(self, view: View, acks: int) -> Refuse | None:
        if acks == ACKS_ALL and len(view.in_sync) < view.min_in_sync:
            return Refuse(ErrorCode.NOT_ENOUGH_REPLICAS)
        return None

    def acknowledged(self, view: View, end_offset: int, acks: int) -> Verdict:
        """Is the produce whose last record ends at ``end_offset`` done?"""
        if acks != ACKS_ALL:
            return YES if view.durable_end_offset >= end_offset else WAIT
        if view.high_watermark >= end_offset:
            # Committed by the full set; but if the set has shrunk below the minimum meanwhile, the client
            # must know that fewer copies than it asked for may be left.
            if len(view.in_sync) < view.min_in_sync:
                return Refuse(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
            return YES
        if len(view.in_sync) < view.min_in_sync:
            # The watermark will not move: say so now instead of letting the client wait for its timeout.
            return Refuse(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        return WAIT
