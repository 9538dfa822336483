"""Several broker processes that form one cluster, under a test's control.

Owns voters, addresses, and waiting for cluster states. Each broker is a
:class:`~tidelog.lab.local.broker.Broker` that can be killed, paused, stopped and started.
"""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from tidelog.client.cluster import Cluster as Client
from tidelog.client.cluster_view import ClusterView, PartitionView, active_controller, is_ready, view_cluster
from tidelog.client.librdkafka import librdkafka_settings
from tidelog.client.settings import ClientSettings, parse_bootstrap
from tidelog.client.topic_creation import DEFAULT, create_topic
from tidelog.lab.local.broker import POLL_INTERVAL_S, START_TIMEOUT_S, Broker, BrokerError, Setting, free_port
from tidelog.lab.local.entrance import Entrance
from tidelog.lab.local.network import Network
from tidelog.lab.local.secret import NAME as SECRET_NAME
from tidelog.lab.local.secret import SETTING as SECRET
from tidelog.lab.local.tls import CLIENT_FILE, write_properties_file
from tidelog.lab.voters import choose_voters, quorum_voters

WAIT_TIMEOUT_S = 60.0
PORT_ON_A_HOST = 9092

T = TypeVar("T")


class Cluster:
    """Brokers 1 to N in ``directory/broker-1`` to ``broker-N``; ``cluster[2]`` is one of them.

    With a ``network`` each broker runs on the host of its number, otherwise all on 127.0.0.1.
    """

    def __init__(
        self,
        directory: Path,
        brokers: int = 3,
        settings: Mapping[str, Setting] | None = None,
        *,
        kind: type[Broker] = Broker,
        network: Network | None = None,
        tls: bool = False,
        users: Mapping[str, str] | None = None,
    ) -> None:
        """``tls``: all connections are encrypted. ``users``, name → password: clients log in. See
        :meth:`client_settings`.
        """
        self.directory = Path(directory)
        self._entrance = Entrance(self.directory, tls=tls, users=users)
        self.settings: dict[str, Setting] = dict(settings or {})
        self.network = network
        self._kind = kind
        self._brokers: dict[int, Broker] = {}
        numbers = range(1, brokers + 1)
        for number in numbers:
            self._add(number)
        self._voters = quorum_voters({voter: self[voter].bootstrap for voter in choose_voters(numbers)})
        for number in numbers:
            self._introduce(self[number])

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.bootstrap}, {len(self.running)} of {len(self._brokers)} run>"

    def __getitem__(self, number: int) -> Broker:
        return self._brokers[number]

    def __iter__(self) -> Iterator[Broker]:
        return iter(self._brokers.values())

    def __len__(self) -> int:
        return len(self._brokers)

    @property
    def bootstrap(self) -> str:
        """The clients' ``bootstrap.servers``."""
        return ",".join(broker.bootstrap for broker in self)

    def client_settings(self, user: str | None = None) -> dict[str, Any]:
        """For clients of confluent-kafka: addresses, and what TLS and the login need. With users, one of them
        by name.
        """
        security = librdkafka_settings(self._entrance.security(user))
        return {"bootstrap.servers": self.bootstrap, **security}

    def client_file(self, user: str | None = None) -> Path:
        """The same as client.properties, for Java, Kafka's tools and ``tidelog --config``."""
        path = self.directory / (f"{user}.properties" if user else CLIENT_FILE)
        write_properties_file(path, self.bootstrap, self._entrance.security(user))
        return path

    @property
    def running(self) -> list[Broker]:
        return [broker for broker in self if broker.is_running]

    def start(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Start brokers that are down, and return once every broker knows all others."""
        try:
            for broker in self:
                if not broker.is_running:
                    broker.launch()
            self.await_ready(timeout_s)
        except BaseException:
            self.kill()
            raise

    def await_ready(self, timeout_s: float = WAIT_TIMEOUT_S) -> None:
        """Until every running broker knows a controller and that all running brokers are unfenced."""
        running = self.running
        pending = list(running)

        def all_ready() -> bool:
            for broker in pending.copy():
                broker.check_alive()
                if is_ready(broker.host, broker.port, len(running), security=broker.security):
                    pending.remove(broker)
            return not pending

        self._wait(all_ready, timeout_s, lambda: f"{_words(pending)} did not become ready")

    def add_broker(self) -> Broker:
        """One more broker, not started yet: an observer."""
        broker = self._add(max(self._brokers) + 1)
        self._introduce(broker)
        return broker

    def _introduce(self, broker: Broker) -> None:
        """What it has to know of the others."""
        broker.settings.setdefault("controller.quorum.voters", self._voters)
        broker.settings.setdefault(SECRET, str(self.directory / SECRET_NAME))

    def stop(self) -> None:
        """Ask all running brokers to stop at once; raises if one does not, or not cleanly, or has died
        before.
        """
        running = self.running
        for broker in running:
            broker.check_alive()
        for broker in running:
            broker.ask_to_stop()
        codes = {broker: broker.await_end() for broker in running}
        for broker, code in codes.items():
            if code:
                raise broker.failed(f"the broker stopped with exit code {code}")

    def kill(self) -> None:
        """End all at once, as a power failure would for processes."""
        for broker in self:
            broker.kill()

    def view(self, *topics: str, of: Broker | None = None) -> ClusterView:
        """What a broker (by default any that responds) reports about the cluster and these topics."""
        failure: OSError = ConnectionRefusedError("no broker is running")
        for broker in [of] if of is not None else self.running:
            try:
                return view_cluster(
                    broker.host, broker.port, *topics, timeout_s=1.0, security=broker.security
                )
            except OSError as error:  # a paused or disconnected one: the next may know more
                failure = error
        raise failure

    def controller(self, timeout_s: float = WAIT_TIMEOUT_S) -> Broker:
        """The active controller, once a running broker is."""
        return self._running_one(self._active, timeout_s, "there is no active controller")

    def leader_of(self, topic: str, partition: int = 0, timeout_s: float = WAIT_TIMEOUT_S) -> Broker:
        """The leader of the partition, once a running broker is."""
        what = f"{topic}-{partition} has no leader"
        return self._running_one(lambda: self.partition(topic, partition).leader, timeout_s, what)

    def followers_of(self, topic: str, partition: int = 0) -> list[Broker]:
        view = self.partition(topic, partition)
        return [self[replica] for replica in view.replicas if replica != view.leader]

    def partition(self, topic: str, partition: int = 0) -> PartitionView:
        """The state of one partition; an unknown one has no leader and no replicas."""
        partitions = self.view(topic).topics.get(topic, [])
        return partitions[partition] if partition < len(partitions) else PartitionView(-1, -1, (), ())

    def create_topic(
        self,
        topic: str,
        *,
        mode: str | None = None,
        partitions: int = DEFAULT,
        replicas: int = DEFAULT,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """A topic whose replicas are all in sync. ``mode``: its replication mode; ``settings``: others, with
        Kafka's names.
        """
        chosen = dict(settings or {}) | ({} if mode is None else {"replication.mode": mode})
        addresses = tuple(parse_bootstrap(self.bootstrap))
        tls, sasl = self._entrance.security()
        with Client(ClientSettings(addresses, client_id="tidelog-testing", tls=tls, sasl=sasl)) as client:
            create_topic(client, topic, partitions=partitions, replicas=replicas, settings=chosen)
        self.await_in_sync(topic)

    def await_in_sync(self, *topics: str, timeout_s: float = WAIT_TIMEOUT_S) -> None:
        """Until every replica of these topics is in its partition's in-sync set."""

        def complete() -> bool:
            found = self.view(*topics).topics
            return len(found) == len(set(topics)) and all(
                part.leader >= 0 and set(part.in_sync) == set(part.replicas)
                for partitions in found.values()
                for part in partitions
            )

        self.wait_for(complete, f"not all replicas of {', '.join(topics)} came back in sync", timeout_s)

    def wait_for(
        self, condition: Callable[[], bool], otherwise: str, timeout_s: float = WAIT_TIMEOUT_S
    ) -> None:
        """Until the condition holds; no response counts as "not yet"."""

        def holds() -> bool:
            try:
                return condition()
            except OSError:
                return False

        self._wait(holds, timeout_s, lambda: otherwise)

    def _add(self, number: int) -> Broker:
        host = self.network.hosts[number] if self.network is not None else None
        self._brokers[number] = self._kind(
            self.directory / f"broker-{number}",
            {"node.id": number, **self.settings},
            port=PORT_ON_A_HOST if host is not None else self._free_port(),
            host=host.address if host is not None else "127.0.0.1",
            prefix=host.prefix if host is not None else (),
        )
        broker = self._brokers[number]
        broker.security = self._entrance.security()
        for name, value in self._entrance.broker_settings(number, broker.host, broker.port).items():
            broker.settings.setdefault(name, value)
        return broker

    def _active(self) -> int:
        for broker in self.running:
            with contextlib.suppress(OSError):
                return active_controller(broker.host, broker.port, timeout_s=1.0, security=broker.security)
        return -1

    def _free_port(self) -> int:
        taken = {broker.port for broker in self}
        while (port := free_port()) in taken:
            pass
        return port

    def _running_one(self, number: Callable[[], int], timeout_s: float, otherwise: str) -> Broker:
        found: list[Broker] = []

        def is_one() -> bool:
            broker = self._brokers.get(number())
            if broker is not None and broker.is_running:
                found.append(broker)
            return bool(found)

        self.wait_for(is_one, otherwise, timeout_s)
        return found[0]

    def _wait(self, condition: Callable[[], bool], timeout_s: float, otherwise: Callable[[], str]) -> None:
        deadline = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > deadline:
                logs = "\n".join(f"{broker!r}:\n{broker.log_tail(10)}" for broker in self)
                raise BrokerError(
                    f"{otherwise()} within {timeout_s:g} s; the ends of the brokers' logs:\n{logs}"
                )
            time.sleep(POLL_INTERVAL_S)


def _words(brokers: Sequence[Broker]) -> str:
    numbers = ", ".join(str(broker.node_id) for broker in brokers)
    return f"broker{'s' if len(brokers) > 1 else ''} {numbers}"


@contextlib.contextmanager
def running_cluster(
    directory: Path,
    brokers: int = 3,
    settings: Mapping[str, Setting] | None = None,
    *,
    kind: type[Broker] = Broker,
    network: Network | None = None,
    tls: bool = False,
    users: Mapping[str, str] | None = None,
) -> Iterator[Cluster]:
    """A cluster for the length of a ``with`` block, stopped cleanly at its end. ``tls``: all connections are
    encrypted; ``users``, name → password: clients log in.
    """
    cluster = Cluster(directory, brokers, settings, kind=kind, network=network, tls=tls, users=users)
    cluster.start()
    try:
        yield cluster
        cluster.stop()
    except BaseException:
        # The block's own error is more useful than one about the brokers' end.
        cluster.kill()
        raise
