"""All replicas of one node: fetch loops towards leaders, responses to followers, votes, the clock.

**Following** (:mod:`~tidelog.replication.fetching`): one loop per leader, whatever the number and modes of
the partitions. **Leading** (:mod:`~tidelog.replication.fetch_server`): one pending request per follower.

Only replicas that wait for something are ticked, so a thousand idle partitions cost nothing. There are no
sockets and no threads here: :class:`~tidelog.replication.messages.Peers` carries messages, and services tell
the time.
"""

from collections.abc import Callable
from typing import NamedTuple

from tidelog.errors import ErrorCode, InvariantViolation, StorageError
from tidelog.replication.attachments.restorer import Mandate, Restoring, tail_of
from tidelog.replication.attachments.successors import HEARD_WITHIN_MS
from tidelog.replication.driver import ReplicaDriver
from tidelog.replication.effects import ProposeInSync
from tidelog.replication.fetch_server import FetchServer
from tidelog.replication.fetching import FetchLoop
from tidelog.replication.messages import (
    FetchAsk,
    FetchGot,
    LeaderBegan,
    Message,
    PartitionKey,
    Peers,
    SnapshotAsk,
    SnapshotGot,
    StandNow,
    TailAsk,
    TailGot,
    VoteRequested,
    VoteResponded,
)
from tidelog.replication.replica import Role
from tidelog.replication.syncing import Syncer
from tidelog.replication.votes import RequestVote, RespondToVote, TellLeader
from tidelog.replication.voting import TICK_MS, Voting
from tidelog.services import Services, Timer, ignore
from tidelog.types import NO_BROKER

STALL_MS = 100  # A tick that is this late means that this process was stalled.
GENERATIONS = 1 << 30


Contradicted = Callable[[ReplicaDriver, int, InvariantViolation], None]
"""Receives a replica, the id of its leader, and how their logs contradict each other."""


def raise_contradiction(driver: ReplicaDriver, leader: int, error: InvariantViolation) -> None:
    """The default, for simulations: they must stop. A broker process stops only that replica."""
    raise error


def _unregistered(*_: object) -> int:
    return -1


class HostPorts(NamedTuple):
    """Callbacks with which the owner of a host learns of its replicas and provides what only the cluster
    knows.
    """

    broker_epoch: Callable[[], int] = _unregistered  # of this node
    # Epoch of a broker's registration, according to the controllers. Requests with an older one do not count.
    broker_epoch_of: Callable[[int], int] = _unregistered
    on_committed: Callable[[ReplicaDriver], None] = ignore
    on_role: Callable[[ReplicaDriver], None] = ignore
    on_proposal: Callable[[ReplicaDriver, ProposeInSync], None] = ignore
    on_failed: Callable[[ReplicaDriver, StorageError], None] = ignore
    on_damaged: Callable[[ReplicaDriver], None] = ignore
    on_contradiction: Contradicted = raise_contradiction


ALONE = HostPorts()
"""No callbacks and no registrations."""


class Host:
    def __init__(
        self,
        me: int,
        services: Services,
        peers: Peers,
        chance: Callable[[], float],
        ports: HostPorts = ALONE,
    ) -> None:
        self.me = me
        self._services = services
        self._peers = peers
        self._chance = chance
        self.drivers: dict[PartitionKey, ReplicaDriver] = {}
        self.syncer = Syncer(services)
        self.ports = ports
        self.fetch_server = FetchServer(me, self.drivers, services, peers, ports.broker_epoch_of)
        self._loops: dict[int, FetchLoop] = {}
        self.voting = Voting(me, self.drivers, self._loops, self.fetch_server, services, peers, chance)
        self._restless: dict[ReplicaDriver, None] = {}  # ticked until they are quiescent
        self._fetching_snapshots: list[ReplicaDriver] = []  # those that may fetch a snapshot
        self._ticker: Timer | None = None
        self._ticked_ms = 0
        self._stopped = False

    def start(self) -> None:
        self._ticked_ms = self._services.uptime_ms()
        self._services.soon(self._tick)  # A single voter elects itself at once.

    def stop(self) -> None:
        self._stopped = True
        if self._ticker is not None:
            self._ticker.cancel()
        for loop in self._loops.values():
            loop.stop()
        self.fetch_server.stop()

    def add(self, driver: ReplicaDriver) -> None:
        self.drivers[driver.key] = driver
        if driver.snapshots.stand_for_start:
            self._fetching_snapshots.append(driver)

    def remove(self, key: PartitionKey, error: ErrorCode) -> None:
        driver = self.drivers.pop(key)
        self.voting.remove(driver)
        self._restless.pop(driver, None)
        driver.stop(error)
        for loop in self._loops.values():
            loop.forget(driver)
        self.fetch_server.grown(driver)

    # --- the clock ------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        if self._stopped:
            return
        try:
            self._look(self._services.uptime_ms())
        finally:
            # Even after an exception in one replica: without ticks no replica would notice anything.
            self._ticker = self._services.later(TICK_MS, self._tick)

    def _look(self, now_ms: int) -> None:
        broken: Exception | None = None
        for driver in list(self._restless):
            try:
                effects = driver.replica.tick(now_ms)
                if effects:
                    driver.run(effects)
                if driver.replica.is_quiescent():
                    driver.restless = False
                    self._restless.pop(driver, None)
            except Exception as error:
                broken = broken or error  # Raised after the others were ticked.
        self._look_around(now_ms)
        if broken is not None:
            raise broken

    def _look_around(self, now_ms: int) -> None:
        stalled = now_ms - self._ticked_ms > TICK_MS + STALL_MS
        self._ticked_ms = now_ms
        if stalled:
            self.fetch_server.hurry(now_ms)
        self.voting.tick(now_ms, stalled=stalled)
        for driver in self._fetching_snapshots:
            if driver.snapshots.fetching and not driver.closed:
                driver.snapshots.tick(now_ms)
                self._resume_fetching(driver)
        self.fetch_server.tick(now_ms)
        for loop in list(self._loops.values()):
            loop.tick(now_ms)

    def is_followed_by(self, driver: ReplicaDriver, follower: int) -> bool:
        return self.fetch_server.is_followed_by(
            driver, follower, self._services.uptime_ms() - HEARD_WITHIN_MS
        )

    def followed_until_ms(self, driver: ReplicaDriver, follower: int) -> int:
        return self.fetch_server.followed_until_ms(driver, follower)

    def when_followed(
        self, driver: ReplicaDriver, followers: frozenset[int], then: Callable[[bool], None]
    ) -> None:
        self.fetch_server.when_followed(driver, followers, then)

    def wake(self, driver: ReplicaDriver) -> None:
        """Tick this replica until it is quiescent."""
        if not driver.restless:
            driver.restless = True
            driver.replica.stirred(self._services.uptime_ms())
            self._restless[driver] = None

    # --- messages -------------------------------------------------------------------------------------------

    def receive(self, message: Message) -> None:
        if self._stopped:
            return
        # Tested by type, not with a match statement: these arrive for every produce.
        if type(message) is FetchAsk:
            self.fetch_server.ask(message)
        elif type(message) is FetchGot:
            loop = self._loops.get(message.sender)
            if loop is not None:
                loop.answered(message, self._services.uptime_ms())
        else:
            self._receive_rare(message)

    def _receive_rare(self, message: Message) -> None:
        match message:
            case VoteRequested():
                self.voting.requested(message)
            case VoteResponded():
                self.voting.responded(message)
            case LeaderBegan():
                self.voting.began(message)
            case StandNow():
                self.voting.stand(message)
            case TailAsk(sender, key):
                self._peers.send(sender, tail_of(self.drivers.get(key), message, self.me))
            case TailGot(_, key):
                driver = self.drivers.get(key)
                if driver is not None:
                    driver.restorer.got(message)
            case SnapshotAsk():
                self.fetch_server.ask_snapshot(message)
            case SnapshotGot():
                self._snapshot_got(message)

    def restore(self, driver: ReplicaDriver, mandate: Mandate) -> None:
        """This replica is to lead, but may lack records that others hold."""
        if driver.restorer.renewed(mandate):
            return
        driver.end_restoring()
        driver.follow(mandate.epoch, NO_BROKER, mandate.replicas, mandate.partition_epoch)
        restoring = Restoring(driver, mandate, self._services, self._peers)
        driver.attach(restoring)
        restoring.start()

    def broker_restarted(self, broker: int) -> None:
        """It has registered again. Its next fetch request must be complete."""
        self.fetch_server.drop_session(broker)
        now_ms = self._services.uptime_ms()
        for driver in self.drivers.values():
            driver.follower_restarted(broker, now_ms)

    def leader_heard_ms(self, driver: ReplicaDriver, leader: int) -> int:
        """When a response of the leader that this replica follows arrived last."""
        return self.voting.leader_heard_ms(driver, leader)

    def peer_lost(self, peer: int) -> None:
        """The connection to a node closed: its process is probably dead."""
        self.voting.peer_lost(peer, self._services.uptime_ms())
        self.fetch_server.forget(peer)

    # --- ReplicaListener ------------------------------------------------------------------------------------

    def grown(self, driver: ReplicaDriver) -> None:
        if driver.replica.role is Role.LEADER:
            if not driver.restless:
                self.wake(driver)
            self.fetch_server.grown(driver)
        else:
            self._resume_fetching(driver)

    def committed(self, driver: ReplicaDriver) -> None:
        if driver.replica.role is Role.LEADER:
            self.fetch_server.committed(driver)
        self.ports.on_committed(driver)

    def role_changed(self, driver: ReplicaDriver) -> None:
        for loop in self._loops.values():
            loop.forget(driver)
        self.fetch_server.grown(driver)
        self._resume_fetching(driver)
        self.ports.on_role(driver)

    def _resume_fetching(self, driver: ReplicaDriver) -> None:
        replica = driver.replica
        if replica.role is not Role.FOLLOWER or replica.leader in (NO_BROKER, self.me):
            return
        loop = self._loops.get(replica.leader)
        if loop is None:
            loop = FetchLoop(
                self.me, replica.leader, self._services, self._peers, self.ports.broker_epoch,
                self.voting.leader_hinted, self.ports.on_contradiction, int(self._chance() * GENERATIONS) + 1,
            )  # fmt: skip
            self._loops[replica.leader] = loop
        loop.want(driver)

    def _snapshot_got(self, got: SnapshotGot) -> None:
        driver = self.drivers.get(got.key)
        if driver is None:
            return
        if driver.snapshots.got(got) and got.epoch == driver.replica.epoch:
            self.voting.leader_heard(driver, got.sender, got.epoch)
        elif got.error is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            self.voting.leader_hinted(driver, got.leader, got.epoch)
        self._resume_fetching(driver)

    def proposed(self, driver: ReplicaDriver, proposal: ProposeInSync) -> None:
        self.ports.on_proposal(driver, proposal)

    def election_moved(self, driver: ReplicaDriver) -> None:
        self.voting.moved(driver)

    def request_vote(self, driver: ReplicaDriver, effect: RequestVote) -> None:
        self._peers.send(effect.voter, VoteRequested(self.me, driver.key, effect.request))

    def respond_to_vote(self, driver: ReplicaDriver, effect: RespondToVote) -> None:
        response = effect.response._replace(start_offset=driver.log.start_offset)
        self._peers.send(effect.candidate, VoteResponded(self.me, driver.key, response))

    def tell_leader(self, driver: ReplicaDriver, effect: TellLeader) -> None:
        self._peers.send(effect.voter, LeaderBegan(self.me, driver.key, effect.epoch))

    def damaged(self, driver: ReplicaDriver) -> None:
        self.ports.on_damaged(driver)

    def failed(self, driver: ReplicaDriver, error: StorageError) -> None:
        self.ports.on_failed(driver, error)
