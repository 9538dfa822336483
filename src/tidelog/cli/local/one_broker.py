"""``tidelog broker stop`` and ``start``: one broker of the cluster that `tidelog up` runs in a directory."""

import os
import shlex
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from tidelog.cli.client import connect_admin
from tidelog.cli.client_config import choose_of, name_bootstrap
from tidelog.cli.cluster.drain import BrokerId
from tidelog.cli.cluster_client import ClusterClient
from tidelog.cli.consent import consent
from tidelog.cli.failure import CommandFailed
from tidelog.cli.local.broker_settings import LocalBroker
from tidelog.cli.local.cluster import STOP_TIMEOUT_S, known_brokers
from tidelog.cli.options import Yes
from tidelog.cli.plan import live
from tidelog.cli.reach import USUAL_DIRECTORY, Address, refused
from tidelog.client.cluster_view import view_cluster
from tidelog.client.ports import is_free
from tidelog.config import BrokerConfig
from tidelog.errors import TidelogError
from tidelog.lab.local.tls import client_security
from tidelog.planner import what_if
from tidelog.planner.faults import brokers_named
from tidelog.types import majority

POLL_S = 0.05
START_TIMEOUT_S = 30.0
CONTROLLERS_WITHIN_S = 2.0  # Without a majority of them by then, there is no point in waiting.
CHECK_S = 1.0

Directory = Annotated[Path, typer.Option("--dir", metavar="DIR", help="Directory of the cluster.")]


def stop(broker: BrokerId, directory: Directory = USUAL_DIRECTORY, yes: Yes = False) -> None:
    """Stop one broker of the cluster in a directory, cleanly: it hands over its leadership first.

    If that would stop writes or reads somewhere, the command says where and asks first.

    Example: tidelog broker stop 2
    """
    there = brokers_of(directory)
    ours = _find(there, broker, directory)
    pid = ours.running_pid()
    if pid is None:
        raise CommandFailed(f"Broker {broker} of {directory} does not run.")
    choose_of(directory)
    effect = _effect([each for each in there if each.running_pid() is not None], broker)
    if effect:
        consent(effect, yes=yes)
    _progress(f"stopping broker {broker}")
    try:
        os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:
        pass  # It has just ended by itself.
    except PermissionError:
        raise CommandFailed(f"Broker {broker} (pid {pid}) belongs to another user.") from None
    if not _wait(lambda: ours.running_pid() != pid, STOP_TIMEOUT_S):
        raise CommandFailed(
            f"Broker {broker} (pid {pid}) did not stop within {STOP_TIMEOUT_S:.0f} s; see {ours.log_path}."
        )
    print(f"Stopped broker {broker}; `tidelog broker start {broker}{_dir(directory)}` starts it again.")


def start(broker: BrokerId, directory: Directory = USUAL_DIRECTORY) -> None:
    """Start a stopped broker of the cluster in a directory, in the background.

    Example: tidelog broker start 2
    """
    ours = _find(brokers_of(directory), broker, directory)
    if (pid := ours.running_pid()) is not None:
        raise CommandFailed(f"Broker {broker} of {directory} runs already (pid {pid}).")
    if not is_free(ours.host, ours.port):  # Its holder would answer in the broker's place.
        raise CommandFailed(
            f"Port {ours.port} of broker {broker} is in use by another process; end that one first, or start "
            "all brokers with `tidelog up --port PORT`."
        )
    _progress(f"starting broker {broker}")
    ours.start()

    security = client_security(directory.expanduser().resolve())
    soon = time.monotonic() + CONTROLLERS_WITHIN_S
    missing: list[int] = []

    def is_back() -> bool:
        ours.check_started()
        try:
            return broker in view_cluster(ours.host, ours.port, security=security).brokers
        except OSError:
            return False

    def is_decided() -> bool:
        back = is_back()
        # Admission cannot come before more controllers are started, and the user is the one who starts them.
        missing[:] = [] if back or time.monotonic() < soon else _missing_controllers(ours)
        return back or bool(missing)

    if not _wait(is_decided, START_TIMEOUT_S):
        raise CommandFailed(
            f"Broker {broker} runs, but the controllers have not admitted it within {START_TIMEOUT_S:.0f} s; "
            f"`tidelog cluster health` says more, and so does {ours.log_path}."
        )
    if missing:
        others = ", ".join(f"`tidelog broker start {each}{_dir(directory)}`" for each in missing)
        print(
            f"Broker {broker} runs, and waits for a majority of the controllers: {brokers_named(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} down. Start another one: {others}."
        )
        return
    print(f"Broker {broker} is back at {ours.address}.")


def _missing_controllers(ours: LocalBroker) -> list[int]:
    """Those that are down, if they are too many for a majority, and this broker itself listens."""
    voters = BrokerConfig.parse(ours.known_settings()).controller_quorum_voters
    places = {Address(each.host, each.port): each.node_id for each in voters}
    own = Address(ours.host, ours.port)
    failures = refused([own, *places], CHECK_S)
    missing = sorted(node for address, node in places.items() if address in failures)
    if own in failures or len(voters) - len(missing) >= majority(len(voters)):
        return []
    return missing


def _dir(directory: Path) -> str:
    return "" if directory == USUAL_DIRECTORY else f" --dir {shlex.quote(str(directory))}"


def brokers_of(directory: Path) -> list[LocalBroker]:
    """Of the cluster in a directory, with the settings that its files have."""
    root = directory.expanduser().resolve()
    found = [LocalBroker(root / f"broker-{number}", number, 0) for number in known_brokers(root)]
    try:
        for each in found:
            each.recall()
    except TidelogError as error:
        raise CommandFailed(f"The settings in {root}: {error.message}") from None
    return found


def _find(there: list[LocalBroker], broker: int, directory: Path) -> LocalBroker:
    for each in there:
        if each.broker_id == broker:
            return each
    if not there:
        raise CommandFailed(f"{directory} holds no cluster; pass the --dir of `tidelog up`.")
    known = ", ".join(str(each.broker_id) for each in there)
    raise CommandFailed(f"{directory} has no broker {broker}; it has {known}.")


def _effect(running: list[LocalBroker], broker: int) -> str:
    """What users would notice; empty: nothing."""
    bootstrap = ",".join(each.address for each in running)
    name_bootstrap(bootstrap)
    try:
        with ClusterClient(bootstrap) as client:
            return what_if.warning(live.look(client, connect_admin(bootstrap), internal=True), broker)
    except (CommandFailed, OSError) as error:
        return f"What a stop of broker {broker} does is not known ({str(error).rstrip('.')})."


def _wait(until: Callable[[], bool], timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while not until():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True


def _progress(sentence: str) -> None:
    print(f"tidelog: {sentence} …", file=sys.stderr, flush=True)
