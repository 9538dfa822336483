"""Changes of the voters of one partition, and whether this replica may vote. How voter sets are read from and
written to a log is in :mod:`tidelog.replication.attachments.voters`. Here they are also synced, and stored in
a file before they take effect.

====================== =======================================================================================
change                 when
====================== =======================================================================================
a voter is added       a reassignment adds it, it has all committed records, and the controllers know the
                       current set
a voter is removed     a reassignment removes it, and all replicas of the target vote; the leader itself is
                       removed last, after it has handed over to one that stays
a voter lost data      the controllers have numbered the loss, and recorded this leader's election: it is
                       removed and then, when that is committed and it has caught up, added with the number of
                       the loss (``heals``)
a voter was late       it has lost nothing: it is marked as healed when it has caught up
====================== =======================================================================================

Uses the target in the metadata and the log. How leaders are elected and reported is not its concern.
"""

import logging
from collections.abc import Callable, Iterator
from uuid import UUID

from tidelog.controller.image import ClusterImage, PartitionImage
from tidelog.controller.records import Loss
from tidelog.controller.successions.quorum import is_lone
from tidelog.errors import StorageError
from tidelog.protocol import batch as batches
from tidelog.replication.attachments.voters import LogVoters
from tidelog.replication.driver import ReplicaDriver
from tidelog.replication.election import Election
from tidelog.replication.replica import Role
from tidelog.replication.voter_file import VoterFile
from tidelog.replication.voters import Voter, VoterHistory, VoterSet, sets_in
from tidelog.services import Services

logger = logging.getLogger(__name__)

FORGOT = -2
_ATTRIBUTES = 22  # Position of the byte in a batch header that contains the control flag.


class PartitionVoters(LogVoters):
    """The voters of one partition, as one replica knows them."""

    def __init__(
        self,
        driver: ReplicaDriver,
        election: Election,
        history: VoterHistory,
        file: VoterFile,
        services: Services,
        partition: Callable[[], PartitionImage],
        *,
        unconfessed: bool = False,
    ) -> None:
        """``partition``: its current metadata. ``unconfessed``: its log was missing, and the controllers have
        not numbered the loss yet.
        """
        super().__init__(driver, election, history, services)
        self._me = driver.replica.me
        self._file = file
        self._partition = partition
        self._arriving: list[tuple[int, VoterSet]] = []
        self._unconfessed = unconfessed

    # --- following the log ----------------------------------------------------------------------------------

    def arriving(self, data: memoryview) -> None:
        """Voter sets are saved to the file before the log has them. A replica that had a set in its log but
        acted on an earlier one could form a majority with others that do not know the later set.
        """
        incomplete, self._arriving = bool(self._arriving), []  # The earlier ones could not be appended.
        began = self._partition().mode_epoch
        for start, end in _control_batches(data):
            # Sets from before the last change to this mode are ignored, as in the file.
            if batches.parse_leader_epoch(data, start) >= began:
                self._arriving += sets_in(data[start:end])
        if self._arriving or incomplete:
            self._file.save((*self.history.entries, *self._arriving))

    def arrived(self) -> None:
        """Sync voter sets before they take effect, whatever ``flush.messages`` is. If replicas lost sets in a
        power failure, their sets could differ by more than one voter, and they might never elect a leader.
        """
        if not self._arriving:
            return
        self._driver.sync_now()
        for offset, voters in self._arriving:
            self.history.appended(offset, voters)
            self._take_force()
        self._arriving.clear()
        self.recall()

    def lost_records(self) -> None:
        """The replica lacks records that it acknowledged: it does not vote before the controllers have
        numbered the loss and it is readmitted.
        """
        self._election.set_forgot(True)
        self._unconfessed = True

    def loss_numbered(self) -> None:
        """The controllers have numbered the loss. Call :meth:`recall` next."""
        self._unconfessed = False

    def recall(self) -> None:
        """Update whether this replica may vote: the metadata says so, or its own log shows that it was
        readmitted for its latest loss. Everything from before that is in the log.
        """
        partition, election = self._partition(), self._election
        if self._driver.replica.role is Role.LEADER:
            return  # An elected leader has all committed records, and reports that to the controllers.
        if (
            self._unconfessed
            or self._driver.damage.is_cut
            or (election.forgot and self._me in partition.damaged)
        ):
            return  # It has lost records, and the controllers have not numbered the loss yet.
        election.set_forgot(forgot(partition, self.latest, self._me), loss_number(partition, self._me))

    def cut(self, end_offset: int) -> None:
        self._arriving.clear()
        if self.history.cut(end_offset):
            self._save()
            self._take_force()
            self.recall()

    def skipped(self) -> None:
        """The replica has skipped records, perhaps with voter sets. Known gap: while voters change, the
        metadata does not contain the current set, and this replica uses an older one until the next arrives.
        """
        partition = self._partition()
        voters = VoterSet.of(partition.replicas)
        if not partition.is_moving and voters.ids != self.latest.ids:
            self.history.restart(voters)
            self._save()
            self._take_force()

    def _save(self) -> None:
        """Store the present sets. A voter that cannot do so neither votes nor leads: after a restart it could
        act on sets that are void.
        """
        try:
            self._file.save(self.history.entries)
        except StorageError as error:
            logger.error("%s: %s", self._driver.key, error.message)
            self._driver.voter.elect(self._election.retire())

    # --- leading --------------------------------------------------------------------------------------------

    def members(self, partition: PartitionImage) -> tuple[tuple[int, int], ...]:
        """(voter, loss) of every voter: the loss for which it was readmitted, -1 if there is none, and -2 if
        it does not count because it was not readmitted for its latest loss.
        """
        return tuple(_members(self.latest, partition, self._me))

    def is_known(self, partition: PartitionImage) -> bool:
        """Whether the metadata contains this set. Always true outside of a reassignment."""
        return not partition.is_moving or partition.known_voters == self.latest.ids

    def is_done(self, partition: PartitionImage) -> bool:
        """Whether the voters are those of the target, and all of them count."""
        return (
            not partition.is_moving
            and not self.latest.returning
            and partition.remember.issuperset(self.latest.ids)
            and self.latest.ids == set(partition.target)
        )

    def step(self, partition: PartitionImage, image: ClusterImage) -> None:
        """Write the next voter set towards the target, if that is possible now."""
        if not self.is_committed:
            return
        if self._me not in self.latest:
            self.step_down()
            return
        wanted = self._next(partition, image)
        if wanted is not None and self._could_decide(wanted):
            try:
                self._write(wanted)
            except StorageError as error:
                logger.error("%s: its voters cannot be changed: %s", self._driver.key, error.message)
                if self._driver.log.failure is not None:
                    self._driver.sync_failed(error)

    def _next(self, partition: PartitionImage, image: ClusterImage) -> VoterSet | None:
        latest, target = self.latest, partition.target
        for voter in latest.returning:
            if voter.voter_id in target and self._has_caught_up(voter.voter_id):
                return latest.including(self._fresh_voter(voter.voter_id, partition))
        forgotten = _forgotten(latest, partition, image, self._me) if self._is_recorded(partition) else []
        # First those that were only late: they need not be removed, and without them the leader may have no
        # other voters.
        for voter_id in sorted(forgotten, key=lambda each: not _is_late(partition, each)):
            if self._has_caught_up(voter_id):
                fresh = self._fresh_voter(voter_id, partition)
                late = _is_late(partition, voter_id)
                return latest.including(fresh) if late else latest.without(voter_id, fresh)
        # If an operator has to intervene, the controllers must know the voters.
        return self._next_of_move(partition) if self.is_known(partition) else None

    def _is_recorded(self, partition: PartitionImage) -> bool:
        """Whether the metadata contains this leader's election. Older metadata may name a loss of a voter
        that has led since, and so has everything. The controllers count that voter: if it were removed, they
        might refuse an operator although no leader can be elected.
        """
        return partition.leader_epoch >= self._driver.replica.epoch

    def _next_of_move(self, partition: PartitionImage) -> VoterSet | None:
        latest, target = self.latest, partition.target
        for voter_id in target:
            # Until it has confirmed its syncs, it may not know that it was removed before, and drop its log.
            heard = voter_id not in partition.unsynced
            if voter_id not in latest and heard and self._has_caught_up(voter_id):
                return latest.including(self._fresh_voter(voter_id, partition))
        if latest.ids.issuperset(target):
            for voter_id in sorted(latest.ids - set(target)):
                if voter_id != self._me:
                    return latest.without(voter_id)
        return None

    def heir(self, partition: PartitionImage) -> int | None:
        """The next leader, if this leader is the last replica that a reassignment removes."""
        if self.latest.ids - set(partition.target) != {self._me} or not self.is_committed:
            return None
        now_ms = self._services.uptime_ms()
        able = [
            voter_id
            for voter_id in partition.target
            if voter_id in self.latest and not self._election.is_silent(voter_id, now_ms)
        ]
        return able[0] if able else None

    def _fresh_voter(self, voter_id: int, partition: PartitionImage) -> Voter:
        """The voter with its latest loss. It may have lost data again since it was removed, but it has not
        voted since.
        """
        return Voter(voter_id, self._directory_of(voter_id), heals=loss_number(partition, voter_id))

    def _directory_of(self, voter_id: int) -> UUID | None:
        seen = self._driver.voter.seen.get(voter_id)
        return None if seen is None else seen.directory

    def _writing(self, offset: int, voters: VoterSet) -> None:
        self._file.save((*self.history.entries, (offset, voters)))

    def _written(self, offset: int, voters: VoterSet) -> None:
        self._driver.sync_now()
        self.history.appended(offset, voters)
        self._take_force()


def forgot(partition: PartitionImage, voters: VoterSet, replica: int) -> bool:
    """Whether a replica must not vote, because it may lack acknowledged records or its own votes.

    A replica that lost only an unsynced tail may vote without being readmitted, but only if such replicas are
    a majority of the voters. Then no leader could be elected to readmit them, and it is documented that such
    a power failure loses records. Of two voters (while the third is being readmitted) one may vote: no leader
    is elected without the other, which has lost nothing. A replica that came back empty or dropped damaged
    records must always be readmitted: the replicas that are down may have all records.

    A replica that was only behind when the partition changed to this mode has lost nothing that it
    acknowledged since, and votes. Records that were committed before are on a majority of the replicas, so
    every election includes a voter that has them and compares logs. The first replica that joins a lone voter
    votes as well. The set of two is in the log of the lone voter first. If that voter stops leading before
    the other has the set, only the other can elect it.

    A replica whose own log does not show its readmission yet may still vote for a candidate whose log does:
    see :class:`~tidelog.replication.election.Election`.
    """
    if replica in partition.remember:
        return False
    loss, mine = partition.loss_of(replica), voters.get(replica)
    if loss is None:
        return True
    if mine is not None and mine.heals == loss.number:
        return False
    if loss.late and (replica not in partition.adding or is_lone(partition)):
        return False
    tails = [each for each in partition.losses if _is_tail(each, voters)]
    enough = 2 * len(tails) > len(voters) or len(voters) == 2
    return loss not in tails or not enough


def loss_number(partition: PartitionImage, replica: int) -> int:
    """The number of a replica's latest loss; -1: it has none."""
    loss = partition.loss_of(replica)
    return -1 if loss is None else loss.number


def informed(partition: PartitionImage, replica: int) -> frozenset[int]:
    """For a replica that was behind when the partition changed to this mode: those that were not, and so have
    learned of every deletion that was acknowledged before. Empty for any other, and when it has caught up.
    """
    if not _is_late(partition, replica) or replica in partition.adding:
        return frozenset()
    others = set(partition.replicas).difference(partition.adding)
    return frozenset(each for each in others if not _is_late(partition, each))


def _is_late(partition: PartitionImage, replica: int) -> bool:
    loss = partition.loss_of(replica)
    return loss is not None and loss.late


def _is_tail(loss: Loss, voters: VoterSet) -> bool:
    voter = voters.get(loss.replica)
    return loss.tail and voter is not None and loss.base in (-1, voter.heals)


def _members(voters: VoterSet, partition: PartitionImage, leader: int) -> Iterator[tuple[int, int]]:
    for voter in voters:
        loss = partition.loss_of(voter.voter_id)
        if voter.voter_id in partition.remember or voter.voter_id == leader:
            yield voter.voter_id, -1  # An elected leader has all committed records.
        elif loss is not None and voter.heals == loss.number:
            yield voter.voter_id, loss.number
        else:
            yield voter.voter_id, FORGOT


def _forgotten(voters: VoterSet, partition: PartitionImage, image: ClusterImage, leader: int) -> list[int]:
    return [
        voter_id
        for voter_id, healed in _members(voters, partition, leader)
        if healed == FORGOT and voter_id in image.brokers and not image.brokers[voter_id].fenced
    ]


def _control_batches(data: memoryview) -> Iterator[tuple[int, int]]:
    """The positions of control batches. Other batches cost only two reads of their header."""
    position, end = 0, len(data)
    while position + batches.HEADER_SIZE <= end:
        _, size = batches.parse_prefix(data, position)
        if data[position + _ATTRIBUTES] & batches.CONTROL_MASK:
            yield position, position + size
        position += max(size, batches.HEADER_SIZE)  # The log refuses damaged batches.
