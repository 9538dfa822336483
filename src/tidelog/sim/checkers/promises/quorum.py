"""``quorum``: what its voters may lose.

================================================ =============================================================
fault                                            an acknowledged record may be lost
================================================ =============================================================
brokers killed, frozen, disconnected, any number never
power lost, in any number, ``flush.messages=1``  never: what a majority acknowledged is on a majority's disks
power lost, ``flush.messages`` above 1           when a majority has lost the unsynced ends of its logs before
                                                 it could catch up; a minority does not vote until it has
disks replaced or damaged, in any number         never by itself: a replica that returned empty or truncated
                                                 records does not vote until it is readmitted; without a
                                                 majority of intact voters there is no leader
an operator chooses a remaining log              from where that log ends (in the seeds: only if the replicas
                                                 that lost nothing are no majority)
================================================ =============================================================
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import cast

from tidelog.controller.image import PartitionImage
from tidelog.replication.attachments.voters import LogVoters
from tidelog.replication.driver import ReplicaDriver
from tidelog.replication.replica import Role
from tidelog.sim.checkers.promises.losses import trusted
from tidelog.sim.checkers.promises.place import Key, Place
from tidelog.sim.checkers.promises.promise import Promise, Surroundings
from tidelog.sim.checkers.violation import Violation
from tidelog.sim.checkers.votes import elects_itself


class QuorumPromise(Promise):
    flush_default = "1"

    def __init__(self, around: Surroundings) -> None:
        super().__init__(around)
        self._judged: dict[Key, tuple[dict[int, int], int]] = {}  # who lost what, at which loss
        self._founders: dict[tuple[Key, int], frozenset[int]] = {}  # the first voters, since that epoch
        # Since that epoch: who was complete at some time, and so can have lost no more than its tail.
        self._complete: dict[tuple[Key, int], set[int]] = {}

    def is_whole(self, place: Place) -> bool:
        partition = place.partition
        return (
            partition.leader >= 0
            and set(partition.in_sync) == set(partition.replicas)
            and not partition.is_moving
        )

    def can_do_without(self, place: Place, node: int) -> bool:
        return self.is_whole(place)

    def bears(self, place: Place, node: int) -> bool:
        """If voters do not sync, a minority of them may lose data at a time, and nothing is lost. A replica
        that was not readmitted yet, or is added by a move, counts as little.
        """
        return self.is_synced(place, node) or self.bears_failing_disk(place, node)

    def bears_failing_disk(self, place: Place, node: int) -> bool:
        strangers = set(place.partition.replicas) - trusted(place.partition)
        losses, key = self._around.losses, place.key
        return not self._is_majority(
            place, {*losses.of(key), *losses.failed_writes.nodes(key), *strangers, node}
        )

    def can_elect(self, place: Place) -> bool:
        """A voter goes by the newest set in its own log, committed or not: a leader may have stopped before a
        majority of that set knew of it. Of a replica that does not run, neither set nor log is known.
        """
        return self._elects(place, self._around.losses.real(place.key).keys())

    def _elects(self, place: Place, lost: AbstractSet[int]) -> bool:
        """The same without the votes of those that ``lost`` something."""
        logs = {
            node.me: node.host.drivers[place.key]
            for node in self._around.nodes()
            if node.me not in lost and place.key in node.host.drivers
        }
        logs = {node: driver for node, driver in logs.items() if isinstance(driver.voters, LogVoters)}
        if any(_could_win(driver, logs, lost) for driver in logs.values()):
            return True
        all_known = logs.keys() >= set(place.partition.replicas) - lost
        return not all_known and self._is_majority(place, self._voters(place) - lost)

    def operator_decides(self, place: Place, replaced: AbstractSet[int]) -> bool:
        """There is no leader, and the replicas that lost nothing are no majority, or the controllers must
        think so.
        """
        # A leader that hears no majority steps down without reporting to the controllers.
        driver = [
            node.host.drivers[place.key] for node in self._around.nodes() if place.key in node.host.drivers
        ]
        led = any(each.replica.role is Role.LEADER for each in driver)
        return not led and (not self.can_elect(place) or self._are_presumed_lossy(place))

    def _are_presumed_lossy(self, place: Place) -> bool:
        """Voters lost power while they synced everything, and when the controllers heard of it, the topic did
        not require that any more: they count as having lost their tails, though nothing is missing. If such
        voters are a majority they vote, and nothing is left to an operator. One that was behind when votes
        began, and has never been complete since, does not vote then.
        """
        losses, key = self._around.losses, place.key
        presumed = losses.presumed(key) - trusted(place.partition)
        if not presumed:
            return False
        complete = self._complete.get((key, place.partition.mode_epoch), set())
        tails = (losses.tails(key).keys() | presumed) & complete
        return not self._is_majority(place, tails) and not self._elects(
            place, losses.real(key).keys() | presumed
        )

    # --- losses ---------------------------------------------------------------------------------------------

    def must_trust(self, place: Place) -> bool:
        """If a majority has lost its unsynced tails, they vote with what they have."""
        return self._is_majority(place, set(self._around.losses.tails(place.key)))

    def judge(self, place: Place) -> None:
        lost = self._around.losses.tails(place.key)
        now = lost, self._around.losses.count(place.key)
        if not self._is_majority(place, set(lost)) or self._judged.get(place.key) == now:
            return
        self._judged[place.key] = now
        floor = min(lost.values())
        self._around.note(f"{place.name}: a majority lost power, from {floor} on all may be gone")
        self._around.forgive(place, floor)

    def _is_majority(self, place: Place, nodes: AbstractSet[int]) -> bool:
        voters = self._voters(place)
        return 2 * len(nodes & voters) > len(voters)

    def _voters(self, place: Place) -> frozenset[int]:
        """Replicas that a move adds do not vote before a record in the log says so."""
        since = place.partition.mode_epoch
        founders = frozenset(place.partition.replicas) - set(place.partition.adding)
        founders = self._founders.setdefault((place.key, since), founders)
        return self._around.voters(place.key, since) or founders

    def described(self, place: Place) -> None:
        self._voters(place)
        self.passed(place, place.partition)

    def passed(self, place: Place, state: PartitionImage) -> None:
        if elects_itself(state):
            complete = self._complete.setdefault((place.key, state.mode_epoch), set())
            complete |= trusted(state)

    # --- leaders and commits --------------------------------------------------------------------------------

    def decided(self, place: Place, before: PartitionImage) -> None:
        """Only an operator may have chosen a remaining log."""
        partition = place.partition
        self._voters(place)
        if partition.unclean_epoch > before.unclean_epoch:
            if place.key not in self._around.may_be_forced:
                raise Violation(
                    f"{place.name}: goes on without a majority and without an operator's request: {partition}"
                )
            floor = self.kept_by(place.key, partition.leader)
            self._around.note(f"{place.name}: by force, from {floor} on all is given up")
            self._around.forgive(place, floor)

    def leads(self, place: Place, leader: ReplicaDriver) -> None:
        """The elected leader holds everything that was committed in earlier epochs. A replica that lost data
        and votes is detected here, before others truncate to the leader it helped to elect. A leader whose
        votes arrive late may lack what its successor has already committed: it commits nothing itself.
        """
        end = leader.log.end_offset
        committed = self._around.committed_before(place.key, leader.replica.epoch)
        if end < committed:
            raise Violation(
                f"{place.name}: all before {committed} is committed, and node {leader.replica.me}, which was "
                f"elected, holds {end}"
            )

    def committed(self, place: Place, leader: ReplicaDriver) -> None:
        """A majority of the voters has it. A voter that lost it after it acknowledged does not vote until it
        has it again.
        """
        voters = set(leader.replica.replicas)
        offset = leader.replica.high_watermark
        logs = {node.me: node.host.drivers.get(place.key) for node in self._around.nodes()}
        lost = self._around.losses.real(place.key).keys()
        lacking = {voter for voter in voters - lost if not self._holds(place, logs.get(voter), offset)}
        if 2 * len(lacking) >= len(voters):
            # Disks are read only where it matters.
            lacking = {voter for voter in lacking if self._on_disk(place, voter) < offset}
        if 2 * len(lacking) >= len(voters):
            raise Violation(
                f"{place.name}: broker {leader.replica.me} takes {offset} for committed, "
                f"and {sorted(lacking)} of {sorted(voters)} do not have it as they should"
            )

    def _holds(self, place: Place, driver: ReplicaDriver | None, offset: int) -> bool:
        """Whether a voter's process knows that it has everything before ``offset``, as durably as the topic
        requires. One that has just started does not know yet what its predecessor had synced and
        acknowledged.
        """
        if driver is None:
            return False
        synced = self.is_synced(place, driver.replica.me)
        return (driver.log.synced_end_offset if synced else driver.log.end_offset) >= offset

    def _on_disk(self, place: Place, voter: int) -> int:
        return self._around.held_on_disk(place, voter, synced=self.is_synced(place, voter))


def _could_win(candidate: ReplicaDriver, logs: Mapping[int, ReplicaDriver], lost: AbstractSet[int]) -> bool:
    """Whether a majority of the candidate's voters has lost nothing, and may have no more than it has."""
    voters = cast(LogVoters, candidate.voters).latest
    willing = {
        voter for voter in voters.ids - lost if voter not in logs or logs[voter].tail <= candidate.tail
    }
    return len(willing) >= voters.majority
