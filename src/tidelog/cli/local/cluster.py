"""The brokers of one directory as child processes: who of them votes, start, watch, stop.

Owns the lock that keeps two of us out of one DIR, and the decision which brokers are the voters of the
controllers' quorum. That decision is made once, when DIR is new, and stands in every ``broker.toml``: more
brokers later join as observers, because a cluster must never find its majority elsewhere by a command line
alone.

A broker that dies after the start is reported and left down: someone may have killed it on purpose and will
start it again with ``tidelog broker``. Stopping therefore also stops a broker that was started in its place.
"""

import contextlib
import fcntl
import os
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO

from tidelog.cli.failure import CommandFailed, InvalidCommandLine
from tidelog.cli.local.broker_settings import HOST, VOTERS, LocalBroker, describe_exit
from tidelog.client.cluster_view import is_ready
from tidelog.client.ports import is_free
from tidelog.config import Raw
from tidelog.lab.local import tls as local_tls
from tidelog.lab.local.secret import NAME as SECRET_NAME
from tidelog.lab.local.secret import make_secret
from tidelog.lab.voters import choose_voters, quorum_voters
from tidelog.planner.faults import brokers_named
from tidelog.types import majority

DEFAULT_BROKERS = 3
STOP_TIMEOUT_S = 30.0
START_POLL_S = 0.02
WATCH_POLL_S = 0.1
STILL_STARTING_AFTER_S = 10.0
# What each broker must have for itself: with several of them, one value for all cannot be meant.
OF_ONE_BROKER = ("node.id", "listeners", "advertised.listeners", VOTERS)


def lock_directory(directory: Path) -> IO[bytes]:
    """Hold DIR as long as the returned file stays open; a killed holder's lock is gone with it."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = (directory / ".lock").open("ab")
    except FileExistsError:
        raise CommandFailed(f"{directory} is a file; choose a directory with --dir.") from None
    except OSError as error:
        raise CommandFailed(
            f"{directory} cannot be used: {error.strerror}; choose another one with --dir."
        ) from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise CommandFailed(
            f"{directory} is in use by another `tidelog up`; choose another one with --dir."
        ) from None
    return lock


def known_brokers(directory: Path) -> list[int]:
    """The brokers an earlier run made in DIR."""
    names = (path.parent.name.removeprefix("broker-") for path in directory.glob("broker-*/broker.toml"))
    return sorted(int(name) for name in names if name.isdecimal())


def known_voters(directory: Path) -> list[int]:
    """As the brokers of DIR name them; empty: no file says."""
    for number in known_brokers(directory):
        broker = LocalBroker(directory / f"broker-{number}", number, 0)
        said = broker.known_settings().get(VOTERS)
        if said:
            parts = said if isinstance(said, list | tuple) else str(said).split(",")
            try:
                return sorted(int(str(part).partition("@")[0]) for part in parts)
            except ValueError:
                raise CommandFailed(
                    f"{broker.config_path}: {VOTERS} is not a list like 1@127.0.0.1:9092,2@127.0.0.1:9093."
                ) from None
    return []


def count_of(directory: Path) -> int:
    """How many brokers DIR has. A voter whose files were removed is still one of them."""
    return max([*known_brokers(directory), *known_voters(directory)], default=DEFAULT_BROKERS)


class LocalCluster:
    """The brokers of one DIR. Use: ``prepare``, ``start``, ``wait_ready``, ``watch`` until asked to stop,
    ``stop``.
    """

    def __init__(
        self, directory: Path, count: int, port: int, report: Callable[[str], None], *, tls: bool = False
    ) -> None:
        """``tls``: also if the cluster had none before. One that had it keeps it."""
        if port + count - 1 > 65535:
            raise InvalidCommandLine(
                f"Broker {count} would listen on port {port + count - 1}; the highest port is 65535."
            )
        self._directory = directory
        self._first_port = port
        self._tls = tls or local_tls.has_tls(directory)
        self.client_file: Path | None = None  # with TLS, once started
        self.brokers = [
            LocalBroker(directory / f"broker-{number}", number, port + number - 1)
            for number in range(1, count + 1)
        ]
        # Set by a signal handler; a plain flag, because a handler that takes a lock can meet itself there.
        self.stopping = False
        self._report = report

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.address for broker in self.brokers)

    def prepare(self, settings: Mapping[str, Raw]) -> None:
        """Write the settings of all brokers, after which their addresses are known."""
        self._check_settings(settings)
        voters = self._voters()
        self._check_majority(voters)
        self._check_alone()
        for broker in self.brokers:
            broker.decide(settings, tls=self._tls)
        for broker in self.brokers:
            if not is_free(broker.host, broker.port):
                raise CommandFailed(f"Port {broker.port} is in use; choose another one with --port.")
        self._tell_differences(voters)
        make_secret(self._directory / SECRET_NAME)
        if self._tls:
            local_tls.make_certificates(self._directory, (broker.broker_id for broker in self.brokers))
            self.client_file = local_tls.write_client_file(self._directory, self.bootstrap)
        for broker in self.brokers:
            alone = voters == [broker.broker_id]
            broker.write_config(None if alone else self._quorum_voters(voters))
        self._tell_the_secret()

    def start(self) -> None:
        for broker in self.brokers:
            broker.start()

    def _tell_the_secret(self) -> None:
        """Also to brokers of DIR that are not started now: later the others would not know them for nodes."""
        ours = {broker.broker_id for broker in self.brokers}
        for number in set(known_brokers(self._directory)) - ours:
            other = LocalBroker(self._directory / f"broker-{number}", number, 0)
            other.recall()
            other.write_config(None)

    def _quorum_voters(self, voters: list[int]) -> str:
        """With the addresses of today: --port may be another one than last time."""
        addresses = {broker.broker_id: broker.address for broker in self.brokers}
        return quorum_voters(
            {voter: addresses.get(voter, f"{HOST}:{self._first_port + voter - 1}") for voter in voters}
        )

    def _check_settings(self, settings: Mapping[str, Raw]) -> None:
        if len(self.brokers) > 1 and (ours := [name for name in OF_ONE_BROKER if name in settings]):
            raise CommandFailed(f"{ours[0]} must differ between brokers and cannot be set for all of them.")

    def _voters(self) -> list[int]:
        """As DIR knows them; those of a new cluster are chosen."""
        # Without the setting it is a directory from before there were clusters: its one broker decides alone.
        known = known_voters(self._directory) or known_brokers(self._directory)[:1]
        return known or choose_voters(broker.broker_id for broker in self.brokers)

    def _check_alone(self) -> None:
        """Brokers that were started by hand, or that outlived a killed `tidelog up`, are not ours to end."""
        running = {broker.broker_id: pid for broker in self.brokers if (pid := broker.running_pid())}
        if not running:
            return
        who, runs, it = ("Broker", "runs", "it") if len(running) == 1 else ("Brokers", "run", "them")
        raise CommandFailed(
            f"{who} {_listed(list(running))} of {self._directory} {runs} already; "
            f"stop {it} first: kill {' '.join(map(str, running.values()))}"
        )

    def _check_majority(self, voters: list[int]) -> None:
        wanted = {broker.broker_id for broker in self.brokers}
        needed = majority(len(voters))
        if len(wanted.intersection(voters)) >= needed:
            return
        enough = sorted(voters)[needed - 1]
        raise CommandFailed(
            f"{self._directory} holds a cluster that needs {needed} of controllers {_listed(voters)}; start "
            f"at least {enough} brokers with --brokers {enough}, or choose another --dir for a "
            f"new cluster."
        )

    def _tell_differences(self, voters: list[int]) -> None:
        """Say what it means that DIR had another number of brokers before, or that files of one are gone."""
        known = known_brokers(self._directory)
        wanted = [broker.broker_id for broker in self.brokers]
        without = [number for number in wanted if known and number not in known]
        gone = [number for number in without if number in voters or number < max(known)]
        if gone:
            self._report(
                f"the files of {brokers_named(gone)} are missing; started empty, and what others have is "
                "copied again"
            )
        if new := [number for number in without if number not in gone]:
            self._report(
                f"{_brokers(new)} new in this directory: new topics use them, existing topics stay where "
                "they are"
            )
        if down := [number for number in known if number not in wanted]:
            self._report(
                f"{_brokers(down)} down: their partitions are under-replicated until "
                f"--brokers {max(known)} starts them again"
            )

    def wait_ready(self, also: Callable[[], None] = lambda: None) -> bool:
        """True once every broker knows of all, False if asked to stop before; a dead one is a failure.
        ``also`` is called several times a second.
        """
        patience_ends = time.monotonic() + STILL_STARTING_AFTER_S
        pending = list(self.brokers)
        security = local_tls.client_security(self._directory)
        while pending and not self.stopping:
            also()
            for broker in self.brokers:
                broker.check_started()
            count = len(self.brokers)
            pending = [
                broker
                for broker in pending
                if not is_ready(broker.host, broker.port, count, security=security)
            ]
            if pending and time.monotonic() > patience_ends:
                # Not a failure: after a crash a broker may have a long log to check.
                self._report(f"broker {pending[0].broker_id} is still starting; see {pending[0].log_path}")
                patience_ends = time.monotonic() + STILL_STARTING_AFTER_S
            if pending:
                time.sleep(START_POLL_S)
        return not pending

    def watch(self, also: Callable[[], None] = lambda: None) -> None:
        """Report brokers that die, until asked to stop. ``also`` is called several times a second."""
        up = list(self.brokers)
        while not self.stopping:
            time.sleep(WATCH_POLL_S)
            also()
            for broker in up.copy():
                if (code := broker.exit_code()) is not None:
                    up.remove(broker)
                    self._report(
                        f"broker {broker.broker_id} {describe_exit(code)} (log: {broker.log_path}); "
                        f"start it again with: tidelog broker --config {broker.config_path}"
                    )

    def stop(self) -> None:
        """Ask all to stop at once, then wait for each; one that will not stop is ended and named."""
        ours = [broker for broker in self.brokers if broker.process is not None]
        running = [(broker, pid) for broker in ours if (pid := broker.running_pid()) is not None]
        for _, pid in running:
            _send(pid, signal.SIGTERM)
        deadline = time.monotonic() + STOP_TIMEOUT_S
        for broker, pid in running:
            while broker.running_pid() == pid:
                if time.monotonic() > deadline:
                    self._report(
                        f"broker {broker.broker_id} did not stop within {STOP_TIMEOUT_S:.0f} s and was killed"
                    )
                    _send(pid, signal.SIGKILL)
                    deadline = time.monotonic() + STOP_TIMEOUT_S
                time.sleep(START_POLL_S)
            code = broker.exit_code()
            # One that had not come so far as to stop by itself ends by the signal, as it should.
            if code and code != -signal.SIGTERM and broker.process is not None and broker.process.pid == pid:
                self._report(f"broker {broker.broker_id} {describe_exit(code)}; see {broker.log_path}")


def _listed(numbers: list[int]) -> str:
    words = [str(number) for number in numbers]
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def _brokers(numbers: list[int]) -> str:
    """The subject of a sentence."""
    return f"broker {numbers[0]} is" if len(numbers) == 1 else f"brokers {_listed(numbers)} are"


def _send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):  # it was quicker than we were
        os.kill(pid, number)
