"""What the lab's relay costs while no fault is active: the same cluster, with all connections through it and
without it.

Both clusters run for the whole bench and take turns, so that the ratio is one of the same minutes.
"""

import dataclasses
from contextlib import ExitStack
from pathlib import Path

from bench.lineup import Lineup, Load, Options, work_directory
from bench.process import BenchError
from bench.report import Check, Column, Report
from bench.servers import Server
from tidelog.lab.experiment.model import ClusterSpec
from tidelog.lab.faults.cluster import LabCluster, Needs
from tidelog.lab.faults.needs import NONE, RELAY
from tidelog.lab.local.broker import BrokerError
from tidelog.lab.network.relayed import RelayWiring

BROKERS = 3
PARTITIONS = 12
SIZE = 1_000
LEAST = 0.85  # of the throughput without the relay
DIRECT, RELAYED = "direct", "relayed"
COLUMNS = (
    Column("records_per_s", "msg/s", ",.0f"),
    Column("mb_per_s", "MB/s", ",.0f"),
    Column("p50_ms", "ack p50 ms", ",.2f"),
    Column("p99_ms", "ack p99 ms", ",.2f"),
    Column("cpu_s_per_gb", "CPU of brokers and relay s/GB", ",.2f"),
)


class LabServer:
    """A cluster of the lab as a server of the benches."""

    def __init__(self, name: str, directory: Path) -> None:
        self.name = name
        network = RELAY if name == RELAYED else NONE
        self.cluster = LabCluster(directory, ClusterSpec(brokers=BROKERS), Needs(network))
        self.bootstrap = self.cluster.client_bootstrap
        self.port = self.cluster.cluster[1].port
        self.data = [self.cluster.data_directory(number) for number in self.cluster.brokers]

    @property
    def pids(self) -> list[int]:
        """The relay's counts, too: it is on the same machine."""
        wiring = self.cluster.wiring
        relay = [wiring.relay.pid] if isinstance(wiring, RelayWiring) else []
        return [*(self.cluster.pid(number) for number in self.cluster.brokers), *relay]

    def launch(self) -> None:
        for number in self.cluster.brokers:
            self.cluster.launch(number)

    def start(self) -> None:
        try:
            self.cluster.start()
        except BrokerError as error:
            raise BenchError(str(error)) from error

    def check_alive(self) -> None:
        try:
            self.cluster.reap()
        except BrokerError as error:
            raise BenchError(str(error)) from error

    def stop(self) -> None:
        self.cluster.close()


class RelayLineup(Lineup):
    def _build(self, name: str, directory: Path) -> Server:
        return LabServer(name, directory)


def run(options: Options) -> list[Report]:
    ours = dataclasses.replace(options, servers=(DIRECT, RELAYED))
    title = f"produce {SIZE:,} B to {PARTITIONS} partitions with 3 replicas, acks=all"
    report = Report(title, COLUMNS, ("network",))
    with work_directory() as directory, ExitStack() as stack:
        running = RelayLineup(ours, directory, stack, BROKERS)
        running.warm_up(Load("produce", SIZE, PARTITIONS, "all"))

        def measure(server: Server) -> dict[str, float | None]:
            with running.topic(server, PARTITIONS) as topic:
                job = {"value_size": SIZE, "partitions": PARTITIONS, "acks": "all"}
                return running.measure(server, "produce", topic, **job).throughput(SIZE)

        for name, figures in running.rounds(f"produce {SIZE} B", measure).items():
            report.rows.append({"network": name} | figures)
        report.notes = running.notes()
    ratio = report.ratio("records_per_s", {"network": RELAYED}, {"network": DIRECT})
    report.checks = [Check("msg/s with the relay over without", ratio, LEAST)]
    return [report]
