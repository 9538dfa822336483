"""A small node: the code of a real broker around one replica, with a thin driver instead of its edges.

Real: everything that decides. :class:`~tidelog.broker.node.node.Node` itself (proposals, metadata, retries),
the table of partitions, voting replicas and their voters, failed and repaired logs, seals and the replica.
Modelled: heartbeats and the metadata log (metadata is an image), the disk (:mod:`~tidelog.sim.explore.disk`),
and the loops that carry fetches: a request with its response is one step, in which the real server counts the
request and the real follower takes the response.
"""

from collections.abc import Callable
from typing import Any, ClassVar, TypeVar, cast
from uuid import UUID

from tidelog.broker.metadata.opening import MetadataSettings
from tidelog.broker.metadata.quorum import MetadataQuorum
from tidelog.broker.node.lifecycle import BrokerLifecycle
from tidelog.broker.node.node import Node
from tidelog.broker.node.ports import Asked, NodeMessage, NodePorts
from tidelog.broker.partitions.logs import Logs
from tidelog.broker.partitions.partition import Partition
from tidelog.config import BrokerConfig
from tidelog.controller.controller import SessionTiming
from tidelog.controller.image import ClusterImage
from tidelog.controller.messages import ControllerAsk, ControllerGot, RegisterAsk, RegisterGot
from tidelog.log.log import Log
from tidelog.log.storage import Storage
from tidelog.protocol.records import Record, encode_batch
from tidelog.replication.attachments.voter import Elected
from tidelog.replication.driver import ReplicaDriver
from tidelog.replication.election import ElectionState
from tidelog.replication.fetch_server import FollowerSession, _part
from tidelog.replication.fetching import MAX_BYTES, FetchLoop, _item
from tidelog.replication.host import Host, HostPorts
from tidelog.replication.messages import FetchAsk, FetchPart, Message
from tidelog.replication.replica import Role
from tidelog.replication.syncing import Synced, Syncer
from tidelog.replication.voters import Voter, VoterSet
from tidelog.replication.votes import Timing
from tidelog.replication.voting import Voting
from tidelog.services import Timer, ignore
from tidelog.sim.explore.disk import Disk, SmallLogs

T = TypeVar("T")
CONTROLLER = 0
TOPIC = "t"
TOPIC_ID = UUID(int=1)
KEY = (TOPIC_ID, 0)
PRODUCE_VERSION = 9
WALL_CLOCK_MS = 1_000_000


class _Timer:
    def __init__(self, callback: Callable[[], None]) -> None:
        self.callbacks = [callback]

    def cancel(self) -> None:
        self.callbacks.clear()


class SmallServices:
    """Time stands still within a step."""

    def __init__(self, now_ms: int) -> None:
        self.clock_ms = now_ms
        self._queue: list[Callable[[], None]] = []
        self.timers: list[_Timer] = []

    def now_ms(self) -> int:
        return WALL_CLOCK_MS

    def uptime_ms(self) -> int:
        return self.clock_ms

    def new_uuid(self) -> UUID:
        raise NotImplementedError

    def perturb(self, name: str) -> bool:
        return False

    def soon(self, callback: Callable[[], None]) -> None:
        self._queue.append(callback)

    def in_turn(self, callback: Callable[[], None], *, urgent: bool = False) -> None:
        self.soon(callback)

    def later(self, delay_ms: float, callback: Callable[[], None]) -> Timer:
        timer = _Timer(callback)
        self.timers.append(timer)
        return timer

    def offload(self, work: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        done(work())

    def run(self) -> None:
        """Everything that is ready."""
        while self._queue:
            self._queue.pop(0)()
        self.timers = [timer for timer in self.timers if timer.callbacks]

    def fire(self) -> None:
        """Timers."""
        due, self.timers = self.timers, []
        for timer in due:
            for callback in timer.callbacks:
                callback()
                self.run()

    @property
    def waits(self) -> bool:
        return any(timer.callbacks for timer in self.timers)


class _Mail:
    """Sent at the end of the step."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, NodeMessage]] = []

    def send(self, to: int, message: NodeMessage) -> None:
        self.sent.append((to, message))


class _Syncer(Syncer):
    """Disks are as fast as memory."""

    def want(self, wanting: Synced) -> None:
        self._services.soon(wanting.synced)


class _Voting(Voting):
    """Timers fire when the search says so."""

    def _push(self, driver: ReplicaDriver, deadline_ms: int) -> None: ...


class _Host(Host):
    def __init__(self, me: int, services: SmallServices, mail: _Mail, ports: HostPorts) -> None:
        super().__init__(me, services, mail, _no_chance, ports)
        self.syncer = _Syncer(services)
        self.voting = _Voting(me, self.drivers, {}, self.fetch_server, services, mail, _no_chance)

    def wake(self, driver: ReplicaDriver) -> None: ...

    def _resume_fetching(self, driver: ReplicaDriver) -> None: ...


def _no_chance() -> float:
    return 0.0


class _Membership(BrokerLifecycle):
    """Of a broker that hears the controllers."""

    def alone(self) -> bool:
        return False

    @property
    def is_certain(self) -> bool:
        return True


class _SoundLog:
    failure: ClassVar[None] = None  # No disk fails in a scope.


class _Elsewhere:
    """The metadata log belongs to the controllers."""

    log: ClassVar[type[_SoundLog]] = _SoundLog


class _Metadata:
    """The node's knowledge of the cluster."""

    def __init__(self, directory: UUID) -> None:
        self.image = ClusterImage()
        self.leader = CONTROLLER
        self.driver = _Elsewhere()
        self.committed_offset = 0
        self.directory = directory

    @property
    def election(self) -> "_Metadata":
        return self


class SmallNode(Node):
    """One process. It exists only within a step; the search keeps copies."""

    def __init__(self, config: BrokerConfig, registration: RegisterAsk, disk: Disk, now_ms: int) -> None:
        self.disk = disk
        self.clock = SmallServices(now_ms)
        self.mail = _Mail()
        me = config.node_id
        settings = MetadataSettings(Voter(me), VoterSet.of((me,)), Timing())
        super().__init__(
            config, registration, settings, cast(Log, None), disk.storage, SmallLogs(disk), self.clock,
            self.mail, _no_chance, SessionTiming(), NodePorts(on_metadata=ignore),
        )  # fmt: skip
        del self.controller, self._controller_asks  # It is elsewhere.

    def _new_host(self, chance: Callable[[], float]) -> Host:
        return _Host(self.me, self.clock, self.mail, self._host_ports())

    def _open_metadata(
        self, storage: Storage, log: Log, settings: MetadataSettings, chance: Callable[[], float], logs: Logs
    ) -> MetadataQuorum:
        return cast(MetadataQuorum, _Metadata(self.disk.identity))

    def _new_membership(self, registration: RegisterAsk, session: SessionTiming) -> BrokerLifecycle:
        return _Membership(registration, self.clock, self._ask_controller, lambda: 0, session.session_ms)

    def _ask_controller(self, ask: ControllerAsk) -> None:
        self.mail.send(CONTROLLER, Asked(self.me, ask))

    def _apply(self, image: ClusterImage) -> None:
        """Without a broker above it. A callback would belong to the node that was copied."""
        self.partitions.follow(image, self.config)

    def _may_be_decided(self) -> bool:
        return False

    # --- what the search looks at ---------------------------------------------------------------------------

    @property
    def driver(self) -> ReplicaDriver | None:
        return self.host.drivers.get(KEY)

    @property
    def partition(self) -> Partition | None:
        return self.partitions.find(TOPIC, 0)[0]

    def leads(self) -> bool:
        driver = self.driver
        return driver is not None and driver.replica.role is Role.LEADER

    def follows(self) -> int:
        """The node it would fetch from; -1 if none."""
        driver = self.driver
        if driver is None or driver.replica.role is not Role.FOLLOWER or not driver.may_fetch:
            return -1
        return -1 if driver.replica.leader == self.me else driver.replica.leader

    @property
    def has_to_do(self) -> bool:
        """Whether timers are pending here."""
        quorum = self.quorum
        waits = bool(quorum._untold or quorum._changing or quorum._ahead)
        return waits or self.clock.waits or bool(self._failed_logs._damaged)

    # --- steps ----------------------------------------------------------------------------------------------

    def hear(self, image: ClusterImage) -> None:
        """Metadata has arrived."""
        cast(Any, self.metadata).image = image
        self._metadata_changed(image)
        self.clock.run()

    def registered(self, got: ControllerGot) -> None:
        """As :meth:`told`, before anything else."""
        self.membership.broker_epoch = cast(RegisterGot, got).broker_epoch

    def told(self, got: ControllerGot) -> None:
        self._controller_answered(got)
        self.clock.run()

    def receive(self, message: Message) -> None:  # type: ignore[override]
        self.host.receive(message)
        self.clock.run()

    def produce(self, value: str) -> None:
        """One record, if it is accepted. Raises the refusal."""
        partition = self.partition
        if partition is not None:
            record = Record(0, WALL_CLOCK_MS, None, value.encode(), ())
            batch = memoryview(encode_batch([record], leader_epoch=-1))
            partition.append(batch, WALL_CLOCK_MS, PRODUCE_VERSION)
            self.clock.run()

    def ask(self) -> FetchAsk:
        """As the fetch loop would."""
        driver = cast(ReplicaDriver, self.driver)
        epoch, items = self.membership.broker_epoch, [_item(driver)]
        directory = driver.voter.directory
        return FetchAsk(self.me, epoch, 1, 0, items, [], 0, MAX_BYTES, directory)

    def count(self, ask: FetchAsk) -> FetchPart | None:
        """A follower's request: the response, or None if there is none."""
        session = FollowerSession(ask.sender)
        session.directory = ask.directory
        refusals = self.host.fetch_server._count(session, ask, self.clock.clock_ms)
        self.clock.run()
        if refusals:
            return refusals[0]
        ((driver, item),) = session.items.items()
        return _part(driver, item, MAX_BYTES, ask.sender)

    def take(self, leader: int, part: FetchPart | None) -> None:
        """The leader's response; an empty one is a heartbeat."""
        driver = cast(ReplicaDriver, self.driver)
        if part is not None:
            hinted, epoch = self.host.voting.leader_hinted, self.host.ports.broker_epoch
            broken = self.host.ports.on_contradiction
            loop = FetchLoop(self.me, leader, self.clock, self.mail, epoch, hinted, broken, 0)
            loop._take(driver, part, self.clock.clock_ms)
        if part is None or not part.error:
            self.host.voting.leader_heard(driver, leader, driver.replica.epoch)
        self.clock.run()

    def stand(self) -> bool:
        """Its leader was silent for long, or it hears no majority. Returns whether it continues to ask."""
        now_ms = self.clock.clock_ms
        driver = cast(ReplicaDriver, self.driver)
        if not isinstance(driver.voter, Elected):
            return False
        election = driver.voter.election
        election.hurry(now_ms)
        self.host.voting.look_at(driver, now_ms)
        self.clock.run()
        return election.state in (ElectionState.PROSPECTIVE, ElectionState.CANDIDATE)

    def damage(self) -> None:
        """A bit of its first record has flipped. It is noticed after the step."""
        cast(ReplicaDriver, self.driver).damage.offset = 0

    def notice_damage(self) -> None:
        driver = cast(ReplicaDriver, self.driver)
        driver.damage.offset = None
        driver.damage.found(0, "a bit has flipped")
        self.clock.run()

    def pass_time(self) -> None:
        """All pending timers and retries fire."""
        self.clock.fire()
        self.quorum._stepped_ms = -1 << 62
        self.quorum.tick(self.clock.clock_ms + 4000)
        self.quorum._stepped_ms = -1 << 62
        self._failed_logs.look()
        self.clock.run()
