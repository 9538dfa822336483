"""A whole cluster under faults: controllers, brokers, topics and clients in one process."""

from collections.abc import Callable
from typing import Any

from tidelog.broker.node import Node, NodeMessage
from tidelog.config import BrokerConfig
from tidelog.controller import topics
from tidelog.controller.controller import SessionTiming
from tidelog.controller.messages import RegisterAsk
from tidelog.controller.records import ClusterFounded, MetadataRecord
from tidelog.controller.topics import TopicWish
from tidelog.log.directory import DataDirectory
from tidelog.replication.ballot_file import BallotFile
from tidelog.replication.election import Election, Timing
from tidelog.replication.hosted import Hosted
from tidelog.replication.voters import VoterSet
from tidelog.sim.checkers import Checkers
from tidelog.sim.clients import Producer
from tidelog.sim.disk import SimulatedDisk, everything
from tidelog.sim.network import Network
from tidelog.sim.process import SimServices
from tidelog.sim.quorum import detached
from tidelog.sim.world import World

DATA = "data"
SESSION = SessionTiming()


class SimNode:
    """A machine: a disk that outlives its process, and the process that may die."""

    def __init__(self, cluster: "SimCluster", node_id: int) -> None:
        self.cluster = cluster
        self.node_id = node_id
        self.disk = SimulatedDisk()
        self.services: SimServices | None = None
        self.node: Node | None = None
        self._powered_off = False  # since the last start: what was not synced may be gone
        self._started_before = False

    @property
    def alive(self) -> bool:
        return self.services is not None

    def start(self) -> None:
        cluster = self.cluster
        world = cluster.world
        world.note(f"node {self.node_id} starts")
        services = self.services = SimServices(world)
        services.disk_delay_ms = cluster.disk_delay_ms
        config = BrokerConfig.parse({"node.id": self.node_id, **cluster.settings})
        now_ms = services.now_ms()
        self.disk.story.clear()
        directory = DataDirectory.open(self.disk, DATA, node_id=self.node_id, now_ms=now_ms)
        self.disk.sync_directory("")
        metadata_log = directory.open_metadata_log(now_ms)
        ticket = metadata_log.begin_sync()
        ticket.run()
        metadata_log.finish_sync(ticket, now_ms)
        ballots = BallotFile(self.disk, metadata_log.directory)
        voters = VoterSet.of(cluster.nodes)
        chance = world.chance.random
        election = Election(self.node_id, voters, ballots.load(), Timing(), services.uptime_ms(), chance())
        forgot = self._powered_off and self._started_before
        registration = RegisterAsk(
            self.node_id, world.uuid(), f"host{self.node_id}", 9092, None, forgot, False
        )
        self._powered_off = False
        self._started_before = True
        self.node = Node(
            config,
            registration,
            voters.ids,
            metadata_log,
            ballots,
            election,
            directory,
            services,
            self,
            chance,
            SESSION,
        )
        self.node.on_role = cluster.checkers.role_changed
        self.node.on_committed = cluster.checkers.committed
        self.node.start()
        cluster.network.join(self.node_id, self._deliver, self._peer_lost)

    def _deliver(self, message: NodeMessage) -> None:
        services, node = self.services, self.node
        if services is not None and node is not None:
            services.run(lambda: node.receive(message))

    def _peer_lost(self, peer: int) -> None:
        services, node = self.services, self.node
        if services is not None and node is not None:
            services.run(lambda: node.peer_lost(peer))

    def send(self, to: int, message: NodeMessage) -> None:
        self.cluster.network.send(self.node_id, to, detached(message))

    def kill(self) -> None:
        """The process dies; the machine, and with it everything written, lives on."""
        self._end(everything, noticed=True)

    def lose_power(self) -> None:
        """Unsynced data is lost or torn, as chance will have it; nobody's connection closes."""
        chance = self.cluster.world.chance
        self._powered_off = True
        self._end(lambda path, unsynced: chance.randint(0, unsynced), noticed=False)

    def _end(self, survive: Callable[[str, int], int], *, noticed: bool) -> None:
        if self.services is None:
            return
        self.services.die()
        self.services = self.node = None
        self.disk.crash(survive, survive)
        self.cluster.network.leave(self.node_id, noticed=noticed)


class SimCluster:
    def __init__(self, seed: int, size: int, settings: dict[str, Any] | None = None) -> None:
        self.world = World(seed)
        self.network = Network(self.world)
        self.checkers = Checkers(self.world)
        self.settings: dict[str, Any] = {
            "log.segment.bytes": 8192,
            "log.index.interval.bytes": 512,
            "log.index.size.max.bytes": 2048,
            **(settings or {}),
        }
        self.nodes: dict[int, SimNode] = {}
        for node_id in range(1, size + 1):
            self.nodes[node_id] = SimNode(self, node_id)
        self.producers: list[Producer] = []
        # Slow disks stretch the time in which something is written and not yet synced.
        self.disk_delay_ms = self.world.chance.choice([(0.05, 2.0), (0.05, 2.0), (2.0, 30.0)])

    def start(self) -> None:
        for node in self.nodes.values():
            node.start()

    def active(self) -> SimNode | None:
        for node in self.nodes.values():
            if node.node is not None and node.node.metadata.active:
                return node
        return None

    def create_topic(self, wish: TopicWish) -> None:
        """Keep asking the active controller until the topic is there."""
        topic_id = self.world.uuid()
        config = BrokerConfig.parse(self.settings)

        def decide(image: Any) -> list[MetadataRecord]:
            founded = [] if image.cluster_id else [ClusterFounded("sim")]
            if wish.name in image.topics:
                return []
            return [*founded, topics.create(image, wish, config, topic_id)]

        def attempt() -> None:
            node = self.active()
            if node is not None and node.node is not None and node.services is not None:
                image = node.node.metadata.image
                if wish.name in image.topics:
                    return
                if len([each for each in image.brokers.values() if not each.fenced]) == len(self.nodes):
                    store, services = node.node.metadata, node.services
                    services.run(lambda: store.submit(decide, lambda error: None))
            self.world.after(100, attempt)

        attempt()

    def hosted(self, topic: str, index: int) -> list[tuple[SimNode, Hosted]]:
        """The partition's replicas on living nodes."""
        found = []
        for node in self.nodes.values():
            if node.node is None:
                continue
            for key, hosted in node.node.host.hosted.items():
                known = node.node.metadata.image.topics.get(topic)
                if known is not None and key == (known.topic_id, index):
                    found.append((node, hosted))
        return found
