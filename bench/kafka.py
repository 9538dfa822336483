"""Apache Kafka as the peer: fetched from Maven once, brokers in KRaft combined mode, no Docker.

Owns the jars under ``.cache/kafka-VERSION`` and the settings of the peer. Everything that is not needed to
start it keeps Kafka's default, so the comparison is with what a user gets.
"""

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from bench.process import BenchError, Child, free_port

VERSION = "4.3.1"  # the newest for which both artifacts below are published
_LOG4J_VERSION = (
    "2.25.4"  # the one that Kafka brings itself; without its SLF4J binding Kafka cannot say why it fails
)
HEAP = "1g"
_JVM_OPTIONS = (  # what Kafka's own start script passes
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
_CLUSTER_ID = "dGlkZWxvZy1iZW5jaC0xMQ"  # any 16 bytes in URL-safe base64

POM = """<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>bench</groupId><artifactId>kafka-peer</artifactId><version>1</version>
  <dependencies>{dependencies}</dependencies>
</project>
"""
DEPENDENCY = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"

_LOGGING = """<Configuration status="WARN">
  <Appenders><Console name="out"><PatternLayout pattern="%d %p %m %ex{short}%n"/></Console></Appenders>
  <Loggers><Root level="WARN"><AppenderRef ref="out"/></Root></Loggers>
</Configuration>
"""

_PROPERTIES = """process.roles=broker,controller
node.id={node_id}
controller.quorum.voters={voters}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs={data}
offsets.topic.replication.factor={replicas}
transaction.state.log.replication.factor={replicas}
transaction.state.log.min.isr={min_in_sync}
log.segment.delete.delay.ms=100
log.initial.task.delay.ms=100
"""
# The last two: a measurement starts when the files of the one before are gone, not a minute later.


def missing_tool() -> str | None:
    """The program that the peer needs and this machine lacks, if any."""
    return next((tool for tool in ("java", "mvn") if shutil.which(tool) is None), None)


def jars(cache: Path) -> Path:
    """The directory with Kafka's jars; fetched with Maven the first time."""
    directory = cache / f"kafka-{VERSION}"
    if (directory / "complete").exists():
        return directory
    directory.mkdir(parents=True, exist_ok=True)
    artifacts = [
        ("org.apache.kafka", "kafka_2.13", VERSION),
        ("org.apache.kafka", "kafka-tools", VERSION),
        ("org.apache.logging.log4j", "log4j-slf4j-impl", _LOG4J_VERSION),
    ]
    pom = directory / "pom.xml"
    pom.write_text(POM.format(dependencies="".join(DEPENDENCY.format(*artifact) for artifact in artifacts)))
    command = [
        "mvn",
        "-B",
        "-q",
        "-f",
        str(pom),
        "dependency:copy-dependencies",
        f"-DoutputDirectory={directory}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchError(
            f"Maven could not fetch Kafka {VERSION}: {(done.stdout + done.stderr).strip()[-400:]}"
        )
    (directory / "complete").touch()
    return directory


class KafkaServer:
    """One Kafka broker; ``start`` may be called again after ``stop`` and finds its data.

    ``controllers`` are the ports of all controllers by node id; without them it is its own.
    """

    name = "kafka"

    def __init__(
        self,
        directory: Path,
        jar_directory: Path,
        *,
        node_id: int = 1,
        controllers: dict[int, int] | None = None,
        more: dict[str, str] | None = None,
    ) -> None:
        self._directory = directory
        self._jars = jar_directory
        self.data = directory / "data"
        self._child: Child | None = None
        self.port = free_port()
        self.bootstrap = f"127.0.0.1:{self.port}"
        self._prepare(node_id, controllers or {node_id: free_port()}, more or {})

    @property
    def child(self) -> Child:
        if self._child is None:
            raise BenchError("Kafka is not running")
        return self._child

    @property
    def pid(self) -> int:
        return self.child.pid

    @property
    def pids(self) -> list[int]:
        return [self.pid]

    def _prepare(self, node_id: int, controllers: dict[int, int], more: dict[str, str]) -> None:
        self._directory.mkdir(parents=True)
        self._config = self._directory / "server.properties"
        properties = _PROPERTIES.format(
            node_id=node_id,
            voters=",".join(f"{voter}@127.0.0.1:{port}" for voter, port in controllers.items()),
            port=self.port,
            controller_port=controllers[node_id],
            data=self.data,
            replicas=min(3, len(controllers)),
            min_in_sync=2 if len(controllers) > 1 else 1,
        )
        self._config.write_text(properties + "".join(f"{key}={value}\n" for key, value in more.items()))
        self._logging = self._directory / "log4j2.xml"
        self._logging.write_text(_LOGGING)
        done = subprocess.run(
            self._java("kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", str(self._config)),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise BenchError(
                f"Kafka's storage could not be formatted: {(done.stdout + done.stderr).strip()[-400:]}"
            )

    def add_settings(self, more: Mapping[str, str | int]) -> None:
        """Of a name that is there twice, the last value counts."""
        with self._config.open("a") as file:
            file.writelines(f"{key}={value}\n" for key, value in more.items())

    def _java(self, main_class: str, *arguments: str) -> list[str]:
        heap = (f"-Xms{HEAP}", f"-Xmx{HEAP}")
        logging = f"-Dlog4j2.configurationFile={self._logging}"
        return ["java", *heap, *_JVM_OPTIONS, logging, "-cp", f"{self._jars}/*", main_class, *arguments]

    def launch(self) -> None:
        """Start the process without waiting for anything; the startup bench times what follows."""
        self._child = Child(
            "Kafka", self._java("kafka.Kafka", str(self._config)), self._directory / "kafka.log"
        )

    def start(self) -> None:
        self.launch()
        self.child.wait_for_port(self.port, 90)

    def check_alive(self) -> None:
        if self._child is not None:
            self._child.check_alive()

    def stop(self) -> None:
        if self._child is not None:
            self._child.stop(grace_seconds=30)
            self._child = None
