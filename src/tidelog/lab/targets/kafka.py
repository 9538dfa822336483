"""Apache Kafka from a folder of jars: brokers in KRaft mode as processes of this machine, no Docker.

Owns the processes and their properties. Everything that is not needed to start keeps Kafka's default: it is
what a user gets. Only faults on processes are offered: Kafka has no hooks for its disk, and no relay.
"""

import re
import shutil
import subprocess
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from tidelog.client.cluster_view import ClusterView, is_ready
from tidelog.lab.experiment.model import ClusterSpec
from tidelog.lab.faults.catalog import FAULTS, PROCESS
from tidelog.lab.faults.inject import inject
from tidelog.lab.faults.injected import Injected
from tidelog.lab.faults.parties import Parties
from tidelog.lab.local.broker import free_port
from tidelog.lab.targets.base import TargetError, ended_of
from tidelog.lab.targets.viewing import Viewer
from tidelog.lab.voters import choose_voters

START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 15.0
POLL_S = 0.2
HEAP = ("-Xms256m", "-Xmx1g")
JVM_OPTIONS = (  # what Kafka's own start script passes
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
CLUSTER_ID = "dGlkZWxvZy1sYWItLS0tMQ"  # any 16 bytes in URL-safe base64
MAIN_JAR = re.compile(r"kafka_2\.\d+-(\d[\w.]*)\.jar")
DEFAULTS_MS = {"broker.session.timeout.ms": 9_000, "replica.lag.time.max.ms": 30_000}


class KafkaTarget:
    name = "kafka"
    faults = frozenset(kind.name for kind in FAULTS.values() if kind.group == PROCESS)
    modes = frozenset({"isr"})
    network = "none"
    notices_ends = False

    def __init__(self, jars: Path | None) -> None:
        """TargetError if there are no jars, or other ones, or no Java."""
        self._jars, self.version = find_jars(jars)
        self._java = find_java()
        self._spec = ClusterSpec()
        self._directory = Path()
        self._ports: dict[int, tuple[int, int]] = {}  # of clients and of controllers, by broker
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._viewer = Viewer(self._addresses)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port, _ in self._ports.values())

    @property
    def brokers(self) -> tuple[int, ...]:
        return tuple(self._ports)

    @property
    def voters(self) -> tuple[int, ...]:
        if self._spec.controllers:
            return self.brokers[: self._spec.controllers]
        return tuple(choose_voters(self.brokers))

    @property
    def session_s(self) -> float:
        return self._milliseconds("broker.session.timeout.ms") / 1000

    @property
    def lag_s(self) -> float:
        return self._milliseconds("replica.lag.time.max.ms") / 1000

    def start(self, directory: Path, spec: ClusterSpec, faults: Iterable[str]) -> None:
        self._directory, self._spec = directory, spec
        self._ports = {number: (free_port(), free_port()) for number in range(1, spec.brokers + 1)}
        try:
            self._format()
            for number in self.brokers:
                self.launch(number)
            self._await_ready()
        except BaseException as error:
            self.stop()
            if isinstance(error, OSError):
                raise TargetError(f"Apache Kafka did not start: {error}.") from error
            raise

    def stop(self) -> None:
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.wait()
        self._processes.clear()

    def pid(self, number: int) -> int:
        if number not in self._processes:
            raise RuntimeError(f"broker {number} does not run")
        return self._processes[number].pid

    def launch(self, number: int) -> None:
        if number in self._processes:
            self._processes.pop(number).wait(STOP_TIMEOUT_S)
        with self._log(number).open("ab") as log:
            self._processes[number] = subprocess.Popen(
                self._command("kafka.Kafka", str(self._properties(number)), number=number),
                cwd=self._home(number),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def check(self) -> None:
        for number, process in self._processes.items():
            if process.poll() is not None:
                code, last = process.returncode, self._last(number)
                raise TargetError(f"Broker {number} of Apache Kafka ended with code {code}: {last}")

    def ended(self) -> tuple[int, ...]:
        return ended_of(self)

    def view(self, *topics: str) -> ClusterView:
        return self._viewer.view(*topics)

    def answering(self) -> frozenset[int]:
        return self._viewer.answering()

    def controller(self) -> int:
        return self._viewer.controller()

    def inject(self, fault: str, parties: Parties, parameters: Mapping[str, object]) -> Injected:
        return inject(self, fault, parties, parameters)

    # --- start ----------------------------------------------------------------------------------------------

    def votes_again(self) -> bool:
        """No disks are wiped here."""
        return True

    def _format(self) -> None:
        running = []
        for number in self.brokers:
            self._home(number).mkdir(parents=True)
            self._properties(number).write_text(self._text(number))
            (self._home(number) / "log4j2.xml").write_text(_LOGGING)
            words = ("format", "-t", CLUSTER_ID, "-c", str(self._properties(number)))
            running.append(
                subprocess.Popen(
                    self._command("kafka.tools.StorageTool", *words, number=number),
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                )
            )
        outputs = [(process.communicate()[0], process.returncode) for process in running]
        for text, code in outputs:
            if code:
                last = (text.strip().splitlines() or ["without a word"])[-1]
                raise TargetError(f"Apache Kafka's storage could not be formatted with {self._jars}: {last}")

    def _await_ready(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while not all(is_ready("127.0.0.1", port, len(self._ports)) for port, _ in self._ports.values()):
            self.check()
            if time.monotonic() > deadline:
                raise TargetError(f"Apache Kafka did not start within {START_TIMEOUT_S:g} s: {self._last(1)}")
            time.sleep(POLL_S)

    def _command(self, main_class: str, *words: str, number: int) -> list[str]:
        logging = f"-Dlog4j2.configurationFile={self._home(number) / 'log4j2.xml'}"
        return [self._java, *HEAP, *JVM_OPTIONS, logging, "-cp", f"{self._jars}/*", main_class, *words]

    def _text(self, number: int) -> str:
        port, controller_port = self._ports[number]
        is_voter = number in self.voters
        listeners = [f"PLAINTEXT://127.0.0.1:{port}"]
        if is_voter:
            listeners.append(f"CONTROLLER://127.0.0.1:{controller_port}")
        replicas = min(3, len(self._ports))
        settings: dict[str, object] = {
            "process.roles": "broker,controller" if is_voter else "broker",
            "node.id": number,
            "controller.quorum.voters": ",".join(
                f"{voter}@127.0.0.1:{self._ports[voter][1]}" for voter in self.voters
            ),
            "listeners": ",".join(listeners),
            "advertised.listeners": listeners[0],
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": self._home(number) / "data",
            "offsets.topic.replication.factor": replicas,
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": min(2, replicas),
            **(
                {"broker.rack": self._spec.racks[(number - 1) % len(self._spec.racks)]}
                if self._spec.racks
                else {}
            ),
            **self._spec.settings,
        }
        return "".join(f"{key}={value}\n" for key, value in settings.items())

    def _home(self, number: int) -> Path:
        return self._directory / f"broker-{number}"

    def _properties(self, number: int) -> Path:
        return self._home(number) / "server.properties"

    def _log(self, number: int) -> Path:
        return self._home(number) / "kafka.log"

    def _last(self, number: int) -> str:
        log = self._log(number)
        lines = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
        return lines[-1] if lines else "it said nothing"

    def _addresses(self) -> dict[int, tuple[str, int]]:
        return {number: ("127.0.0.1", port) for number, (port, _) in self._ports.items()}

    def _milliseconds(self, name: str) -> float:
        return float(str(self._spec.settings.get(name, DEFAULTS_MS[name])))


def find_jars(directory: Path | None) -> tuple[Path, str]:
    """The folder with the jars, which may be ``libs`` inside of the given one, and Kafka's version."""
    if directory is None:
        raise TargetError("The target kafka needs --jars DIR: the folder libs of an Apache Kafka download.")
    for place in (directory, directory / "libs"):
        for path in sorted(place.glob("kafka_2.*.jar")):
            if found := MAIN_JAR.fullmatch(path.name):
                return place.resolve(), found[1]
    if not directory.is_dir():
        raise TargetError(
            f"{directory} is no folder; --jars takes the folder libs of an Apache Kafka download."
        )
    if not any(directory.glob("*.jar")):
        raise TargetError(
            f"There are no jars in {directory}; --jars takes the folder libs of an Apache Kafka download."
        )
    raise TargetError(
        f"The jars in {directory} are not those of an Apache Kafka broker: kafka_2.13-VERSION.jar is missing."
    )


def find_java() -> str:
    java = shutil.which("java")
    if java is None:
        raise TargetError("Apache Kafka needs Java 17 or newer, and there is no program java in the PATH.")
    return java


_LOGGING = """<Configuration status="WARN">
  <Appenders><Console name="out"><PatternLayout pattern="%d %p %m %ex{short}%n"/></Console></Appenders>
  <Loggers><Root level="WARN"><AppenderRef ref="out"/></Root></Loggers>
</Configuration>
"""
