"""``isr``: the way of Kafka. A record is committed when the whole in-sync set has it."""

from tidelog.errors import ErrorCode
from tidelog.replication.view import WAIT, YES, Refuse, Verdict, View

ACKS_NONE, ACKS_LEADER, ACKS_ALL = 0, 1, -1


class IsrPolicy:
    def committed(self, view: View) -> int:
        """Where the high watermark may stand.

        A member that is behind holds everybody back: that is what makes each member a possible leader. Below
        the topic's minimum nothing more is committed, or one lone survivor would commit what nobody else
        holds.
        """
        if len(view.in_sync) < view.min_in_sync:
            return view.high_watermark
        return max(view.high_watermark, min(view.end_offsets[replica] for replica in view.in_sync))

    def before_append(self, view: View, acks: int) -> Refuse | None:
        if acks == ACKS_ALL and len(view.in_sync) < view.min_in_sync:
            return Refuse(ErrorCode.NOT_ENOUGH_REPLICAS)
        return None

    def acknowledged(self, view: View, end_offset: int, acks: int) -> Verdict:
        """Is the produce whose last record ends at ``end_offset`` done?"""
        if acks != ACKS_ALL:
            return YES if view.end_offsets[view.local_id] >= end_offset else WAIT
        if view.high_watermark < end_offset:
            return WAIT
        if len(view.in_sync) < view.min_in_sync:
            return Refuse(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        return YES
