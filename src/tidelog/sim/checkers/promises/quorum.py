"""``quorum``: what its voters may lose.

================================================ =============================================================
fault                                            an acknowledged record may be gone
================================================ =============================================================
brokers killed, frozen, cut off, in any number   never
power lost, in any number, ``flush.messages=1``  never: what a majority acknowledged is on a majority's disks
one disk replaced at a time                      never: who lost it does not vote before it was taken in anew
================================================ =============================================================
"""

from tidelog.replication.hosted import Hosted
from tidelog.sim.checkers.promises.promise import Place, Promise
from tidelog.sim.checkers.violation import Violation


class QuorumPromise(Promise):
    def is_whole(self, place: Place) -> bool:
        partition = place.partition
        return (
            partition.leader >= 0
            and set(partition.in_sync) == set(partition.replicas)
            and not partition.is_moving
        )

    def can_do_without(self, place: Place, node: int) -> bool:
        return self.is_whole(place)

    def committed(self, place: Place, leader: Hosted) -> None:
        """So many of the voters whose logs are open lack it at most that the others can be a majority."""
        voters = leader.replica.replicas
        offset = leader.replica.high_watermark
        lacking = {
            node.me
            for node in self._around.nodes()
            if node.me in voters
            and place.key in node.host.hosted
            and node.host.hosted[place.key].log.synced_end_offset < offset
        }
        if self.is_synced(place.topic) and 2 * (len(voters) - len(lacking)) <= len(voters):
            raise Violation(
                f"{place.name}: broker {leader.replica.me} takes {offset} for committed, "
                f"and {sorted(lacking)} of {list(voters)} do not have it on disk"
            )
