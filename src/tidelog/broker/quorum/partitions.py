"""Partitions whose replicas elect their leader: opening, reports of elections, leadership transfer, voters.

The metadata contains the replicas of a partition, but the replicas know the leader first. The winner of an
election informs every broker and the active controller; the report to the controller is repeated until the
metadata contains it. Each broker returns the newest election that it knows to clients. So leaders are elected
and clients find them even while there is no active controller.
"""

import logging
from collections.abc import Callable
from typing import NamedTuple, cast
from uuid import UUID

import msgspec

from tidelog.broker.quorum.hand_over import HandOver
from tidelog.broker.quorum.voters import FORGOT, PartitionVoters, forgot, informed, loss_number
from tidelog.controller.image import ClusterImage, PartitionImage
from tidelog.controller.leader_assignment import InSyncProposal
from tidelog.controller.messages import ControllerAsk, InSyncAsk
from tidelog.controller.successions.steps import EPOCHS_AHEAD
from tidelog.errors import StorageError
from tidelog.log.storage import Storage
from tidelog.replication.attachments.voter import Elected
from tidelog.replication.ballot_book import BallotBook, PartitionBallots
from tidelog.replication.driver import ReplicaDriver
from tidelog.replication.election import Election
from tidelog.replication.host import Host
from tidelog.replication.messages import LeaderBegan, Peers
from tidelog.replication.replica import Role
from tidelog.replication.voter_file import DamagedVoters, VoterFile
from tidelog.replication.voters import VoterHistory, VoterSet
from tidelog.replication.votes import Ballot, Timing
from tidelog.services import Services
from tidelog.types import NO_BROKER

logger = logging.getLogger(__name__)

Key = tuple[UUID, int]

REPEAT_MS = 500
HEARD_MAX = 100_000  # elections of partitions without a replica here; clients can invent more
STEP_MS = 50
FIRST_STAND_MS = 250  # between the first elections of the replicas of a new partition


class ClusterPorts(NamedTuple):
    """The state of the cluster, and requests to its controllers."""

    image: Callable[[], ClusterImage]
    broker_epoch: Callable[[], int]  # of this node
    ask_controller: Callable[[ControllerAsk], None]


class QuorumPartitions:
    def __init__(
        self,
        host: Host,
        storage: Storage,
        directory: str,
        services: Services,
        peers: Peers,
        chance: Callable[[], float],
        timing: Timing,
        disk: UUID | None,
        cluster: ClusterPorts,
        *,
        written_survives: bool = False,
    ) -> None:
        """``directory``: the broker's data directory. ``disk``: its id, for a broker that has not voted yet.
        ``written_survives``: whether everything that the last process wrote has survived. Raises
        StorageError.
        """
        self._me = host.me
        self._host = host
        self._storage = storage
        self._services = services
        self._peers = peers
        self._chance = chance
        self._timing = timing
        self._book = BallotBook(storage, directory, services, disk, written_survives=written_survives)
        self._elected: dict[Key, Elected] = {}
        self._voters: dict[Key, PartitionVoters] = {}
        self._images: dict[Key, PartitionImage] = {}
        self._heard: dict[Key, tuple[int, int]] = {}  # (epoch, leader) of elections reported by other brokers
        self._untold: dict[Key, int] = {}  # Led here, but not in the metadata yet: when to report again.
        self._ahead: dict[
            Key, int
        ] = {}  # Voted in a higher epoch than the appointed one: when to report again.
        self._changing: dict[Key, None] = {}  # Led here, with pending changes of voters.
        self._lost: dict[Key, int] = {}  # Missing logs: the partition epoch in which that was found.
        self._noted: set[Key] = set()  # Those that this process has noted.
        self._hand_overs: dict[Key, HandOver] = {}
        self._leaderless: dict[UUID, set[int]] = {}  # replicas of this broker without a known leader
        self._stepped_ms = 0
        self._cluster = cluster

    # --- following the metadata -----------------------------------------------------------------------------

    def has(self, driver: ReplicaDriver) -> bool:
        """Whether the replica votes."""
        return _key(driver) in self._elected

    def assign(self, driver: ReplicaDriver, partition: PartitionImage) -> bool:
        """Apply the current metadata. Returns whether the replica starts to vote now. Raises StorageError if
        its earlier votes cannot be read.
        """
        key = _key(driver)
        driver.set_unclean_epoch(partition.unclean_epoch)
        known = self._images.get(key, partition)
        if key in self._elected and known.mode_epoch != partition.mode_epoch:
            # The partition was in another mode meanwhile, which this replica has missed.
            self.dissolve(driver)
        self._images[key] = partition
        begins = key not in self._elected
        if begins:
            self._found(driver, partition)
        else:
            self._hear(self._elected[key], partition)
        self._recall(driver)
        if driver.replica.role is Role.LEADER:
            self._look_after(driver)
        return begins

    def _hear(self, voter: Elected, partition: PartitionImage) -> None:
        """Follow the leader in the metadata, if that election is later than the one this voter knows."""
        election, epoch = voter.election, partition.leader_epoch
        voter.metadata_changed(epoch, partition.doubtful_epoch, informed(partition, self._me))
        if epoch > election.epoch or (epoch == election.epoch and election.leader == NO_BROKER):
            self._name_leader(voter, partition)

    def _name_leader(self, voter: Elected, partition: PartitionImage) -> None:
        if partition.leader not in (NO_BROKER, self._me):
            now_ms, epoch = self._services.uptime_ms(), partition.leader_epoch
            voter.elect(voter.election.leader_hinted(partition.leader, epoch, now_ms, certain=True))

    def _found(self, driver: ReplicaDriver, partition: PartitionImage) -> None:
        """The replica starts to vote: it was opened, or its partition changed to this mode."""
        key = _key(driver)
        replica, log = driver.replica, driver.log
        file = VoterFile(self._storage, log.directory, partition.mode_epoch)
        first = VoterSet.of(each for each in partition.replicas if each not in partition.adding)
        try:
            history = file.load() or VoterHistory(first)
        except DamagedVoters as error:
            history = VoterHistory(first)
            self._replace_damaged(key, file, history, partition, error)
        if history.cut(log.end_offset):
            file.save(history.entries)
        saved = self._book.of(key)
        if saved is None:
            self._book.log_begun()
            if _has_followed(driver, partition) and not self._book.is_lost(key):
                logger.error("%s: its votes are missing; it does not vote until it is readmitted", key)
                self._book.note_lost(key, partition.partition_epoch, lambda result: None)
        if self._book.is_lost(key):
            self._recall_noted(key, history.latest, partition)
        ballot = saved or Ballot()
        if partition.leader_epoch > ballot.epoch:
            # This replica has not voted in that epoch. Starting there keeps epochs increasing after a change
            # of mode.
            ballot = Ballot(partition.leader_epoch)
            # A replica may acknowledge records without ever voting. Each replica with records has a ballot.
            self._book.save(key, ballot, lambda result: None)
        # No leader was elected and this replica has not voted since the partition last changed to this mode.
        is_new = partition.leader_epoch == partition.mode_epoch and (
            saved is None or saved.epoch < partition.mode_epoch
        )
        unnumbered = self._has_unnumbered_loss(driver)
        election = Election(
            self._me,
            history.latest,
            ballot,
            self._timing,
            self._services.uptime_ms(),
            self._chance(),
            self._book.name,
            self._first_delay_ms(partition) if is_new else None,
            hearsay_max=EPOCHS_AHEAD // 2,
            forgot=unnumbered or forgot(partition, history.latest, self._me),
            loss=-1 if unnumbered else loss_number(partition, self._me),
        )
        ballots = PartitionBallots(self._book, key)
        voter = Elected(
            driver, election, ballots, notes_fetches=False,
            metadata_epoch=partition.leader_epoch, doubtful_epoch=partition.doubtful_epoch,
            informed=informed(partition, self._me),
        )  # fmt: skip
        driver.attach(voter)
        voters = PartitionVoters(
            driver, election, history, file, self._services, lambda: self._images[key],
            unconfessed=key in self._lost,
        )  # fmt: skip
        driver.attach(voters)
        self._voters[key], self._elected[key] = voters, voter
        election.set_needed(voters.is_needed())
        replica.admit_observers()
        driver.follow(max(ballot.epoch, replica.epoch), NO_BROKER, tuple(sorted(history.latest.ids)), -1)
        self._host.voting.add(driver)
        if not is_new:
            self._name_leader(voter, partition)

    def _recall_noted(self, key: Key, voters: VoterSet, partition: PartitionImage) -> None:
        """An earlier process noted a loss. If the log has a readmission for a later one, it was healed and
        that process did not hear of it. Reported again, it would cost a complete replica its vote. Loss
        numbers in the metadata do not count here: the registration of this process may have added one for
        its unsynced records, which says nothing about this loss.
        """
        since, mine = self._book.lost_since(key), voters.get(self._me)
        if 0 <= since < (-1 if mine is None else mine.heals):
            self._lost.pop(key, None)
            self._book.confessed(key)
        else:
            self._lost.setdefault(key, partition.partition_epoch)

    def _has_unnumbered_loss(self, driver: ReplicaDriver) -> bool:
        """Whether the replica lost data, and the number of its latest loss in the metadata is not of that."""
        return driver.damage.is_cut or _key(driver) in self._lost

    def _replace_damaged(
        self,
        key: Key,
        file: VoterFile,
        history: VoterHistory,
        partition: PartitionImage,
        error: DamagedVoters,
    ) -> None:
        """The voter set is unknown, and the metadata may be out of date. So this counts as a loss: the
        replica votes again after a leader has readmitted it, and its log is complete from there on. The
        damaged file is kept until the loss is recorded on disk, because it is the only evidence of the loss.
        """
        logger.error("%s: %s; it does not vote until it is readmitted", key, error.message)
        file.is_held = True

        def noted(result: object) -> None:
            if result is not None:
                return
            file.is_held = False
            try:
                file.save(history.entries)
            except StorageError as failed:
                logger.error("%s: %s", key, failed.message)

        self._book.note_lost(key, partition.partition_epoch, noted)

    def _first_delay_ms(self, partition: PartitionImage) -> int:
        """The previous leader, or else the first replica, starts the first election. The others wait longer,
        in case it does not.
        """
        first = partition.last_leader
        order = [first, *(each for each in partition.replicas if each != first)]
        return FIRST_STAND_MS * order.index(self._me)

    def _recall(self, driver: ReplicaDriver) -> None:
        key = _key(driver)
        since = self._lost.get(key)
        if since is not None:
            loss = self._images[key].loss_of(self._me)
            # The loss may have been numbered and healed before this replica got the metadata. Its own log
            # shows that: the set that heals the loss came after it, so everything acknowledged before is
            # there.
            if max(-1 if loss is None else loss.number, self._healed(key)) <= since:
                return  # The controllers have not numbered the loss yet.
            del self._lost[key]
            self._voters[key].loss_numbered()
            self._book.confessed(key)
        self._voters[key].recall()

    def _healed(self, key: Key) -> int:
        """The latest loss for which this replica was readmitted, according to its own log; -1: none."""
        mine = self._voters[key].latest.get(self._me)
        return -1 if mine is None else mine.heals

    # --- missing logs ---------------------------------------------------------------------------------------

    def has_voted(self, key: Key) -> bool:
        """Whether the replica has voted, or followed an elected leader: then it had a log."""
        return self._book.of(key) is not None

    def is_lost(self, key: Key) -> bool:
        """Whether the log was missing and the controllers have not numbered the loss yet."""
        return self._book.is_lost(key)

    def has_noted(self, key: Key) -> bool:
        """Whether this process has noted that the log is missing. A note of an earlier process does not
        count: the log may be another one, and missing again.
        """
        return key in self._noted

    def note_drop(self, driver: ReplicaDriver, noted: Callable[[], None]) -> None:
        """A log is about to drop damaged records. For a voter, that is recorded first, because it could not
        be detected after a restart. From then on it counts as a loss.
        """
        key = _key(driver)
        if key not in self._elected:
            noted()  # The replica does not vote, and the controllers know of the damage.
            return
        self._voters[key].lost_records()
        # If its metadata is late, the replica may have been readmitted for an earlier loss meanwhile.
        since = self._lost[key] = max(self._images[key].partition_epoch, self._healed(key))
        self._book.note_lost(key, since, lambda result: noted())

    def note_missing(self, key: Key, partition: PartitionImage, noted: Callable[[], None]) -> None:
        """The log is missing. Calls back when that is on disk, or cannot be written: then this broker stops
        voting anyway.
        """
        self._noted.add(key)
        self._book.note_lost(key, partition.partition_epoch, lambda result: noted())

    def not_relied_on(self, key: Key) -> None:
        """The controllers appoint the leader, and do not rely on this replica: a leader of theirs lets it
        join again once it has caught up. A loss from the time when it voted needs no number any more. If it
        were reported when votes begin again, a complete replica would lose its vote.
        """
        self._lost.pop(key, None)
        self._book.confessed(key)

    def dissolve(self, driver: ReplicaDriver) -> None:
        """From now on the controllers name the leader. Does nothing if the replica has not voted."""
        if _key(driver) not in self._elected:
            return
        self.forget(driver)
        self._host.voting.remove(driver)
        driver.appoint()
        VoterFile(self._storage, driver.log.directory).remove()

    def outvoted(self, driver: ReplicaDriver, partition: PartitionImage) -> None:
        """The controllers name a leader in an epoch below one in which this replica has voted. That is
        reported until they use a higher epoch.
        """
        key = _key(driver)
        if key in self._elected:
            self._elected[key].metadata_changed(partition.leader_epoch, partition.doubtful_epoch)
            self._images[key] = partition
            self._ahead.setdefault(key, 0)

    def _tell_epoch(self, key: Key, now_ms: int) -> None:
        driver, partition = self._host.drivers[key], self._images[key]
        self._ahead[key] = now_ms + REPEAT_MS
        epoch, known = driver.replica.epoch, partition.partition_epoch
        proposal = InSyncProposal(
            self._me, self._cluster.broker_epoch(), key[0], key[1], epoch, known, (), elected=True
        )
        self._cluster.ask_controller(InSyncAsk(proposal))

    def retire(self) -> None:
        """This broker has no session any more. Clients would not find a leader here, so no replica of it
        leads or stands for election.
        """
        for voter in self._elected.values():
            voter.retire()

    def forget(self, driver: ReplicaDriver) -> None:
        """Forget a replica that is closed or no longer votes."""
        key = _key(driver)
        for known in (
            self._elected, self._voters, self._images, self._heard, self._untold, self._changing, self._ahead,
        ):  # fmt: skip
            cast("dict[Key, object]", known).pop(key, None)
        self._note_leader(key, self._me)
        hand_over = self._hand_overs.pop(key, None)
        if hand_over is not None:
            hand_over.stop()

    def gone(self, driver: ReplicaDriver) -> None:
        """Forget a replica together with its votes: the topic was deleted, or the replica was moved away."""
        self.forget(driver)
        self._lost.pop(_key(driver), None)  # The next replica of this partition here has lost nothing.
        self._noted.discard(_key(driver))
        self._book.forget(_key(driver))

    # --- who leads ------------------------------------------------------------------------------------------

    def began(self, began: LeaderBegan) -> None:
        """A leader was elected. For a partition without a replica here, this is the first information."""
        key = cast(Key, began.key)
        if key not in self._voters and began.epoch > self._heard.get(key, (-1, -1))[0]:
            if len(self._heard) >= HEARD_MAX and key not in self._heard:
                del self._heard[next(iter(self._heard))]
            self._heard[key] = (began.epoch, began.sender)

    def view(self, key: Key, partition: PartitionImage) -> PartitionImage:
        """The partition with the newest leader known to this broker."""
        epoch, leader = self._newest(key)
        if epoch < partition.leader_epoch:
            return partition
        # This broker knows whether it leads. It may have stepped down, and the metadata does not say so.
        if epoch == partition.leader_epoch and leader == NO_BROKER and partition.leader != self._me:
            return partition
        if (epoch, leader) == (partition.leader_epoch, partition.leader):
            return partition
        return msgspec.structs.replace(partition, leader=leader, leader_epoch=epoch)

    def _newest(self, key: Key) -> tuple[int, int]:
        driver = self._host.drivers.get(key)
        if driver is not None and key in self._elected:
            return driver.replica.epoch, driver.replica.leader
        return self._heard.get(key, (-1, NO_BROKER))

    def role_changed(self, driver: ReplicaDriver) -> None:
        key = _key(driver)
        if key not in self._voters:
            return
        self._note_leader(key, driver.replica.leader)
        if driver.replica.role is Role.LEADER:
            self._tell_brokers(driver)
            self._look_after(driver)
        else:
            self._untold.pop(key, None)
            self._changing.pop(key, None)
            hand_over = self._hand_overs.pop(key, None)
            if hand_over is not None:
                hand_over.stop()

    def _note_leader(self, key: Key, leader: int) -> None:
        topic_id, index = key
        if leader == NO_BROKER:
            self._leaderless.setdefault(topic_id, set()).add(index)
        elif topic_id in self._leaderless:
            self._leaderless[topic_id].discard(index)
            if not self._leaderless[topic_id]:
                del self._leaderless[topic_id]

    def awaits_leaders(self, topic_id: UUID) -> bool:
        """Whether a replica of this broker knows of no leader, so that an election may be in progress."""
        return topic_id in self._leaderless

    def _tell_brokers(self, driver: ReplicaDriver) -> None:
        """Voters know the leader from the election. All others would only learn it from the controllers."""
        voters = self._voters[_key(driver)].latest
        for broker in self._cluster.image().brokers.values():
            if broker.broker_id != self._me and broker.broker_id not in voters and not broker.fenced:
                self._peers.send(broker.broker_id, LeaderBegan(self._me, driver.key, driver.replica.epoch))

    # --- leading --------------------------------------------------------------------------------------------

    def _look_after(self, driver: ReplicaDriver) -> None:
        """Start the pending tasks of a leader: reports, changes of voters, transfer of leadership."""
        key = _key(driver)
        partition, voters = self._images[key], self._voters[key]
        if self._is_told(driver, partition, voters):
            self._untold.pop(key, None)
        elif key not in self._untold:
            self._untold[key] = 0
            self._services.soon(lambda: self._tell_controller(key))
        if not voters.is_done(partition):
            self._changing[key] = None
            self._elected[key].begin_voter_change()
        self._hand_over_to(driver, partition.heir)

    def _is_told(self, driver: ReplicaDriver, partition: PartitionImage, voters: PartitionVoters) -> bool:
        replica = driver.replica
        if (partition.leader, partition.leader_epoch) != (self._me, replica.epoch):
            return False
        if not voters.is_committed:
            return self._me in partition.remember  # The others are reported once it is committed.
        members = voters.members(partition)
        counted = {voter_id for voter_id, healed in members if healed != FORGOT}
        if partition.is_moving and {voter_id for voter_id, _ in members} == set(partition.target):
            return False
        if not voters.is_known(partition):
            return False
        return counted == partition.remember

    def _tell_controller(self, key: Key) -> None:
        driver = self._host.drivers.get(key)
        if driver is None or key not in self._untold or driver.replica.role is not Role.LEADER:
            return
        self._untold[key] = self._services.uptime_ms() + REPEAT_MS
        partition, voters, replica = self._images[key], self._voters[key], driver.replica
        if voters.is_committed:
            members = voters.members(partition)
        else:
            # An uncommitted voter set may be undone, so only the leader is reported. The entry NO_BROKER
            # marks the list as incomplete. The elected leader has everything that is committed.
            known = sorted({*partition.in_sync, *partition.eligible, self._me})
            members = (*((each, -1) for each in known), (NO_BROKER, FORGOT))
        proposal = InSyncProposal(
            self._me,
            self._cluster.broker_epoch(),
            key[0],
            key[1],
            replica.epoch,
            partition.partition_epoch,
            tuple(voter_id for voter_id, _ in members),
            tuple(healed for _, healed in members),
            elected=True,
        )
        self._cluster.ask_controller(InSyncAsk(proposal))

    def tick(self, now_ms: int) -> None:
        """Called periodically: continues pending reports and changes."""
        if now_ms - self._stepped_ms < STEP_MS:
            return
        self._stepped_ms = now_ms
        for key, due_ms in list(self._untold.items()):
            driver = self._host.drivers[key]
            if self._is_told(driver, self._images[key], self._voters[key]):
                del self._untold[key]
            elif due_ms <= now_ms:
                self._tell_controller(key)
        for key in [key for key in self._lost if key in self._voters]:
            self._recall(self._host.drivers[key])  # The log may show it before the metadata does.
        for key in [key for key, due_ms in self._ahead.items() if due_ms <= now_ms]:
            self._tell_epoch(key, now_ms)
        for key in list(self._changing):
            self._change_voters(key)

    def _change_voters(self, key: Key) -> None:
        driver, partition, voters = self._host.drivers[key], self._images[key], self._voters[key]
        if voters.is_done(partition):
            del self._changing[key]
            self._elected[key].end_voter_change()
            return
        self._host.voting.refresh(driver)
        voters.step(partition, self._cluster.image())
        heir = voters.heir(partition)
        if heir is not None:
            self._hand_over_to(driver, heir)
        if key not in self._untold and not self._is_told(driver, partition, voters):
            self._untold[key] = 0
            if not voters.is_known(partition):
                self._tell_controller(key)  # The next step waits for this.

    def _hand_over_to(self, driver: ReplicaDriver, heir: int) -> None:
        key = _key(driver)
        if heir in (NO_BROKER, self._me) or heir not in self._voters[key].latest:
            return
        under_way = self._hand_overs.get(key)
        if under_way is None or under_way.heir != heir:
            if under_way is not None:
                under_way.stop()
            hand_over = HandOver(driver, heir, self._services, self._peers)
            self._hand_overs[key] = hand_over
            hand_over.start()


def _has_followed(driver: ReplicaDriver, partition: PartitionImage) -> bool:
    """Whether the log has records of an elected leader: then the replica had a ballot."""
    entries = driver.log.epochs.entries
    return bool(entries) and entries[-1][0] > partition.mode_epoch


def _key(driver: ReplicaDriver) -> Key:
    return cast(Key, driver.key)
