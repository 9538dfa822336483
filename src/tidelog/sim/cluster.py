"""A whole cluster: controllers and brokers on simulated machines, and the clients that use it."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any, get_args
from uuid import UUID

from tidelog.broker.broker import Broker
from tidelog.broker.housekeeping.housekeeping import SCRUBBING, Housekeeping
from tidelog.broker.metadata.opening import MetadataSettings
from tidelog.broker.node.node import Node
from tidelog.broker.node.ports import NodePorts
from tidelog.config import BrokerConfig
from tidelog.controller import topics
from tidelog.controller.controller import SessionTiming
from tidelog.controller.image import ClusterImage
from tidelog.controller.messages import RegisterAsk
from tidelog.controller.records import MetadataRecord
from tidelog.controller.store import Decide
from tidelog.controller.topics import NewTopic
from tidelog.errors import ErrorCode, InvariantViolation, StorageError, TidelogError
from tidelog.log.directory import DataDirectory
from tidelog.replication.driver import ReplicaDriver
from tidelog.replication.messages import PartitionKey
from tidelog.replication.replica import Role
from tidelog.replication.voters import Voter, VoterSet
from tidelog.sim.checkers.cluster import ClusterChecker
from tidelog.sim.checkers.promises import Place
from tidelog.sim.client_calls import serve
from tidelog.sim.clients.client import Call, Client, Reply, left_at
from tidelog.sim.disk import Survive
from tidelog.sim.links import LinkAsk, LinkGot, SimLinks
from tidelog.sim.machine import DATA, Machine
from tidelog.sim.network import Network
from tidelog.sim.perturbations import Perturbations
from tidelog.sim.process import SimServices
from tidelog.sim.world import World

FIRST_CLIENT = 1001
SCRUB_IDLE_MS = 3000
FEW_CHORES = frozenset({"recovery points", "removal"})
CHORES = FEW_CHORES | {"flush", "names", "retention", "new logs", "compaction"}
LEAVE_MS = 2000.0  # for others to take over what a stopping broker leads
LAST_WORDS_MS = 30.0
CONFIRM_DEATHS_MS = 100.0  # between two attempts to connect
CALLS = frozenset(get_args(Call))


class BrokerMachine(Machine):
    """A machine that runs one node of the cluster."""

    def __init__(self, cluster: "SimCluster", node_id: int) -> None:
        super().__init__(cluster.world, cluster.network, node_id)
        self.cluster = cluster
        self.node: Node | None = None
        self.broker: Broker | None = None
        self.links: SimLinks | None = None  # to other brokers
        self._housekeeping: Housekeeping | None = None
        self._directory: DataDirectory | None = None
        self._disk_name: UUID | None = None  # as its last process has read it
        self._renamed = False  # that name has changed, and is not reported yet
        self._listens = False  # to clients
        self.contradicted: set[PartitionKey] = set()  # replicas of this process that stopped, for an operator
        self._settled = False  # what is on its disk and belongs to no topic is set aside

    def boot(self, services: SimServices) -> None:
        self._settled = False
        self.contradicted.clear()
        services.perturbations = self.cluster.perturbations
        cluster, now_ms = self.cluster, services.now_ms()
        config = BrokerConfig.parse({"node.id": self.node_id, **cluster.settings_of(self.node_id)})
        directory = self._directory = DataDirectory.open(
            self.disk, DATA, node_id=self.node_id, now_ms=now_ms, new_id=services.new_uuid,
            handles_max=config.log_open_files_max,
        )  # fmt: skip
        if self.doubtful:
            self.forgot = self.rebooted = self.metadata_unchecked = True
        directory.same_boot = not self.rebooted
        directory.same_boot_for_metadata = not self.metadata_unchecked
        self._look_at_name(directory)
        try:
            self.disk.sync_directory("")
        except OSError as error:
            raise StorageError(str(error)) from error
        if self.doubtful:
            # It registers as one that was off: it may have lost as much.
            cluster.checker.power_lost(self.node_id, self.disk, {})
        elif self.damaged:
            cluster.checker.writes_failed(self.node_id, self.disk, self.dropped)
        self.doubtful = False
        self.dropped.clear()
        node = self.node = self._make_node(config, directory, services)
        self.broker = Broker(config, node.metadata, node.partitions, services, self._make_links)
        node.start()
        self._housekeeping = Housekeeping(
            self.broker, directory, node.host.syncer, self.disk, scrub_idle_ms=SCRUB_IDLE_MS
        )
        # A check of everything finds nothing if nothing was damaged.
        self._housekeeping.start({*cluster.chores, SCRUBBING} if self.decayed else cluster.chores)

    def _look_at_name(self, directory: DataDirectory) -> None:
        """A disk whose own id was damaged is another disk for all others: its content does not count until it
        was readmitted.
        """
        known, self._disk_name = self._disk_name, directory.directory_id
        if known not in (None, directory.directory_id) and not self.wiped:
            self._renamed = True
            self.cluster.checker.power_lost(self.node_id, self.disk, {}, disk_too=True)

    def _make_node(self, config: BrokerConfig, directory: DataDirectory, services: SimServices) -> Node:
        chance, now_ms = self.world.chance.random, services.now_ms()
        metadata_log = directory.open_metadata_log(now_ms)
        # Voters are named by their numbers only: there are no addresses here.
        metadata = MetadataSettings.of(config, Voter(self.node_id))
        metadata = metadata._replace(first_voters=VoterSet.of(self.cluster.voters), snapshot_interval_ms=0)
        registration = RegisterAsk(
            self.node_id, services.new_uuid(), f"host{self.node_id}", 9092, None, self.forgot,
            directory.directory_id,
        )  # fmt: skip
        return Node(
            config, registration, metadata, metadata_log, self.disk, directory, services, self, chance,
            SessionTiming(session_ms=config.broker_session_timeout_ms),
            NodePorts(
                on_metadata=self._metadata_changed,
                on_applied=self._applied,
                on_metadata_checked=self._metadata_checked,
                on_registered=self._came_back,
                on_sync_failed=self._doubt,
                on_contradiction=self._contradicted,
                on_role=self.cluster.checker.role_changed,
                on_committed=self.cluster.checker.committed,
            ),
        )  # fmt: skip

    def _make_links(self, broker: Broker) -> SimLinks:
        self.links = SimLinks(broker, self.send, lambda: broker.store.leader)
        return self.links

    def _applied(self, image: ClusterImage) -> None:
        """Before the node acts on new metadata, the checkers read it."""
        if self.node is not None:
            self.cluster.checker.applied(self.node, image)

    def _metadata_changed(self, image: ClusterImage) -> None:
        if self.broker is not None:
            # The controllers have accepted this process's registration, and its report of its disk.
            if self.forgot or self._renamed:
                self.cluster.checker.confessed(self.node_id)
            self.forgot = self.wiped = self._renamed = False
            self.broker.metadata_changed(image)
            if self._directory is not None and not self._settled:
                self._settled = True
                self.broker.partitions.when_open(self._forget_strays)

    def _metadata_checked(self) -> None:
        self.metadata_unchecked = False

    def _came_back(self) -> None:
        self.rebooted = self.must_stay_on = False

    def _doubt(self) -> None:
        self.doubtful = True

    def _contradicted(self, driver: ReplicaDriver, leader: int, error: InvariantViolation) -> None:
        """As in a real process, but only where a loss that the documentation lists explains it."""
        checker = self.cluster.checker
        if not checker.lacks_unnoticed(driver, error):
            raise error
        name = checker.name(driver.key)
        self.world.note(f"{name}: node {self.node_id} stops, because node {leader} lacks records")
        self.contradicted.add(driver.key)
        driver.contradicted(leader, error)

    def _forget_strays(self) -> None:
        if self._directory is not None:
            self._directory.forget_strays()

    def receive(self, message: Any) -> None:
        node, broker = self.node, self.broker
        if node is None or broker is None:
            return
        if not self._listens:
            self._listens = node.ready  # From when the cluster has unfenced it.
        kind = type(message)
        if kind in CALLS:
            self._serve(broker, message)
        elif kind is LinkAsk and self.links is not None:
            self.links.asked(message)
        elif kind is LinkGot and self.links is not None:
            self.links.answered(message)
        else:
            node.receive(message)

    def _serve(self, broker: Broker, call: Call) -> None:
        if self._listens:
            serve(broker, call, lambda reply: self._reply(call.client, reply))
        else:
            self._reply(call.client, Reply(call.number, ErrorCode.NETWORK_EXCEPTION))

    def _reply(self, client: int, reply: Reply) -> None:
        self.send(client, left_at(reply, self.world.now_ms), in_order=True)

    def peer_lost(self, peer: int) -> None:
        if self.node is not None and peer < FIRST_CLIENT:
            self.node.peer_lost(peer)
            if self.links is not None:
                self.links.lost(peer)

    def peer_dead(self, peer: int) -> None:
        if self.node is not None and self.services is not None and not self.services.paused:
            self.node.peer_dead(peer)

    def drivers(self) -> Mapping[PartitionKey, ReplicaDriver]:
        return {} if self.node is None else self.node.host.drivers

    def dying(self) -> None:
        self.cluster.checker.syncing.look()
        self.node = self.broker = self.links = self._directory = self._housekeeping = None
        self._listens = False

    # --- ending in order ------------------------------------------------------------------------------------

    def stop(self, stopped: Callable[[], None]) -> None:
        """As a real process does on SIGTERM: others take over first, then all logs are closed."""
        node, services = self.node, self.services
        if node is None or services is None or services.paused:
            return
        ended = False

        def end() -> None:
            nonlocal ended
            if not ended and self.node is node and services.alive:
                ended = True
                self._end_in_order(node)
                stopped()

        if not node.has_successors:
            end()
            return

        def left() -> None:
            # The others learn the last decision of an active controller when it is committed.
            services.later(LAST_WORDS_MS if node.controller.active else 0, end)

        node.membership.leave(left)
        services.later(LEAVE_MS, end)

    def _end_in_order(self, node: Node) -> None:
        broker, directory, housekeeping = self.broker, self._directory, self._housekeeping
        if broker is None or directory is None or housekeeping is None:
            return
        broker.coordinators.close()
        housekeeping.stop()
        node.stop()
        clean = directory.close(housekeeping.high_watermarks())
        self.world.note(f"node {self.node_id} stops{'' if clean else ', not cleanly'}")
        self.kill()

    def lose_power(self, survive: Survive | None = None) -> None:
        bears = self.cluster.checker.bears_power_failure(self.node_id)
        if self.must_stay_on or (survive is None and not bears):
            self.kill()  # Randomness exceeds every promise.
            return
        if self.cluster.checker.votes_on(self.node_id):
            self.stop_lying()  # Votes rest on what was synced: without it there is no promise.
        lied = self.lied
        if lied:
            # Data is written in order: newer segments do not outlive older ones.
            self.disk.write_back(_old_segments(self.disk.paths()))
        super().lose_power(survive)
        self.cluster.checker.power_lost(self.node_id, self.disk, self._promised, lied=lied)
        if lied:
            # That it broke its promises is noted now. The power may fail again while it is off.
            self._promised = {}
        self.stop_lying()

    def lose_disk(self) -> None:
        self.must_stay_on = False
        super().lose_disk()
        self.cluster.checker.power_lost(self.node_id, self.disk, {}, disk_too=True)


def _old_segments(paths: Iterable[str]) -> list[str]:
    """All but the newest one of each log."""
    logs = sorted(path for path in paths if path.endswith(".log"))
    return [path for path, after in pairwise(logs) if path.rpartition("/")[0] == after.rpartition("/")[0]]


class SimCluster:
    def __init__(
        self,
        seed: int,
        brokers: int,
        controllers: int = 0,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        """``controllers``: dedicated controllers; without any, every broker is one, too."""
        self.world = World(seed)
        self.network = Network(self.world)
        self.checker = ClusterChecker(self.world, self._nodes, lambda node_id: self.machines[node_id].disk)
        self._settings: dict[str, Any] = {
            "broker.session.timeout.ms": 3000,
            "log.flush.offset.checkpoint.interval.ms": 3000,
            "log.retention.check.interval.ms": 2000,
            "log.cleaner.backoff.ms": 2000,
            "log.segment.delete.delay.ms": 1000,
            "log.segment.bytes": 8192,
            "log.index.interval.bytes": 512,
            "log.index.size.max.bytes": 2048,
            "transaction.state.log.num.partitions": 1,
            "offsets.topic.num.partitions": 1,
            **(settings or {}),
        }
        self.chores = FEW_CHORES  # of brokers, by the clock
        self.perturbations: Perturbations | None = None
        self.brokers = range(1, brokers + 1)
        self.voters = range(brokers + 1, brokers + controllers + 1) if controllers else self.brokers
        self.machines: dict[int, BrokerMachine] = {}
        for node_id in range(1, brokers + controllers + 1):
            self.machines[node_id] = BrokerMachine(self, node_id)
        self._next_client = FIRST_CLIENT

    @property
    def config(self) -> BrokerConfig:
        return BrokerConfig.parse(self._settings)

    def confirm_deaths(self) -> None:
        """From now on nodes learn which processes have ended: connections to their addresses are refused. A
        machine without power refuses nothing.
        """
        machines = self.machines.values()
        for ended in [machine for machine in machines if machine.refuses]:
            for machine in machines:
                if self.network.reaches(machine.node_id, ended.node_id):
                    machine.peer_dead(ended.node_id)
        self.world.after(CONFIRM_DEATHS_MS, self.confirm_deaths)

    def settings_of(self, node_id: int) -> dict[str, Any]:
        roles = [
            name
            for name, nodes in (("broker", self.brokers), ("controller", self.voters))
            if node_id in nodes
        ]
        voters = ",".join(f"{voter}@host{voter}:9093" for voter in self.voters)
        return {**self._settings, "process.roles": ",".join(roles), "controller.quorum.voters": voters}

    def _nodes(self) -> Iterator[Node]:
        for machine in self.machines.values():
            if machine.node is not None:
                yield machine.node

    def start(self) -> None:
        for machine in self.machines.values():
            machine.start()

    def client(self) -> Client:
        self._next_client += 1
        return Client(self.world, self.network, self._next_client - 1, list(self.brokers))

    # --- looking --------------------------------------------------------------------------------------------

    def active(self) -> BrokerMachine | None:
        """The machine of the active controller."""
        for machine in self.machines.values():
            if machine.node is not None and machine.node.metadata.active:
                return machine
        return None

    def drivers(self, topic: str, index: int) -> list[tuple[BrokerMachine, ReplicaDriver]]:
        """The partition's replicas on living nodes."""
        known = self.checker.metadata.newest.topics.get(topic)
        if known is None:
            return []
        key = (known.topic_id, index)
        return [
            (machine, machine.node.host.drivers[key])
            for machine in self.machines.values()
            if machine.node is not None and key in machine.node.host.drivers
        ]

    def is_led(self, place: Place) -> bool:
        """Whether some process considers itself the partition's leader."""
        found = self.drivers(place.topic.name, place.number)
        return any(driver.replica.role is Role.LEADER for _, driver in found)

    def is_led_unawares(self, place: Place) -> bool:
        """Whether some process considers itself the leader and has not heard of a replica that was added."""
        found = self.drivers(place.topic.name, place.number)
        return any(
            driver.replica.role is Role.LEADER
            and not set(place.partition.replicas) <= set(driver.replica.replicas)
            for _, driver in found
        )

    def leftovers(self) -> list[str]:
        """Logs on disks where they do not belong: of deleted topics, of replicas that were moved away."""
        image, found = self.checker.metadata.newest, []
        for node_id in self.brokers:
            disk = self.machines[node_id].disk
            for entry in disk.list(DATA) if disk.exists(DATA) else []:
                topic, _, index = entry.name.rpartition("-")
                if not entry.is_directory or not index.isdigit() or topic.startswith("__"):
                    continue
                known = image.topics.get(topic)
                if known is None or node_id not in known.partitions[int(index)].replicas:
                    found.append(f"{entry.name} on {node_id}")
        return found

    def leaders(self) -> list[int]:
        """Critical nodes: the active controller, and partition leaders."""
        found = set()
        active = self.active()
        if active is not None:
            found.add(active.node_id)
        for topic in self.checker.metadata.newest.topics.values():
            found.update(partition.leader for partition in topic.partitions if partition.leader >= 0)
        return sorted(found)

    # --- doing ----------------------------------------------------------------------------------------------

    def decide(self, decide: Decide, done: Callable[[TidelogError | None], None] | None = None) -> bool:
        """Have the active controller decide, if there is one. The metadata shows the outcome."""
        machine = self.active()
        if machine is None or machine.node is None or machine.services is None:
            return False
        store = machine.node.metadata
        machine.services.run(lambda: store.submit(decide, done or self.decided))
        return True

    def decided(self, error: TidelogError | None) -> None:
        """The metadata shows the outcome."""
        if error is not None:
            self.world.note(f"refused: {error.code.name}")

    def create_topic(self, new: NewTopic) -> None:
        """Keep asking the active controller until the topic exists."""
        topic_id = self.world.uuid()
        config = self.config

        def decide(image: Any) -> list[MetadataRecord]:
            return [] if new.name in image.topics else [topics.create(image, new, config, topic_id)]

        def attempt() -> None:
            image = self.checker.metadata.newest
            if new.name not in image.topics:
                if len([each for each in image.brokers.values() if not each.fenced]) == len(self.brokers):
                    self.decide(decide)
                self.world.after(100, attempt)

        attempt()
