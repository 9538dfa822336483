"""The servers under test, all with the same few verbs: Tidelog, the sink, and (in :mod:`bench.kafka`) Kafka.

Owns how each is started and asked for topics. The sink has every topic that anyone names, so creating and
deleting one is nothing there.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from bench.process import BenchError, Child, free_port, wait_until

REPOSITORY = Path(__file__).resolve().parent.parent
PARTITIONS_MAX = 12


class Server(Protocol):
    """What every bench needs of a server."""

    name: str
    port: int  # of its first broker
    bootstrap: str

    @property
    def pids(self) -> list[int]: ...

    def start(self) -> None:
        """Start and wait until it listens."""

    def launch(self) -> None:
        """Start without waiting."""

    def check_alive(self) -> None:
        """Raise :class:`BenchError` with the end of its output when it has died."""

    def stop(self) -> None: ...


class BrokerServer(Server, Protocol):
    """One broker that keeps what it is sent; ``data`` holds its logs in Kafka's layout."""

    data: Path

    @property
    def pid(self) -> int: ...


class _ChildServer:
    """The part that the servers written in Python share."""

    name = ""
    _start_seconds = 30.0

    def __init__(self, directory: Path, port: int | None = None) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.port = port or free_port()
        self.bootstrap = f"127.0.0.1:{self.port}"
        self._child: Child | None = None

    @property
    def child(self) -> Child:
        if self._child is None:
            raise BenchError(f"{self.name} is not running")
        return self._child

    @property
    def pid(self) -> int:
        return self.child.pid

    @property
    def pids(self) -> list[int]:
        return [self.pid]

    def _command(self) -> list[str]:
        raise NotImplementedError

    def launch(self) -> None:
        self._child = Child(self.name, self._command(), self.directory / "output.log", cwd=REPOSITORY)

    def start(self) -> None:
        self.launch()
        self.child.wait_for_port(self.port, self._start_seconds)

    def check_alive(self) -> None:
        if self._child is not None:
            self._child.check_alive()

    def stop(self) -> None:
        if self._child is not None:
            self._child.stop()
            self._child = None


class SinkServer(_ChildServer):
    """See :mod:`bench.sink`."""

    name = "sink"

    def __init__(self, directory: Path, value_size: int = 1000) -> None:
        super().__init__(directory)
        self._value_size = value_size

    def _command(self) -> list[str]:
        arguments = ["--port", str(self.port), "--partitions", str(PARTITIONS_MAX)]
        return [sys.executable, "-m", "bench.sink", *arguments, "--value-size", str(self._value_size)]


class TidelogServer(_ChildServer):
    """``tidelog broker`` with its default settings; under cProfile when ``profile`` names an output file."""

    name = "tidelog"

    def __init__(
        self,
        directory: Path,
        profile: Path | None = None,
        *,
        node_id: int = 1,
        port: int | None = None,
        more: Mapping[str, str | int] | None = None,
    ) -> None:
        super().__init__(directory, port)
        self.data = directory / "data"
        self._profile = profile
        self._settings: dict[str, str | int] = {
            "node.id": node_id,
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "log.dirs": str(self.data),
            **(more or {}),
        }
        self._config = directory / "broker.toml"
        self.add_settings({})

    def add_settings(self, more: Mapping[str, str | int]) -> None:
        """They count from the next start on."""
        self._settings |= more
        # Strings and numbers are written alike in JSON and TOML; quoted keys keep the dots of Kafka's names.
        lines = [f"{json.dumps(key)} = {json.dumps(value)}" for key, value in self._settings.items()]
        self._config.write_text("\n".join(lines) + "\n")

    def _command(self) -> list[str]:
        runner = ["-m", "cProfile", "-o", str(self._profile)] if self._profile else []
        return [sys.executable, *runner, "-m", "tidelog", "broker", "--config", str(self._config)]


class Topics:
    """Creates and deletes topics on one server through the admin API."""

    # A measurement starts when the files of the one before are gone, not a minute later.
    _CONFIG = {"file.delete.delay.ms": "100"}  # noqa: RUF012

    def __init__(self, server: Server, replicas: int = 1) -> None:
        data: Path | list[Path] = getattr(server, "data", [])
        self._data = [data] if isinstance(data, Path) else data
        self._stateless = not self._data
        self._replicas = replicas
        # The same promise of everyone: a Kafka that is not told takes one replica for enough.
        self._config = self._CONFIG | ({"min.insync.replicas": "2"} if replicas > 1 else {})
        if not self._stateless:
            self.admin = AdminClient({"bootstrap.servers": server.bootstrap, "log_level": 2})

    def create(self, topic: str, partitions: int, config: dict[str, str] | None = None) -> None:
        """Create, and wait until every partition has a leader and all its replicas."""
        if self._stateless:
            return
        settings = self._config | (config or {})
        if settings.get("replication.mode") == "quorum":
            settings.pop("min.insync.replicas", None)  # It has no meaning there, and is refused.
        wanted = NewTopic(
            topic, num_partitions=partitions, replication_factor=self._replicas, config=settings
        )
        try:
            self.admin.create_topics([wanted], operation_timeout=30)[topic].result(timeout=60)
        except KafkaException as error:
            raise BenchError(f"topic {topic} could not be created: {error}") from error
        wait_until(
            lambda: self._is_complete(topic, partitions), 60, f"a leader for every partition of {topic}"
        )

    def _is_complete(self, topic: str, partitions: int) -> bool:
        described = self.admin.list_topics(topic, timeout=10).topics[topic].partitions
        return len(described) == partitions and all(
            part.leader >= 0 and len(part.isrs) == self._replicas for part in described.values()
        )

    def delete(self, topic: str) -> None:
        if self._stateless:
            return
        self.admin.delete_topics([topic])[topic].result(timeout=30)
        # Removing the files is work too, and must not fall into the next measurement.
        wait_until(lambda: not self.has_files(topic), 60, f"the removal of {topic}'s files")

    def has_files(self, topic: str) -> bool:
        return any(any(data.glob(f"{topic}-*")) for data in self._data)
