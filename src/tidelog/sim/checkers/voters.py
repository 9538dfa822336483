"""Who may vote, as it is committed: one voter comes or goes at a time.

Two sets that differ by more have majorities without a common member: each could elect a leader and commit.
That hardly ever happens in the seeds, so the records themselves are looked at.
"""

from tidelog.replication.hosted import Hosted
from tidelog.replication.messages import PartitionKey
from tidelog.replication.voters import VoterSet, sets_in
from tidelog.sim.checkers.batches import pieces
from tidelog.sim.checkers.violation import Violation


class VoterChecker:
    def __init__(self) -> None:
        self._seen: dict[PartitionKey, tuple[int, VoterSet | None]] = {}  # how far, and the set of there

    def committed(self, hosted: Hosted, name: str) -> None:
        """Everything before the replica's watermark is committed."""
        if hosted.election is None:
            return
        log, end = hosted.log, hosted.replica.high_watermark
        start, known = self._seen.get(hosted.key, (0, None))
        if end <= start:
            return
        if log.start_offset > start:
            known = None  # What came in between only a snapshot tells.
        for data in pieces(log, start, end):
            for offset, voters in sets_in(memoryview(data)):
                if known is not None and len(voters.ids ^ known.ids) > 1:
                    raise Violation(
                        f"{name} offset {offset}: several voters changed at once, "
                        f"{sorted(known.ids)} to {sorted(voters.ids)}"
                    )
                known = voters
        self._seen[hosted.key] = end, known

    def forget(self, key: PartitionKey, floor: int) -> None:
        """Everything from ``floor`` on was given up, and with it sets of voters."""
        if key in self._seen and self._seen[key][0] > floor:
            self._seen[key] = floor, None
