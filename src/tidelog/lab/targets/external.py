"""A cluster that already runs. The lab knows its address, and the commands that end and start a broker.

Only faults that can be caused from outside are offered: those for which a command is given. The cluster is
left as it was found: a broker that the lab has ended is started again.
"""

import contextlib
import shlex
import subprocess
import time
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource

from tidelog.client.cluster_view import ClusterView, responds, view_cluster
from tidelog.config import BROKER_SETTINGS, MODES
from tidelog.lab.experiment.model import ClusterSpec
from tidelog.lab.faults.errors import FaultError
from tidelog.lab.faults.injected import Injected
from tidelog.lab.faults.parties import Parties, brokers_of, words_of
from tidelog.lab.targets.base import TargetError
from tidelog.lab.targets.viewing import Viewer

SESSION, LAG = "broker.session.timeout.ms", "replica.lag.time.max.ms"
COMMAND_TIMEOUT_S = 60.0
CONNECT_TIMEOUT_S = 5.0
SILENT_S = 5.0  # after a command, until its broker no longer responds
RESPONSE_S = 0.5
POLL_S = 0.05
PLACE = "{broker}"


class ExternalTarget:
    name = "external"
    modes = frozenset(MODES)
    network = "none"
    notices_ends = False
    version = "unknown"
    voters: tuple[int, ...] = ()  # Not known: taken for alive.

    def __init__(
        self, bootstrap: str, commands: Mapping[str, str | None], *, session_s: float | None = None
    ) -> None:
        """``commands`` are for kill, start, freeze and thaw, with ``{broker}`` for the broker's number.
        TargetError if the cluster does not answer.
        """
        self.bootstrap = bootstrap
        self._commands = _checked(commands)
        self._brokers = _find_brokers(bootstrap)
        self._ended: set[int] = set()
        self._frozen: set[int] = set()
        known = _milliseconds(bootstrap, min(self._brokers, default=0), SESSION, LAG)
        self.session_s = known[SESSION] / 1000 if session_s is None else session_s
        self.lag_s = known[LAG] / 1000
        self._viewer = Viewer(lambda: self._brokers)

    @property
    def faults(self) -> frozenset[str]:
        pairs = {"kill": ("kill", "start"), "freeze": ("freeze", "thaw")}
        return frozenset(fault for fault, needed in pairs.items() if all(map(self._commands.get, needed)))

    @property
    def brokers(self) -> tuple[int, ...]:
        return tuple(sorted(self._brokers))

    def start(self, directory: Path, spec: ClusterSpec, faults: Iterable[str]) -> None:
        if spec.brokers > len(self._brokers):
            raise TargetError(
                f"The experiment needs {spec.brokers} brokers, and the cluster at {self.bootstrap} has "
                f"{len(self._brokers)}."
            )

    def stop(self) -> None:
        """Undo what is left of faults."""
        for number in sorted(self._frozen):
            self._run("thaw", number)
        for number in sorted(self._ended):
            self._run("start", number)
        self._frozen.clear()
        self._ended.clear()

    def pid(self, number: int) -> int:
        raise RuntimeError(f"broker {number} is not a process of this machine that the lab knows")

    def launch(self, number: int) -> None:
        self._run("start", number)
        self._ended.discard(number)

    def check(self) -> None:
        """Nothing to look at."""

    def ended(self) -> tuple[int, ...]:
        return ()

    def view(self, *topics: str) -> ClusterView:
        return self._viewer.view(*topics)

    def answering(self) -> frozenset[int]:
        return self._viewer.answering()

    def controller(self) -> int:
        return self._viewer.controller()

    def inject(self, fault: str, parties: Parties, parameters: Mapping[str, object]) -> Injected:
        if fault not in self.faults:
            raise FaultError(f"The fault {fault} needs a command for it.")
        numbers = brokers_of(parties.first)
        struck = self._ended if fault == "kill" else self._frozen
        for number in numbers:
            struck.add(number)
            self._run(fault, number)
        self._await_silence(fault, numbers)
        return Injected(f"{fault} of {words_of(parties.first)}", partial(self._heal, fault, numbers))

    def votes_again(self) -> bool:
        """No disks are wiped here."""
        return True

    def _heal(self, fault: str, numbers: Iterable[int]) -> None:
        for number in numbers:
            self._run("start" if fault == "kill" else "thaw", number)
            (self._ended if fault == "kill" else self._frozen).discard(number)

    def _await_silence(self, fault: str, numbers: Iterable[int]) -> None:
        """A command may report success and do nothing: then nothing was tested."""
        deadline = time.monotonic() + SILENT_S
        for number in numbers:
            while responds(*self._brokers[number], RESPONSE_S):
                if time.monotonic() > deadline:
                    text = self._commands[fault].replace(PLACE, str(number))
                    raise FaultError(
                        f"Broker {number} still responds {SILENT_S:g} s after the command {text!r}, which "
                        "reported no error."
                    )
                time.sleep(POLL_S)

    def _run(self, command: str, number: int) -> None:
        text = self._commands[command].replace(PLACE, str(number))
        try:
            done = subprocess.run(
                shlex.split(text), capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise FaultError(f"The command {text!r} failed: {error}.") from error
        if done.returncode:
            last = (done.stderr or done.stdout).strip().splitlines() or ["it printed nothing."]
            raise FaultError(f"The command {text!r} ended with code {done.returncode}: {last[-1]}")


def _checked(commands: Mapping[str, str | None]) -> dict[str, str]:
    found = {name: text for name, text in commands.items() if text}
    for name, text in found.items():
        if PLACE not in text:
            raise TargetError(
                f"--{name} {text!r} does not say which broker; put {PLACE} where its number goes."
            )
    for one, other in (("kill", "start"), ("freeze", "thaw")):
        for has, lacks in ((one, other), (other, one)):
            if has in found and lacks not in found:
                raise TargetError(f"--{has} needs --{lacks}, too: the lab leaves the cluster as it found it.")
    return found


def _milliseconds(bootstrap: str, broker: int, *names: str) -> dict[str, float]:
    """What the cluster says of these settings of a broker; Tidelog's defaults where it does not."""
    found = {name: float(BROKER_SETTINGS[name].default) for name in names}
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
    resource = ConfigResource(ConfigResource.Type.BROKER, str(broker))
    # Not allowed to ask, or another kind of cluster: the defaults are the guess then.
    with contextlib.suppress(KafkaException, TimeoutError):
        (future,) = admin.describe_configs([resource], request_timeout=CONNECT_TIMEOUT_S).values()
        for name, entry in future.result(CONNECT_TIMEOUT_S).items():
            if name in found and str(entry.value).isdecimal():
                found[name] = float(entry.value)
    return found


def _find_brokers(bootstrap: str) -> dict[int, tuple[str, int]]:
    failure: Exception = ValueError("the address has no port")
    for address in bootstrap.split(","):
        host, _, port = address.strip().rpartition(":")
        if not host or not port.isdecimal():
            raise TargetError(f"{address!r} is not an address; use HOST:PORT.")
        try:
            return view_cluster(host, int(port), timeout_s=CONNECT_TIMEOUT_S).brokers
        except OSError as error:
            failure = error
    raise TargetError(f"No broker answers at {bootstrap}: {failure}.")
