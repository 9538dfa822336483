"""What the failover benches do to brokers, and how long writes stand still meanwhile."""

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from bench.cluster import ClusterServer
from bench.load.steady import SteadyLoad
from tidelog.lab.history import HistoryWriter

GIVE_UP_SECONDS = 120.0
STEADY_SECONDS = 0.5  # of undisturbed load between two faults
FROZEN_SETTINGS = {"socket.timeout.ms": 1000}


@dataclass(frozen=True, slots=True)
class Fault:
    name: str
    of_controller: bool
    strike: Callable[[ClusterServer, int], None]
    heal: Callable[[ClusterServer, int], None]
    settings: dict[str, Any] = field(default_factory=dict)


def kill(cluster: ClusterServer, node: int) -> None:
    cluster.signal(node, signal.SIGKILL)
    cluster.await_end(node)


def _drain(cluster: ClusterServer, node: int) -> None:
    cluster.signal(node, signal.SIGTERM)
    cluster.await_end(node)


KILLED = Fault("leader killed", False, kill, ClusterServer.launch_one)
FAULTS = (
    KILLED,
    Fault("leader killed, which is the controller", True, kill, ClusterServer.launch_one),
    Fault("leader drained (SIGTERM)", False, _drain, ClusterServer.launch_one),
    Fault(
        "leader frozen (SIGSTOP)",
        False,
        lambda cluster, node: cluster.signal(node, signal.SIGSTOP),
        lambda cluster, node: cluster.signal(node, signal.SIGCONT),
        FROZEN_SETTINGS,
    ),
)


def strike(
    cluster: ClusterServer,
    load: SteadyLoad,
    topic: str,
    fault: Fault,
    victim: int,
    history: HistoryWriter | None,
) -> tuple[float, float]:
    """The gap of the fault, and the one of the broker's return, in seconds."""
    load.wait_for_writes(time.monotonic() + STEADY_SECONDS, 30)
    struck = time.monotonic()
    if history is not None:
        history.fault(f"{fault.name}: broker {victim}")
    fault.strike(cluster, victim)
    load.wait_for_writes(time.monotonic(), GIVE_UP_SECONDS)
    gap = load.longest_gap_s(struck)
    healed = time.monotonic()
    if history is not None:
        history.healed(f"broker {victim} returns")
    fault.heal(cluster, victim)
    cluster.wait_ready()
    cluster.wait_in_sync(topic)
    load.wait_for_writes(time.monotonic(), GIVE_UP_SECONDS)
    return gap, load.longest_gap_s(healed)
