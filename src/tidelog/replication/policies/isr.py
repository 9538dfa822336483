"""``isr``: as in Kafka. A record is committed when the whole in-sync set has it. The controller appoints the
leader.
"""

from tidelog.errors import ErrorCode
from tidelog.replication.policies.policy import Policy
from tidelog.replication.view import WAIT, YES, Refuse, Verdict, View

ACKS_ALL = -1


class IsrPolicy(Policy):
    tracks_in_sync = True
    drops_laggards = True
    last_member_decides = True

    def committed(self, view: View) -> int:
        """The offset to which the high watermark may advance.

        The slowest member limits it, so every member holds all committed records and can become leader. With
        fewer members than the topic's minimum nothing more is committed: otherwise a single remaining member
        would commit records of which there is no other copy.
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
        if acks != ACKS_ALL:
            return YES if view.durable_end_offset >= end_offset else WAIT
        if view.high_watermark >= end_offset:
            # Committed by the full set. But if the set has shrunk below the minimum since, the client must
            # know that fewer copies than it asked for may be left.
            if len(view.in_sync) < view.min_in_sync:
                return Refuse(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
            return YES
        if len(view.in_sync) < view.min_in_sync:
            # The high watermark will not advance: refuse now instead of letting the client wait for its
            # timeout.
            return Refuse(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        return WAIT
