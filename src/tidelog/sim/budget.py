"""How many faults may occur at a time, derived from the modes' promises.

Faults that a mode tolerates may occur in any form and at any time; others may occur, too, and then the loss
must be one that its documentation lists (:mod:`tidelog.sim.checkers.promises`). Faults about which the
documentation says nothing do not occur: an operator does not replace a second disk before the first is
full again.

==================================== ========================================================================
fault                                when it may occur
==================================== ========================================================================
killed, frozen, disconnected, late,  at any time, in any number
slow, doubled, reordered, clocks
power lost                           at any time, in any number; of voters that do not sync, a minority (a
                                     majority that lost data waits for an operator)
disks that fail or are full          at any time; such a machine counts as one that lost power where the
                                     controllers know of it, or a failed sync has dropped records
a disk replaced                      while everything is complete, and everything on it has another copy; of a
                                     controller also only while all controllers agree on the voters
batches damaged                      while the rest of the cluster has everything that is on that replica
other files damaged                  as a replaced disk: a process that cannot read its files reports that
                                     and exits, and its disk is replaced
==================================== ========================================================================
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from tidelog.broker.metadata.quorum import MetadataQuorum

if TYPE_CHECKING:
    from tidelog.sim.cluster import BrokerMachine, SimCluster

LEAST_VOTERS = 3  # With fewer, one that is down leaves no majority.


class Budget:
    def __init__(self, cluster: "SimCluster", is_whole: Callable[[], bool]) -> None:
        self._cluster = cluster
        self._is_whole = is_whole  # whether nothing is missing according to the modes
        self._suspect: BrokerMachine | None = None  # its files may be damaged and were not read yet

    def may_lose_disk(self, machine: "BrokerMachine") -> bool:
        """Whether everything on its disk has another copy, and its vote is not needed."""
        if not self._is_calm() or not self._is_whole():
            return False
        if machine.node_id in self._cluster.voters and not self.controllers_are_whole():
            return False
        return self._cluster.checker.can_do_without(machine.node_id)

    def _is_calm(self) -> bool:
        """Whether all machines are up, and the last one with a fault has restarted since."""
        if self._suspect is not None:
            return False
        machines = self._cluster.machines.values()
        return all(
            each.node is not None and each.node.ready and not each.wiped and not each.damaged
            for each in machines
        )

    def may_fail(self, machine: "BrokerMachine") -> bool:
        """Whether its disk may fail: it counts as one that lost power, and its data is lost where others have
        lost theirs.
        """
        return self._cluster.checker.bears_failing_disk(machine.node_id)

    def suspect(self, machine: "BrokerMachine") -> None:
        self._suspect = machine

    def looked_at(self) -> None:
        """The one with the fault has read its files, or has a new disk."""
        self._suspect = None

    def controllers_are_whole(self) -> bool:
        """Whether all controllers agree on the committed voters and their disks, and no disk may be replaced
        for its damage: no voter is removed while another may return empty.
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
    committed = quorum.voters.history.latest_offset < quorum.driver.replica.high_watermark
    counts = quorum.election.me not in quorum.voters.latest or quorum.election.is_voter
    return committed and counts and not quorum.voters.pending
