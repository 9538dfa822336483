"""``quorum``: as in Raft and DLedger. A record is committed when a majority has it. The replicas elect the
leader.
"""

from tidelog.replication.policies.policy import Policy
from tidelog.replication.view import WAIT, YES, Verdict, View
from tidelog.types import majority


class QuorumPolicy(Policy):
    tracks_in_sync = False

    def committed(self, view: View) -> int:
        """The end offset that a majority holds, once it lies in the leader's own epoch.

        Records of an earlier epoch are committed only together with one of the leader's own: a majority may
        hold them and still be overruled by a replica with a later epoch that this majority does not know.
        """
        # A leader that was removed from the voters leads until that is committed, but does not count itself.
        held = [view.durable_end_offset] if view.me in view.replicas else []
        held += [follower.end_offset if follower.seen else 0 for follower in view.progress.values()]
        held.sort(reverse=True)
        needed = majority(len(view.replicas))
        if len(held) < needed:
            return view.high_watermark
        candidate = held[needed - 1]
        return candidate if candidate > view.epoch_start_offset else view.high_watermark

    def commits_alone(self, view: View) -> bool:
        return len(view.replicas) == 1

    def acknowledged(self, view: View, end_offset: int, acks: int) -> Verdict:
        """Independent of the producer's acks (other than 0): only a majority makes a record safe."""
        return YES if view.high_watermark >= end_offset else WAIT
