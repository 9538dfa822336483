"""Partitions whose replicas elect their leader: opened, told of, handed over, and given other voters.

The metadata says which replicas a partition has, but who leads is known first here. The winner of an election
tells every broker and the active controller, the latter again and again until the metadata says so too; and
whoever is asked for a leader answers with the newest election it has heard of. So elections go on, and
clients find their leaders, while no controller decides anything.
"""

import logging
from collections.abc import Callable
from typing import NamedTuple, cast
from uuid import UUID

import msgspec

from tidelog.broker.quorum.hand_over import HandOver
from tidelog.broker.quorum.voters import FORGOT, PartitionVoters, forgot
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
STEP_MS = 50
FIRST_STAND_MS = 250  # between one replica of a new partition and the next


class ClusterPorts(NamedTuple):
    """What only the cluster knows, and the way to its controllers."""

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
        """``directory``: of the broker's data; ``disk``: the id of what it lies on, for one that has not
        voted yet; ``written_survives``: whether all that the last process wrote is still there. Raises
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
        self._heard: dict[Key, tuple[int, int]] = {}  # (epoch, leader) of elections that others told us of
        self._untold: dict[Key, int] = {}  # Led here, and the metadata does not say so: when to tell again.
        self._ahead: dict[Key, int] = {}  # Voted in a higher epoch than was named: when to tell again.
        self._changing: dict[Key, None] = {}  # Led here, and voters are to come or go.
        self._lost: dict[Key, int] = {}  # Logs that were gone: the partition epoch in which that was found.
        self._hand_overs: dict[Key, HandOver] = {}
        self._leaderless: dict[UUID, set[int]] = {}  # of our replicas, those that know no leader
        self._stepped_ms = 0
        self._cluster = cluster

    # --- following the metadata -----------------------------------------------------------------------------

    def has(self, driver: ReplicaDriver) -> bool:
        """Whether it votes."""
        return _key(driver) in self._elected

    def assign(self, driver: ReplicaDriver, partition: PartitionImage) -> bool:
        """What the metadata says now. Whether the replica begins to vote with that. Raises StorageError where
        it cannot know how it voted.
        """
        key = _key(driver)
        driver.unclean_epoch = partition.unclean_epoch
        known = self._images.get(key, partition)
        if key in self._elected and known.mode_epoch != partition.mode_epoch:
            # The controllers named its leaders for a while, and this replica has slept through it.
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
        """Who leads, if the controllers know of a later election than this voter."""
        election, epoch = voter.election, partition.leader_epoch
        voter.doubtful_epoch, voter.named_epoch = partition.doubtful_epoch, epoch
        if epoch > election.epoch or (epoch == election.epoch and election.leader == NO_BROKER):
            self._name_leader(voter, partition)

    def _name_leader(self, voter: Elected, partition: PartitionImage) -> None:
        if partition.leader not in (NO_BROKER, self._me):
            now_ms, epoch = self._services.uptime_ms(), partition.leader_epoch
            voter.elect(voter.election.leader_named(partition.leader, epoch, now_ms, sure=True))

    def _found(self, driver: ReplicaDriver, partition: PartitionImage) -> None:
        """The replica begins to vote: it was opened, or was replicated in another way until now."""
        key = _key(driver)
        replica, log = driver.replica, driver.log
        file = VoterFile(self._storage, log.directory, partition.mode_epoch)
        first = VoterSet.of(each for each in partition.replicas if each not in partition.adding)
        try:
            history = file.load() or VoterHistory(first)
        except DamagedVoters as error:
            history = VoterHistory(first)
            self._replace_damaged(key, file, history, error)
        if history.cut(log.end_offset):
            file.save(history.entries)
        saved = self._book.of(key)
        if saved is None:
            self._book.log_begun()
            if _has_followed(driver, partition) and not self._book.is_lost(key):
                logger.error("%s: its votes are gone; it does not vote before it was readmitted", key)
                self._book.note_lost(key, lambda result: None)
        if self._book.is_lost(key):
            self._lost.setdefault(key, partition.partition_epoch)
        ballot = saved or Ballot()
        if partition.leader_epoch > ballot.epoch:
            # Nobody has voted in it here; to begin there keeps epochs rising where another mode left off.
            ballot = Ballot(partition.leader_epoch)
            # It may acknowledge records without ever voting: whoever has held any has a ballot.
            self._book.save(key, ballot, lambda result: None)
        # Of this time of votes, there may have been others: nobody here has voted yet.
        is_new = partition.leader_epoch == partition.mode_epoch and (
            saved is None or saved.epoch < partition.mode_epoch
        )
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
            forgot=driver.damage.is_cut or key in self._lost or forgot(partition, history.latest, self._me),
        )
        ballots = PartitionBallots(self._book, key)
        voter = Elected(driver, election, ballots, doubtful_epoch=partition.doubtful_epoch)
        voter.named_epoch = partition.leader_epoch
        voter.notes_fetches = False
        driver.attach(voter)
        voters = PartitionVoters(driver, election, history, file, self._services, lambda: self._images[key])
        voters.unconfessed = key in self._lost
        driver.attach(voters)
        self._voters[key], self._elected[key] = voters, voter
        election.set_needed(voters.is_needed())
        replica.admit_observers()
        driver.follow(max(ballot.epoch, replica.epoch), NO_BROKER, tuple(sorted(history.latest.ids)), -1)
        self._host.voting.add(driver, voter)
        if not is_new:
            self._name_leader(voter, partition)

    def _replace_damaged(
        self, key: Key, file: VoterFile, history: VoterHistory, error: DamagedVoters
    ) -> None:
        """Who voted last is not known here, and the metadata may be behind. So it counts as a loss: the
        replica votes again when a leader has readmitted it, and what the log says from there on is whole. The
        damaged file stays until the loss is on disk: it is the only trace of it.
        """
        logger.error("%s: %s; it does not vote before it was readmitted", key, error.message)
        file.is_held = True

        def noted(result: object) -> None:
            if result is not None:
                return
            file.is_held = False
            try:
                file.save(history.entries)
            except StorageError as failed:
                logger.error("%s: %s", key, failed.message)

        self._book.note_lost(key, noted)

    def _first_delay_ms(self, partition: PartitionImage) -> int:
        """The one that led before, else the first replica, stands first; the others only if it does not."""
        first = partition.last_leader
        order = [first, *(each for each in partition.replicas if each != first)]
        return FIRST_STAND_MS * order.index(self._me)

    def _recall(self, driver: ReplicaDriver) -> None:
        key = _key(driver)
        since = self._lost.get(key)
        if since is not None:
            loss = self._images[key].loss_of(self._me)
            # It may have been numbered and healed before we heard of either. Our own log shows that: the set
            # that heals it came after the loss, and so all is there that was acknowledged before.
            if max(-1 if loss is None else loss.number, self._healed(key)) <= since:
                return  # The controllers do not know yet.
            del self._lost[key]
            self._voters[key].unconfessed = False
            self._book.confessed(key)
        self._voters[key].recall()

    def _healed(self, key: Key) -> int:
        """The latest loss for which our own log says that we were readmitted; -1: none."""
        mine = self._voters[key].latest.get(self._me)
        return -1 if mine is None else mine.heals

    # --- logs that are gone ---------------------------------------------------------------------------------

    def has_voted(self, key: Key) -> bool:
        """Or followed somebody who was elected: then there was a log."""
        return self._book.of(key) is not None

    def is_lost(self, key: Key) -> bool:
        """Whether the log was gone, and the controllers have not numbered the loss."""
        return self._book.is_lost(key)

    def note_drop(self, driver: ReplicaDriver, noted: Callable[[], None]) -> None:
        """A log is about to drop damaged records. Where it votes, that is noted first: after a restart nobody
        could tell any more. It is lost from there on.
        """
        key = _key(driver)
        if key not in self._elected:
            noted()  # It does not vote: the controllers know.
            return
        self._elected[key].election.set_forgot(True)
        self._voters[key].unconfessed = True
        # Who hears late of the metadata may have been readmitted for an earlier loss in between.
        self._lost[key] = max(self._images[key].partition_epoch, self._healed(key))
        self.note_lost(key, noted)

    def note_lost(self, key: Key, noted: Callable[[], None]) -> None:
        """Calls back when it is on disk, or cannot be: this broker then votes no more anyway."""
        self._book.note_lost(key, lambda result: noted())

    def dissolve(self, driver: ReplicaDriver) -> None:
        """The controllers name the leader from now on, if the replica has voted until now."""
        if _key(driver) not in self._elected:
            return
        self.forget(driver)
        self._host.voting.remove(driver)
        driver.appoint()
        VoterFile(self._storage, driver.log.directory).remove()

    def outvoted(self, driver: ReplicaDriver, partition: PartitionImage) -> None:
        """The controllers name the leader, but in an epoch below one that was voted in here: they are told so
        until they have gone above it.
        """
        key = _key(driver)
        if key in self._elected:
            self._elected[key].doubtful_epoch = partition.doubtful_epoch
            self._elected[key].named_epoch = partition.leader_epoch
            self._images[key] = partition
            self._ahead.setdefault(key, 0)

    def _tell_epoch(self, key: Key, now_ms: int) -> None:
        driver, partition = self._host.drivers[key], self._images[key]
        self._ahead[key] = now_ms + REPEAT_MS
        epoch, known = driver.replica.epoch, partition.partition_epoch
        wish = InSyncProposal(
            self._me, self._cluster.broker_epoch(), key[0], key[1], epoch, known, (), elected=True
        )
        self._cluster.ask_controller(InSyncAsk(wish))

    def forget(self, driver: ReplicaDriver) -> None:
        """The replica goes away."""
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
        """And with it how it voted: its topic is deleted, or it has been moved."""
        self.forget(driver)
        self._book.forget(_key(driver))

    # --- who leads ------------------------------------------------------------------------------------------

    def began(self, began: LeaderBegan) -> None:
        """Somebody was elected. Where we have no replica ourselves, this is all we hear of it in time."""
        key = cast(Key, began.key)
        if key not in self._voters and began.epoch > self._heard.get(key, (-1, -1))[0]:
            self._heard[key] = (began.epoch, began.sender)

    def view(self, key: Key, partition: PartitionImage) -> PartitionImage:
        """The partition with the newest leader that is known here."""
        epoch, leader = self._newest(key)
        if epoch < partition.leader_epoch or (epoch == partition.leader_epoch and leader == NO_BROKER):
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
        """Whether an election is under way as far as our replicas know."""
        return topic_id in self._leaderless

    def _tell_brokers(self, driver: ReplicaDriver) -> None:
        """Voters hear of it by the election; all others would only from the controllers."""
        voters = self._voters[_key(driver)].latest
        for broker in self._cluster.image().brokers.values():
            if broker.broker_id != self._me and broker.broker_id not in voters and not broker.fenced:
                self._peers.send(broker.broker_id, LeaderBegan(self._me, driver.key, driver.replica.epoch))

    # --- leading --------------------------------------------------------------------------------------------

    def _look_after(self, driver: ReplicaDriver) -> None:
        """What a leader has to do that is not done."""
        key = _key(driver)
        partition, voters = self._images[key], self._voters[key]
        if self._is_told(driver, partition, voters):
            self._untold.pop(key, None)
        elif key not in self._untold:
            self._untold[key] = 0
            self._services.soon(lambda: self._tell_controller(key))
        if not voters.is_done(partition):
            self._changing[key] = None
            driver.voter.notes_fetches = True
        self._hand_over_to(driver, partition.heir)

    def _is_told(self, driver: ReplicaDriver, partition: PartitionImage, voters: PartitionVoters) -> bool:
        replica = driver.replica
        if (partition.leader, partition.leader_epoch) != (self._me, replica.epoch):
            return False
        if not voters.is_committed:
            return self._me in partition.remember  # The others are told of when it is.
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
            # A set that may be taken back is not told, only who leads. That it is not a whole set shows by
            # somebody in it who does not exist. Who was elected holds everything, settled or not.
            known = sorted({*partition.in_sync, *partition.eligible, self._me})
            members = (*((each, -1) for each in known), (NO_BROKER, FORGOT))
        wish = InSyncProposal(
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
        self._cluster.ask_controller(InSyncAsk(wish))

    def tick(self, now_ms: int) -> None:
        """Now and then: go on with what is not done."""
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
            self._recall(self._host.drivers[key])  # The log may tell what the metadata told before.
        for key in [key for key, due_ms in self._ahead.items() if due_ms <= now_ms]:
            self._tell_epoch(key, now_ms)
        for key in list(self._changing):
            self._change_voters(key)

    def _change_voters(self, key: Key) -> None:
        driver, partition, voters = self._host.drivers[key], self._images[key], self._voters[key]
        if voters.is_done(partition):
            del self._changing[key]
            driver.voter.notes_fetches = False
            driver.voter.seen.clear()  # What is noted no more says nothing when voters change again.
            return
        self._host.voting.refresh(driver)
        voters.step(partition, self._cluster.image())
        heir = voters.heir(partition)
        if heir is not None:
            self._hand_over_to(driver, heir)
        if key not in self._untold and not self._is_told(driver, partition, voters):
            self._untold[key] = 0
            if not voters.is_known(partition):
                self._tell_controller(key)  # The next step waits for it.

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
    """Whether the log holds what a leader wrote who was elected: then its replica has had a ballot."""
    entries = driver.log.epochs.entries
    return bool(entries) and entries[-1][0] > partition.mode_epoch


def _key(driver: ReplicaDriver) -> Key:
    return cast(Key, driver.key)
