"""What changes who votes on one partition, and what this replica may say meanwhile. How sets of voters are
followed and written is in :mod:`tidelog.replication.attachments.voters`; here they are synced, and in a file,
before they count.

====================== =======================================================================================
change                 when
====================== =======================================================================================
a new replica votes    a reassignment brings it, it holds everything that is committed, and the controllers
                       know the set so far
a replica votes no     a reassignment takes it away, and every replica of the target votes; the leader itself
more                   goes last, and hands over to one that stays
a replica lost data    the controllers have numbered the loss: first it is removed, then, when that is
                       committed and it has caught up, it is added with the number of the loss it heals
a replica was late     it has lost nothing: it goes on as one that is healed, when it has caught up
====================== =======================================================================================

Knows the wish (the partition as the metadata has it) and the log; not how leaders are found or told of.
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
_ATTRIBUTES = 22  # Where in a batch's header the byte lies that says whether it is a control batch.


class PartitionVoters(LogVoters):
    """Of one replica."""

    def __init__(
        self,
        driver: ReplicaDriver,
        election: Election,
        history: VoterHistory,
        file: VoterFile,
        services: Services,
        partition: Callable[[], PartitionImage],
    ) -> None:
        """``partition``: as the metadata has it."""
        super().__init__(driver, election, history, services)
        self._me = driver.replica.me
        self._file = file
        self._partition = partition
        self._arriving: list[tuple[int, VoterSet]] = []
        self.unconfessed = False  # Its log was gone, and the controllers have not numbered that yet.

    # --- following the log ----------------------------------------------------------------------------------

    def arriving(self, data: memoryview) -> None:
        """Sets are on disk before the log has them: a replica that had a set in its log and acted on an
        earlier one could make a majority with others that have not heard of the later one.
        """
        unsure, self._arriving = bool(self._arriving), []  # Those before could not be appended.
        began = self._partition().mode_epoch
        for start, end in _control_batches(data):
            # Sets of an earlier time of votes say nothing, as in the file.
            if batches.parse_leader_epoch(data, start) >= began:
                self._arriving += sets_in(data[start:end])
        if self._arriving or unsure:
            self._file.save((*self.history.entries, *self._arriving))

    def arrived(self) -> None:
        """Synced before they count, whatever ``flush.messages`` says: replicas that forget in a power failure
        who votes could come to differ by more than one voter, and then never agree on a leader.
        """
        if not self._arriving:
            return
        self._driver.sync_now()
        for offset, voters in self._arriving:
            self.history.appended(offset, voters)
            self._take_force()
        self._arriving.clear()
        self.recall()

    def recall(self) -> None:
        """Whether this replica remembers: the metadata says so, or its own log shows that it was readmitted
        for its latest loss, and all that came before is in that log.
        """
        partition, election = self._partition(), self._election
        if self._driver.replica.role is Role.LEADER:
            return  # It holds all that was ever committed; who was elected tells the controllers so.
        if (
            self.unconfessed
            or self._driver.damage.is_cut
            or (election.forgot and self._me in partition.damaged)
        ):
            return  # It has lost records, and the controllers have not numbered that yet.
        election.set_forgot(forgot(partition, self.latest, self._me))

    def cut(self, end_offset: int) -> None:
        self._arriving.clear()
        if self.history.cut(end_offset):
            try:
                self._file.save(self.history.entries)
            except StorageError as error:
                logger.error("%s: %s", self._driver.key, error.message)
                self._election.retire()
            self._take_force()
            self.recall()

    def skipped(self) -> None:
        """Sets may have come in between. Known gap: while voters change, the metadata does not tell which set
        is in force, and this replica goes on with an older one until the next comes.
        """
        partition = self._partition()
        voters = VoterSet.of(partition.replicas)
        if not partition.is_moving and voters.ids != self.latest.ids:
            self.history.restart(voters)
            self._file.save(self.history.entries)
            self._take_force()

    # --- leading --------------------------------------------------------------------------------------------

    def members(self, partition: PartitionImage) -> tuple[tuple[int, int], ...]:
        """(voter, loss) of every voter: the loss for which it was readmitted, -1 where there is none, and -2
        where it does not count because it was not readmitted for its latest one.
        """
        return tuple(_members(self.latest, partition, self._me))

    def is_known(self, partition: PartitionImage) -> bool:
        """Whether the metadata names this set, as it does while replicas are moved."""
        return not partition.is_moving or partition.known_voters == self.latest.ids

    def is_done(self, partition: PartitionImage) -> bool:
        """Whether the voters are as the metadata wants them."""
        return (
            not partition.is_moving
            and not self.latest.returning
            and partition.remember.issuperset(self.latest.ids)
            and self.latest.ids == set(partition.target)
        )

    def step(self, partition: PartitionImage, image: ClusterImage) -> None:
        """Go one step towards what the metadata wants, if its time has come."""
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
                return latest.including(self._anew(voter.voter_id, partition))
        forgotten = _forgotten(latest, partition, image, self._me)
        # First those that are only late: they need not be removed, and without them the leader may have
        # nobody left who votes for it.
        for voter_id in sorted(forgotten, key=lambda each: not _is_late(partition, each)):
            if self._has_caught_up(voter_id):
                anew = self._anew(voter_id, partition)
                late = _is_late(partition, voter_id)
                return latest.including(anew) if late else latest.without(voter_id, anew)
        # An operator who has to decide needs controllers that know who votes.
        return self._next_of_move(partition) if self.is_known(partition) else None

    def _next_of_move(self, partition: PartitionImage) -> VoterSet | None:
        latest, target = self.latest, partition.target
        for voter_id in target:
            # Before it has confirmed its syncs, it may not have heard that it was gone, and drop its log.
            heard = voter_id not in partition.unsynced
            if voter_id not in latest and heard and self._has_caught_up(voter_id):
                return latest.including(self._anew(voter_id, partition))
        if latest.ids.issuperset(target):
            for voter_id in sorted(latest.ids - set(target)):
                if voter_id != self._me:
                    return latest.without(voter_id)
        return None

    def heir(self, partition: PartitionImage) -> int | None:
        """Who leads on, when this leader is the last one that a reassignment takes away."""
        if self.latest.ids - set(partition.target) != {self._me} or not self.is_committed:
            return None
        now_ms = self._services.uptime_ms()
        able = [
            voter_id
            for voter_id in partition.target
            if voter_id in self.latest and not self._election.is_silent(voter_id, now_ms)
        ]
        return able[0] if able else None

    def _anew(self, voter_id: int, partition: PartitionImage) -> Voter:
        """As it is now: it may have lost something once more since it was removed, but was no voter since."""
        loss = partition.loss_of(voter_id)
        return Voter(voter_id, self._directory_of(voter_id), heals=-1 if loss is None else loss.number)

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
    """Whether a replica must not vote, because it may lack what it acknowledged or not know how it voted.

    Only those that lost no more than an unsynced tail may vote again without a leader's word, and only where
    they are a majority of the voters: nobody is left then who could readmit them, and that such a power
    failure costs records is documented. Of two voters (the third is being readmitted) one may: nobody is
    elected without the other, which remembers. Who came back empty or dropped damaged records never votes
    again so: the replicas that are away may hold all of it.

    Who was only behind when votes began has forgotten nothing that it said since, and votes. What was
    committed before is held by a majority of the replicas, so somebody who holds it compares in every
    election. The first replica that comes to a lone voter votes as well: the set of two is in that voter's
    log first, and if it stops leading before the other has the set, nobody else can elect it.
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
            yield voter.voter_id, -1  # Who was elected holds everything that was ever committed.
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
    """Where the control batches among these lie. All others cost two looks at their header."""
    position, end = 0, len(data)
    while position + batches.HEADER_SIZE <= end:
        _, size = batches.parse_prefix(data, position)
        if data[position + _ATTRIBUTES] & batches.CONTROL_MASK:
            yield position, position + size
        position += max(size, batches.HEADER_SIZE)  # What is damaged is refused by the log.
