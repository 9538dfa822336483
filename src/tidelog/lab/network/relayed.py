"""A cluster on this machine whose connections all go through the relay.

Every way has its own port of the relay: from each broker to each other one, and from clients to each broker.
Brokers learn the ports by their setting ``node.addresses``, clients by the advertised addresses.
"""

from tidelog.lab.local.broker import free_port
from tidelog.lab.local.cluster import Cluster
from tidelog.lab.network.process import RelayProcess
from tidelog.lab.network.shape import Shape
from tidelog.lab.network.wiring import Direction, Wiring

CLIENTS = "clients"
HOST = "127.0.0.1"
# Brokers set the keep-alive of connections with each other to about this. Clients have none by default.
SILENCE_S = 10.0


class RelayWiring(Wiring):
    kind = "relay"

    def __init__(self, cluster: Cluster) -> None:
        """Before the cluster is started."""
        super().__init__()
        self.relay = RelayProcess()
        numbers = [broker.node_id for broker in cluster]
        listening: dict[int, str] = {}
        try:
            for broker in cluster:
                others = [number for number in numbers if number != broker.node_id]
                ways = {number: self._link(broker.node_id, number, cluster) for number in others}
                address = f"{HOST}:{self._link(CLIENTS, broker.node_id, cluster)}"
                listening[broker.node_id] = address
                broker.settings["advertised.listeners"] = f"PLAINTEXT://{address}"
                if ways:
                    broker.settings["node.addresses"] = ",".join(
                        f"{number}@{HOST}:{port}" for number, port in ways.items()
                    )
        except BaseException:
            self.relay.close()
            raise
        self.bootstrap = ",".join(listening.values())

    def close(self) -> None:
        self.relay.close()

    def _link(self, source: int | str, target: int, cluster: Cluster) -> int:
        port = free_port()
        silence_s = None if source == CLIENTS else SILENCE_S
        broker = cluster[target]
        self.relay.link(str(source), str(target), port, (broker.host, broker.port), silence_s)
        return port

    def _apply(self, direction: Direction, shape: Shape) -> None:
        self.relay.shape(str(direction.source), str(direction.target), shape)
