"""How much may break at a time, computed from what the modes promise.

What a mode says it survives may happen in any form and at any time; what it does not survive may happen, too,
and then the loss must be one that its documentation lists (:mod:`tidelog.sim.checkers.promises`). Where the
documentation says neither, a fault does not come: an operator does not replace a second disk before the first
is full again.

==================================== ========================================================================
fault                                when it may come
==================================== ========================================================================
killed, frozen, cut off, late, slow, at any time, in any number
doubled, reordered, clocks
power lost                           at any time, in any number; of voters that do not sync, a minority (a
                                     majority that has forgotten waits for an operator)
disks that fail or are full          at any time; such a machine counts as one that lost power
a disk replaced                      while everything is whole, and everything on it is elsewhere, too; of a
                                     controller also only while all controllers agree on who votes
batches damaged                      while the rest of the cluster has everything that is on that replica
other files damaged                  as a disk that is replaced: a process that cannot make sense of its files
                                     says so and ends, and its disk is replaced
==================================== ========================================================================
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from tidelog.broker.metadata.quorum import MetadataQuorum

if TYPE_CHECKING:
    from tidelog.sim.cluster import BrokerMachine, SimCluster

LEAST_VOTERS = 3  # With fewer, one that is away leaves no majority.


class Budget:
    def __init__(self, cluster: "SimCluster", is_whole: Callable[[], bool]) -> None:
        self._cluster = cluster
        self._is_whole = is_whole  # whether nothing is missing that the modes know of
        self._suspect: BrokerMachine | None = None  # its files may be damaged, and nobody has looked yet

    def may_lose_disk(self, machine: "BrokerMachine") -> bool:
        """Whether everything on its disk is elsewhere, too, and nobody waits for it to vote."""
        if not self._is_calm() or not self._is_whole():
            return False
        if machine.node_id in self._cluster.voters and not self.controllers_are_whole():
            return False
        return self._cluster.checker.can_do_without(machine.node_id)

    def _is_calm(self) -> bool:
        """Whether everybody is known to be up, and the last one that was struck has started anew since."""
        if self._suspect is not None:
            return False
        machines = self._cluster.machines.values()
        return all(
            each.node is not None and each.node.ready and not each.wiped and not each.damaged
            for each in machines
        )

    def may_fail(self, machine: "BrokerMachine") -> bool:
        """Whether its disk may refuse to work: it counts as one that lost power, and what it had is lost
        where others have lost theirs.
        """
        return self._cluster.checker.bears_failing_disk(machine.node_id)

    def suspect(self, machine: "BrokerMachine") -> None:
        self._suspect = machine

    def looked_at(self) -> None:
        """The one that was struck has read its files, or has a new disk."""
        self._suspect = None

    def controllers_are_whole(self) -> bool:
        """Whether all controllers agree who votes, for good, and on which disks, and no disk may be replaced
        for its damage: nobody is taken out while another one may come back empty.
        """
        if self._suspect is not None:
            return False
        quorums = [machine.node.metadata for machine in self._cluster.machines.values() if machine.node]
        if len(quorums) < len(self._cluster.machines):
            return False
        voters = quorums[0].voters.latest
        if voters.returning or len(voters) < LEAST_VOTERS or not all(each.directory for each in voters):
            return False
        return all(quorum.voters.latest == voters and _is_settled(quorum) for quorum in quorums)


def _is_settled(quorum: MetadataQuorum) -> bool:
    committed = quorum.voters.history.latest_offset < quorum.hosted.replica.high_watermark
    counts = quorum.election.me not in quorum.voters.latest or quorum.election.is_voter
    return committed and counts and not quorum.voters.waiting
