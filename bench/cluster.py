"""Three brokers that are one server to the benches: Tidelog's or Kafka's, all on this machine.

Owns start and end of the members, and the waiting for what brokers say of one another. What Metadata and
DescribeQuorum say is read with the same few lines that ``tidelog up`` uses to see whether it is ready.
"""

import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.kafka import KafkaServer
from bench.process import BenchError, free_port, wait_until
from bench.servers import TidelogServer
from tidelog.client.cluster_view import ClusterView, PartitionView, active_controller, is_ready, view_cluster
from tidelog.lab.local.secret import NAME as SECRET_NAME
from tidelog.lab.local.secret import SETTING as SECRET
from tidelog.lab.local.secret import make_secret
from tidelog.lab.voters import choose_voters, quorum_voters

Member = TidelogServer | KafkaServer
START_SECONDS = 120.0


class ClusterServer:
    """Brokers with the node ids 1 to N."""

    def __init__(self, name: str, members: Sequence[Member]) -> None:
        self.name = name
        self.members = dict(enumerate(members, start=1))
        self._up: set[int] = set()
        self.port = members[0].port
        self.bootstrap = ",".join(member.bootstrap for member in members)
        self.data = [member.data for member in members]

    @property
    def pids(self) -> list[int]:
        return [self.members[node].pid for node in sorted(self._up)]

    def launch(self) -> None:
        for node in self.members:
            if node not in self._up:
                self.launch_one(node)

    def launch_one(self, node: int) -> None:
        self.members[node].launch()
        self._up.add(node)

    def start(self) -> None:
        self.launch()
        self.wait_ready()

    def wait_ready(self) -> None:
        """Until every broker knows a controller and all brokers."""
        wait_until(self.is_ready, START_SECONDS, f"the start of {len(self.members)} brokers of {self.name}")

    def is_ready(self) -> bool:
        self.check_alive()
        count = len(self.members)
        return all(is_ready("127.0.0.1", member.port, count, 5.0) for member in self.members.values())

    def check_alive(self) -> None:
        for node in self._up:
            self.members[node].check_alive()

    def stop(self) -> None:
        """All at once, as an operator would; one after the other, each would wait for a successor."""
        for node in self._up:
            self.members[node].child.signal(signal.SIGTERM)
        for node in sorted(self._up):
            self.members[node].child.wait(60)
            self.members[node].stop()
        self._up.clear()

    def signal(self, node: int, number: signal.Signals) -> None:
        self.members[node].child.signal(number)

    def await_end(self, node: int, seconds: float = 60) -> None:
        self.members[node].child.wait(seconds)
        self.members[node].stop()
        self._up.discard(node)

    def view(self, *topics: str) -> ClusterView:
        """What the first broker that answers says."""
        for node in sorted(self._up):
            try:
                return view_cluster("127.0.0.1", self.members[node].port, *topics, timeout_s=1.0)
            except OSError:
                continue
        raise BenchError(f"no broker of {self.name} answers")

    def controller(self) -> int:
        """The node that leads the controllers, or -1."""
        if self.name == "tidelog":  # whose Metadata names it; a Kafka broker names anyone there
            return self.view().controller
        for node in sorted(self._up):
            try:
                return active_controller("127.0.0.1", self.members[node].port, timeout_s=5.0)
            except OSError:
                continue
        return -1

    def partitions(self, topic: str) -> list[PartitionView]:
        return self.view(topic).topics.get(topic, [])

    def wait_in_sync(self, topic: str, seconds: float = 120) -> None:
        def complete() -> bool:
            found = self.partitions(topic)
            return bool(found) and all(
                part.leader >= 0 and len(part.in_sync) == len(part.replicas) for part in found
            )

        wait_until(complete, seconds, f"all replicas of {topic} back in sync", pause=0.05)


def tidelog_cluster(
    directory: Path, brokers: int, profile: Path | None = None, more: Mapping[str, str | int] | None = None
) -> ClusterServer:
    """With ``profile`` its first broker runs under cProfile."""
    ports = {node: free_port() for node in range(1, brokers + 1)}
    voters = quorum_voters({voter: f"127.0.0.1:{ports[voter]}" for voter in choose_voters(ports)})
    make_secret(directory / SECRET_NAME)
    settings: dict[str, str | int] = {
        "controller.quorum.voters": voters,
        SECRET: str(directory / SECRET_NAME),
        **(more or {}),
    }
    members = [
        TidelogServer(
            directory / f"broker-{node}",
            profile if node == 1 else None,
            node_id=node,
            port=port,
            more=settings,
        )
        for node, port in ports.items()
    ]
    return ClusterServer("tidelog", members)


def kafka_cluster(
    directory: Path, jar_directory: Path, brokers: int, more: dict[str, str] | None = None
) -> ClusterServer:
    """Every broker is a controller, too; everything else as Kafka has it."""
    controllers = {node: free_port() for node in range(1, brokers + 1)}
    members = [
        KafkaServer(
            directory / f"broker-{node}", jar_directory, node_id=node, controllers=controllers, more=more
        )
        for node in controllers
    ]
    return ClusterServer("kafka", members)
