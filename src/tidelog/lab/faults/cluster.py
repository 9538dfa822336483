"""A cluster of broker processes of this machine that faults are made on: brokers by number.

Owns the brokers, and the hooks that its :class:`~tidelog.lab.faults.needs.Needs` ask for.
"""

import contextlib
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from tidelog.client.cluster_view import PartitionView, active_controller
from tidelog.lab.experiment.model import ClusterSpec
from tidelog.lab.faults import processes
from tidelog.lab.faults.errors import FaultError
from tidelog.lab.faults.needs import NAMESPACES, RELAY, Needs
from tidelog.lab.faults.processes import is_alive
from tidelog.lab.local.broker import START_TIMEOUT_S, Broker, Setting
from tidelog.lab.local.cluster import WAIT_TIMEOUT_S, Cluster
from tidelog.lab.local.network import Network
from tidelog.lab.network.namespaced import NamespaceWiring
from tidelog.lab.network.relayed import RelayWiring
from tidelog.lab.network.wiring import Wiring
from tidelog.lab.voters import quorum_voters
from tidelog.runtime.hooks import VARIABLE
from tidelog.runtime.hooks.control import Control
from tidelog.runtime.hooks.journal import DIRECTORY as JOURNAL

__all__ = ["LabCluster", "Needs"]

_EXPECTED_ENDS = (0, -signal.SIGKILL, -signal.SIGTERM)


class LabCluster:
    """Brokers 1 to N in ``directory/broker-1`` to ``broker-N``. Use as a context manager, or call
    :meth:`close` in the end.
    """

    def __init__(
        self,
        directory: Path,
        spec: ClusterSpec | None = None,
        needs: Needs | None = None,
        *,
        cluster: Cluster | None = None,
    ) -> None:
        """With a ``cluster``, which is not started yet: the hooks for that one."""
        self.spec = spec or ClusterSpec()
        self.needs = needs or Needs()
        self._hosts = Network(self.spec.brokers) if self.needs.network == NAMESPACES else None
        if self._hosts is not None:
            self._hosts.__enter__()
        try:
            self.cluster = cluster or Cluster(
                directory, self.spec.brokers, self.spec.settings, network=self._hosts
            )
            self._set_up()
            self._controls = self._hook() if self.needs.disk or self.needs.journal else {}
            self.wiring = self._wire()
        except BaseException:
            if self._hosts is not None:
                self._hosts.close()
            raise

    def __enter__(self) -> "LabCluster":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def brokers(self) -> tuple[int, ...]:
        """Their numbers."""
        return tuple(broker.node_id for broker in self.cluster)

    @property
    def network(self) -> str:
        """How network faults are made: ``none``, ``relay`` or ``namespaces``."""
        return self.needs.network

    @property
    def client_bootstrap(self) -> str:
        """``bootstrap.servers`` of clients whose connections faults are made on."""
        return self.cluster.bootstrap if self.wiring is None else self.wiring.bootstrap

    def pid(self, number: int) -> int:
        """RuntimeError if it does not run. A process that a fault has ended keeps its id until it is started
        again.
        """
        return self.cluster[number].pid

    def launch(self, number: int) -> None:
        """Start a broker that is down, without waiting."""
        broker = self.cluster[number]
        self._reap(broker)
        broker.launch()

    def start(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Start all that are down, and return once every broker knows all others."""
        self.reap()
        self.cluster.start(timeout_s)

    def stop(self) -> None:
        """A clean stop of all that run. Those that a fault has ended are left as they are."""
        self.reap()
        self.cluster.stop()

    def kill(self) -> None:
        """End all at once."""
        self.cluster.kill()

    def close(self) -> None:
        """End everything that was started."""
        self.kill()
        if self.wiring is not None:
            self.wiring.close()

    def await_ready(self, timeout_s: float = WAIT_TIMEOUT_S) -> None:
        """Until every running broker knows a controller and all running brokers."""
        self.reap()
        self.cluster.await_ready(timeout_s)

    def await_in_sync(self, *topics: str, timeout_s: float = WAIT_TIMEOUT_S) -> None:
        """Until every replica of partition 0 of these topics is in its in-sync set, also for a broker that
        was cut off.
        """

        def complete() -> bool:
            views = [self.partition(topic) for topic in topics]
            return all(view.leader >= 0 and set(view.in_sync) == set(view.replicas) for view in views)

        self.cluster.wait_for(complete, f"not all replicas of {', '.join(topics)} are in sync", timeout_s)

    def leader_of(self, topic: str, partition: int = 0, timeout_s: float = WAIT_TIMEOUT_S) -> int:
        """The number of the leader, once a running broker is."""
        what = f"{topic}-{partition} has no leader"
        return self._running_one(lambda: self.partition(topic, partition).leader, timeout_s, what)

    def followers_of(self, topic: str, partition: int = 0) -> list[int]:
        view = self.partition(topic, partition)
        return [replica for replica in view.replicas if replica != view.leader]

    def partition(self, topic: str, partition: int = 0) -> PartitionView:
        """Its state as the broker reports it that knows of the newest leader: one that is cut off reports an
        older state. An unknown partition has no leader and no replicas.
        """
        newest = PartitionView(-1, -1, (), ())
        for broker in self.cluster.running:
            with contextlib.suppress(OSError):
                found = self.cluster.view(topic, of=broker).topics.get(topic, [])
                # The leader knows its in-sync set first, and a tie is between brokers that know it, too.
                if partition < len(found) and found[partition].leader_epoch >= newest.leader_epoch:
                    is_tie = found[partition].leader_epoch == newest.leader_epoch
                    if not is_tie or found[partition].leader == broker.node_id:
                        newest = found[partition]
        return newest

    def controller(self, timeout_s: float = WAIT_TIMEOUT_S) -> int:
        """The number of the active controller, once a running broker is: the one that most brokers name."""
        return self._running_one(self._active, timeout_s, "there is no active controller")

    def controllers(self) -> list[int]:
        """All voters of the controllers' quorum."""
        voters = str(self.cluster[1].settings["controller.quorum.voters"])
        return [int(voter.partition("@")[0]) for voter in voters.split(",")]

    def data_directory(self, number: int) -> Path:
        return self.cluster[number].data_directory

    def control(self, number: int) -> Control:
        """Of the troubles of a broker's disk and clock."""
        if number not in self._controls:
            raise FaultError("This fault needs a cluster with hooks for disks and clocks.")
        return self._controls[number]

    def journal(self, number: int) -> Path | None:
        return self._hooks(number) / JOURNAL if self.needs.journal else None

    def _hooks(self, number: int) -> Path:
        return self.cluster[number].directory / "lab"

    def _hook(self) -> dict[int, Control]:
        for number in self.brokers:
            self.cluster[number].environment[VARIABLE] = str(self._hooks(number).absolute())
            if self.needs.journal:
                (self._hooks(number) / JOURNAL).mkdir(parents=True, exist_ok=True)
        return {number: Control.create(self._hooks(number)) for number in self.brokers}

    def _active(self) -> int:
        named: Counter[int] = Counter()
        for broker in self.cluster.running:
            with contextlib.suppress(OSError):
                named[active_controller(broker.host, broker.port, timeout_s=1.0)] += 1
        return named.most_common(1)[0][0] if named else -1

    def _running_one(self, number: Callable[[], int], timeout_s: float, otherwise: str) -> int:
        found: list[int] = []

        def is_one() -> bool:
            candidate = number()
            if candidate in self.brokers and processes.running(self, [candidate]):
                found.append(candidate)
            return bool(found)

        self.cluster.wait_for(is_one, otherwise, timeout_s)
        return found[0]

    def _set_up(self) -> None:
        for number, broker in enumerate(self.cluster):
            if self.spec.racks:
                rack: Setting = self.spec.racks[number % len(self.spec.racks)]
                broker.settings.setdefault("broker.rack", rack)
            if self.spec.controllers:
                voters = self.brokers[: self.spec.controllers]
                broker.settings["controller.quorum.voters"] = quorum_voters(
                    {voter: self.cluster[voter].bootstrap for voter in voters}
                )

    def _wire(self) -> Wiring | None:
        if self._hosts is not None:
            return NamespaceWiring(self.cluster, shaped=self.needs.shaped)
        return RelayWiring(self.cluster) if self.needs.network == RELAY else None

    def reap(self) -> None:
        """Brokers that a fault has ended count as down from now on; BrokerError for one that ended by
        itself.
        """
        for broker in self.cluster:
            self._reap(broker)

    def _reap(self, broker: Broker) -> None:
        if (
            broker.is_running
            and not is_alive(broker.pid)
            and (code := broker.await_end()) not in _EXPECTED_ENDS
        ):
            raise broker.failed(f"the broker ended by itself with exit code {code}")
