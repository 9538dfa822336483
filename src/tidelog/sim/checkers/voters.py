"""The committed voters: one voter is added or removed at a time.

Two sets that differ by more have disjoint majorities: each could elect a leader and commit. That hardly ever
happens in the seeds, so the records themselves are checked.
"""

from tidelog.replication.driver import ReplicaDriver
from tidelog.replication.messages import PartitionKey
from tidelog.replication.voters import VoterSet, sets_in
from tidelog.sim.checkers.batches import pieces
from tidelog.sim.checkers.violation import Violation


class VoterChecker:
    def __init__(self) -> None:
        # How far, the epoch with which they began to vote, and the set of there.
        self._seen: dict[PartitionKey, tuple[int, int, VoterSet | None]] = {}
        self._latest: dict[PartitionKey, tuple[int, frozenset[int]]] = {}  # since which epoch they vote, who

    def committed(self, driver: ReplicaDriver, end: int, name: str) -> None:
        """Everything before ``end`` in the replica's log is committed."""
        if not driver.voter.watches_leader:
            return  # There are no voters.
        log = driver.log
        start, began, known = self._seen.get(driver.key, (0, 0, None))
        if end <= start:
            return
        begins = driver.seal.since_epoch
        if log.start_offset > start or begins != began:
            # Changes in between are known only from a snapshot; and a topic that had another mode meanwhile
            # starts again, with the replicas that hold its log then.
            known = None
        for data in pieces(log, start, end):
            for offset, voters in sets_in(memoryview(data)):
                if log.epochs.epoch_at(offset) < begins:
                    continue  # Of an earlier time.
                if known is not None and len(voters.ids ^ known.ids) > 1:
                    raise Violation(
                        f"{name} offset {offset}: several voters changed at once, "
                        f"{sorted(known.ids)} to {sorted(voters.ids)}"
                    )
                known = voters
                self._latest[driver.key] = begins, voters.ids
        self._seen[driver.key] = end, begins, known

    def latest(self, key: PartitionKey, since_epoch: int) -> frozenset[int] | None:
        """The last set committed since they began to vote; None if there is none."""
        began, voters = self._latest.get(key, (-1, frozenset()))
        return voters if began == since_epoch else None

    def forget(self, key: PartitionKey, floor: int) -> None:
        """Everything from ``floor`` on was given up, including voter sets."""
        if key in self._seen and self._seen[key][0] > floor:
            self._seen[key] = floor, self._seen[key][1], None
