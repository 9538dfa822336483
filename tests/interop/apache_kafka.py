"""Apache Kafka in the place of Tidelog's broker, so that the suite can be checked against what it imitates.

``TIDELOG_TEST_KAFKA`` names a directory with Kafka's jars (``org.apache.kafka:kafka_2.13`` and its
dependencies, as ``mvn dependency:copy-dependencies`` leaves them). Settings carry Kafka's names, so a test
that starts a broker of its own runs against Kafka unchanged.
"""

import subprocess
from pathlib import Path

from tidelog.lab.local.broker import free_port
from tidelog.testing import Broker, Setting

JAVA_OPTIONS = ["-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
CLUSTER_ID = "tidelog-compared-to-Kw"  # any base64 of 16 bytes
EXIT_CODE_ON_SIGTERM = 143  # a JVM that stopped cleanly still says which signal ended it


class KafkaBroker(Broker):
    """Broker and controller in one JVM, one replica of everything."""

    jars: Path  # set by the fixture

    def command(self) -> list[str]:
        return self._java("kafka.Kafka", str(self._properties))

    def stop(self, timeout_s: float = 60.0) -> int:
        code = super().stop(timeout_s)
        return 0 if code == EXIT_CODE_ON_SIGTERM else code

    def write_config(self) -> None:
        if not hasattr(self, "controller_port"):
            self.controller_port = free_port()
        controller = f"127.0.0.1:{self.controller_port}"
        settings: dict[str, Setting] = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://{controller}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"1@{controller}",
            "log.dirs": str(self.data_directory),
            "offsets.topic.replication.factor": 1,
            "offsets.topic.num.partitions": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "group.initial.rebalance.delay.ms": 0,
            **self.settings,
        }
        self._properties.write_text("".join(f"{key}={_text(value)}\n" for key, value in settings.items()))
        if not (self.data_directory / "meta.properties").exists():
            format_storage = self._java(
                "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(self._properties)
            )
            subprocess.run(format_storage, check=True, capture_output=True)

    @property
    def _properties(self) -> Path:
        return self.directory / "server.properties"

    def _java(self, main: str, *arguments: str) -> list[str]:
        return ["java", *JAVA_OPTIONS, "-cp", f"{self.jars}/*", main, *arguments]


def _text(value: Setting) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    return ",".join(value)
