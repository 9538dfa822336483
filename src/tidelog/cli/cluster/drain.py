"""``tidelog broker drain`` and ``unregister``."""

import time
from typing import Annotated

import typer

from tidelog.cli.client import connect_admin
from tidelog.cli.cluster import admin as cluster_admin
from tidelog.cli.cluster.admin import BROKER_RESOURCE, DRAIN_SETTING, Partition
from tidelog.cli.cluster.controllers import require_controllers
from tidelog.cli.cluster_client import ClusterClient
from tidelog.cli.failure import CommandFailed
from tidelog.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, flag
from tidelog.cli.plan import live
from tidelog.cli.tables import count
from tidelog.config.kinds import INT_MAX
from tidelog.planner import what_if

POLL_S = 0.05
PATIENCE_S = 5.0
STANDSTILL_S = 1.5  # Leaders move within milliseconds; what has not moved by then stays.
SHOWN_MAX = 5

BrokerId = Annotated[
    int, typer.Argument(metavar="ID", min=0, max=INT_MAX, help="Id of the broker.", show_default=False)
]


def drain(
    broker: BrokerId,
    undo: Annotated[
        bool, flag("--undo", help="End the drain: the broker leads its preferred partitions again.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Move leadership from a broker to others until --undo or until the broker restarts.

    The broker keeps its replicas. A planned stop does not need this: a broker that gets SIGTERM hands over
    its leadership. If a stop of the broker would stop writes somewhere, the command says where.

    Example: tidelog broker drain 2
    """
    with ClusterClient(bootstrap) as client:
        require_controllers(client)
        cluster_admin.look(client).broker(broker)
        before = len(_led_by(client, broker))
        cluster_admin.alter_setting(
            client, BROKER_RESOURCE, str(broker), DRAIN_SETTING, None if undo else "true"
        )
        if undo:
            _bring_back(client, broker)
            return
        stuck = _wait_until_idle(client, broker)
        warning = what_if.warning(live.look(client, connect_admin(bootstrap), internal=True), broker)
    if warning:
        print(warning)
    if not stuck:
        print(f"Broker {broker} leads no partition any more; {count(before, 'partition')} moved.")
        return
    names = ", ".join(f"{each.topic}-{each.partition}" for each in stuck[:SHOWN_MAX])
    more = f" and {len(stuck) - SHOWN_MAX} more" if len(stuck) > SHOWN_MAX else ""
    raise CommandFailed(
        f"Broker {broker} still leads {names}{more}. Either no other replica is in sync: leadership moves "
        "when one has caught up. Or the broker is the primary, which only `tidelog topic promote` changes."
    )


def unregister(broker: BrokerId, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP) -> None:
    """Remove a permanently failed broker from the cluster.

    The broker must be stopped and must have no replicas: move them with `tidelog topic reassign` first.

    Example: tidelog broker unregister 4
    """
    with ClusterClient(bootstrap) as client:
        require_controllers(client)
        cluster_admin.unregister(client, broker)
    print(f"Removed broker {broker} from the cluster.")


def _led_by(client: ClusterClient, broker: int) -> list[Partition]:
    return [each for each in cluster_admin.look(client).partitions if each.leader == broker]


def _wait_until_idle(client: ClusterClient, broker: int) -> list[Partition]:
    """The partitions that it still leads after a while."""
    deadline = time.monotonic() + PATIENCE_S
    moved_s, fewest = time.monotonic(), None
    while (led := _led_by(client, broker)) and time.monotonic() < deadline:
        if fewest is None or len(led) < fewest:
            moved_s, fewest = time.monotonic(), len(led)
        if time.monotonic() - moved_s > STANDSTILL_S:
            break
        time.sleep(POLL_S)
    return led


def _bring_back(client: ClusterClient, broker: int) -> None:
    partitions = cluster_admin.look(client).partitions
    own = [each.name for each in partitions if each.replicas[0] == broker != each.leader]
    outcomes = cluster_admin.elect(client, own) if own else {}
    back = sum(outcome.done for outcome in outcomes.values())
    print(f"Broker {broker} may lead again; it got back {count(back, 'partition')}.")
