"""Nodes in one process with real sockets between them. What a node would decide is in the test's hands."""

import asyncio
import functools
import socket
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any
from uuid import UUID

import uvloop

from tidelog.broker.broker import Broker
from tidelog.broker.node.ports import NodeMessage
from tidelog.broker.partitions.table import PartitionTable
from tidelog.broker.quorum.partitions import ClusterPorts, QuorumPartitions
from tidelog.config import BrokerConfig
from tidelog.controller.image import ClusterImage
from tidelog.controller.records import BrokerRegistered, ClusterFounded, MetadataRecord
from tidelog.controller.store import Decide, Done
from tidelog.errors import ErrorCode, TidelogError
from tidelog.log.directory import DataDirectory
from tidelog.replication.host import Host
from tidelog.replication.votes import Timing
from tidelog.runtime.peers.gate import Gate
from tidelog.runtime.peers.links import WireLinks
from tidelog.runtime.peers.node_login import NodeLogins
from tidelog.runtime.peers.peers import WirePeers
from tidelog.runtime.peers.relay import Relay
from tidelog.runtime.peers.trust import NodeTrust
from tidelog.runtime.server import Server
from tidelog.runtime.services import LoopServices
from tidelog.security.cluster_secret import ClusterSecret
from tidelog.sim.disk import SimulatedDisk

MAX_BYTES = 64 << 20
WITHIN_S = 20.0

AsyncTest = Callable[..., Coroutine[Any, Any, None]]


def on_loop(test: AsyncTest) -> Callable[..., None]:
    @functools.wraps(test)
    def run(*arguments: Any, **named: Any) -> None:
        uvloop.run(test(*arguments, **named))

    return run


async def until(condition: Callable[[], object], what: str = "") -> None:
    """Wait for a condition, never for a time."""
    deadline = asyncio.get_running_loop().time() + WITHIN_S
    while not condition():
        assert asyncio.get_running_loop().time() < deadline, f"still not so: {what}"
        await asyncio.sleep(0.002)


class SharedLog:
    """The metadata of all nodes of a test: the active one decides, the others know what they were shown."""

    def __init__(self) -> None:
        self.decided: list[MetadataRecord] = []


class Store:
    def __init__(self, log: SharedLog, node: "LoopbackNode") -> None:
        self._log = log
        self._node = node
        self.image = ClusterImage()
        self.committed_offset = 0
        self.leader = -1
        self.active = False
        self.on_change: Callable[[ClusterImage], None] = lambda image: None

    def submit(self, decide: Decide, done: Done) -> None:
        if not self.active:
            done(TidelogError("not the active controller", ErrorCode.NOT_CONTROLLER))
            return
        self.catch_up()
        try:
            self._log.decided += decide(self.image)
        except TidelogError as refusal:
            done(refusal)
            return
        self.catch_up()
        done(None)

    def catch_up(self) -> None:
        new = self._log.decided[self.committed_offset :]
        if new:
            self.image = self.image.apply(new)
            self.committed_offset = len(self._log.decided)
            self.on_change(self.image)


class LoopbackNode:
    def __init__(self, cluster: "LoopbackCluster", node_id: int) -> None:
        loop = asyncio.get_running_loop()
        secret = cluster.secrets.get(node_id)
        self.cluster = cluster
        self.node_id = node_id
        self.services = LoopServices(loop)
        self.received: list[NodeMessage] = []
        self.lost: list[int] = []
        self.dead: list[int] = []
        self.on_message: Callable[[NodeMessage], None] = lambda message: None
        self.cluster_id = "loopback"
        self.peers = WirePeers(
            node_id, loop, self.services, cluster.addresses.get, lambda: self.cluster_id, MAX_BYTES,
            logins=None if secret is None else NodeLogins(secret, node_id, cluster.requires_login),
        )  # fmt: skip
        self.peers.connect(self._receive, self.lost.append, self.dead.append)
        config = BrokerConfig.parse({"node.id": node_id})
        self.store = Store(cluster.log, self)
        disk = SimulatedDisk()
        directory = DataDirectory.open(disk, "data", node_id=node_id, now_ms=0)
        host = Host(node_id, self.services, self.peers, lambda: 0.5)
        quorum = QuorumPartitions(
            host, disk, directory.path, self.services, self.peers, lambda: 0.5, Timing(), None,
            ClusterPorts(lambda: self.store.image, lambda: 1, lambda ask: None),
        )  # fmt: skip
        partitions = PartitionTable(host, directory, self.services, quorum)
        self.broker = Broker(config, self.store, partitions, self.services, self._links)
        self.store.on_change = self.broker.metadata_changed
        self.relay = Relay(
            self.broker,
            self.peers,
            lambda: self.store.leader,
            lambda: self.store.active,
            self.services.compute,
        )
        trust = NodeTrust(secret, is_required=secret is not None and cluster.requires_login)
        self.server = Server(self.broker, loop, Gate(self.peers.inbound, self.relay, trust), self.services)
        self.server.serve_clients()

    def _links(self, broker: Broker) -> WireLinks:
        return WireLinks(broker, self.peers, lambda: self.store.leader)

    def _receive(self, message: NodeMessage) -> None:
        self.received.append(message)
        self.on_message(message)

    async def listen(self, port: int = 0) -> None:
        bound = socket.socket()
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(("127.0.0.1", port))
        self.cluster.addresses[self.node_id] = bound.getsockname()
        await self.server.listen(bound)

    @property
    def bootstrap(self) -> str:
        host, port = self.cluster.addresses[self.node_id]
        return f"{host}:{port}"

    async def stop(self) -> None:
        self.peers.stop()
        await self.server.stop(0)
        self.services.close()

    async def die(self) -> None:
        """As the kernel ends the connections of a killed process: all at once."""
        self.peers.stop()
        for connection in list(self.server.connections):
            connection.close("killed", quiet=True)
        await self.server.stop(0)


class LoopbackCluster:
    """``async with LoopbackCluster(3) as nodes``"""

    def __init__(
        self,
        size: int,
        *,
        controller: int | None = None,
        secrets: Mapping[int, ClusterSecret] | None = None,
        requires_login: bool = True,
    ) -> None:
        """``secrets``: of each node that has one."""
        self._size = size
        self.secrets = secrets or {}
        self.requires_login = requires_login
        self._controller = controller
        self.addresses: dict[int, tuple[str, int]] = {}
        self.log = SharedLog()
        self.nodes: list[LoopbackNode] = []

    async def __aenter__(self) -> list[LoopbackNode]:
        self.nodes = [LoopbackNode(self, node_id) for node_id in range(1, self._size + 1)]
        for node in self.nodes:
            await node.listen()
        if self._controller is not None:
            self.log.decided += [
                ClusterFounded("loopback"),
                *(
                    BrokerRegistered(node.node_id, UUID(int=node.node_id), *self.addresses[node.node_id])
                    for node in self.nodes
                ),
            ]
            self.appoint(self._controller)
            self.catch_up()
        return self.nodes

    async def __aexit__(self, *_: object) -> None:
        for node in self.nodes:
            await node.stop()

    def appoint(self, controller: int) -> None:
        for node in self.nodes:
            node.store.leader = controller
            node.store.active = node.node_id == controller

    def catch_up(self) -> None:
        for node in self.nodes:
            node.store.catch_up()


async def gather(*work: Awaitable[None]) -> Sequence[None]:
    return await asyncio.gather(*work)
