"""``tidelog config``: settings of running brokers."""

import sys
from collections.abc import Mapping
from typing import Annotated

import typer

from tidelog.cli.cluster import admin as cluster_admin
from tidelog.cli.cluster.admin import BROKER_RESOURCE, EVERY_BROKER, Broker, Cluster
from tidelog.cli.cluster.controllers import require_controllers
from tidelog.cli.cluster_client import ClusterClient
from tidelog.cli.config import admin as setting_admin
from tidelog.cli.failure import CommandFailed
from tidelog.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Json, flag
from tidelog.cli.settings import parse_assignments
from tidelog.cli.tables import count, print_json, print_table
from tidelog.cli.units import with_units
from tidelog.config import broker_setting

app = typer.Typer(no_args_is_help=True, help="Show and change the settings of running brokers.")

BrokerId = Annotated[
    int | None, typer.Option("--broker", metavar="ID", help="Only this broker; default: all brokers.")
]


@app.command("show")
def show(
    broker: BrokerId = None,
    all_settings: Annotated[bool, flag("--all", help="Show all settings, including defaults.")] = False,
    json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Show the settings of brokers, and where each value comes from.

    Example: tidelog config show --all
    """
    with ClusterClient(bootstrap) as client:
        found = setting_admin.read_brokers(client, _answering(client, broker))
    rows = [{"broker": int(name)} | setting for name, settings in found.items() for setting in settings]
    if json:
        print_json(rows)
        return
    rows = [row for row in rows if all_settings or row["set_by"] != setting_admin.BY_DEFAULT]
    columns = {"broker": "broker", "name": "setting", "value": "value", "set_by": "set by"}
    print_table(rows, columns, right=("broker",))


@app.command("set")
def set_(
    assignments: Annotated[
        list[str], typer.Argument(metavar="KEY=VALUE…", help="Settings and values.", show_default=False)
    ],
    broker: BrokerId = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Change settings of running brokers. They take effect at once and survive a restart.

    Without --broker, for all brokers, also those that are down or come later; values of single brokers are
    removed. Only settings that docs/configuration.md marks as live can be changed this way. Set others in
    broker.toml.

    Times and sizes may have units: 1h, 90s, 512MB.

    Example: tidelog config set log.retention.ms=24h
    """
    values = with_units(parse_assignments(assignments, "config set"))
    whose = _change(bootstrap, broker, values)
    print(f"Changed {count(len(values), 'setting')} of {whose}.")


@app.command("unset")
def unset(
    names: Annotated[list[str], typer.Argument(metavar="KEY…", help="Settings.", show_default=False)],
    broker: BrokerId = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Remove settings made by `config set`: the config file or the default applies again.

    Without --broker, of all brokers, whether made for all or for one.

    Example: tidelog config unset log.retention.ms
    """
    for key in names:  # Removing an unknown name would succeed, and hide a typing error.
        broker_setting(key)
    whose = _change(bootstrap, broker, dict.fromkeys(names))
    print(f"Removed {count(len(names), 'setting')} of {whose}.")


def _change(bootstrap: str, broker: int | None, values: Mapping[str, str | None]) -> str:
    """None removes a setting. Whose settings were changed, in words; those that are down are named."""
    with ClusterClient(bootstrap) as client:
        require_controllers(client)
        cluster = cluster_admin.look(client)
        chosen = [each.broker for each in _chosen(cluster, broker)]
        if broker is not None:
            cluster_admin.alter_settings(client, BROKER_RESOURCE, [str(broker)], values)
        else:
            # One decision for all, which later brokers follow, too. What single brokers had is removed when
            # it is made: it would hide the new value.
            cluster_admin.alter_settings(client, BROKER_RESOURCE, [EVERY_BROKER], values)
            cluster_admin.alter_settings(
                client, BROKER_RESOURCE, list(map(str, chosen)), dict.fromkeys(values)
            )
    for each in sorted(set(chosen) & cluster.fenced):
        print(f"Note: broker {each} is not up; it follows when it is back.", file=sys.stderr)
    return f"broker {broker}" if broker is not None else "all brokers"


def _chosen(cluster: Cluster, wanted: int | None) -> list[Broker]:
    if wanted is None:
        return list(cluster.brokers.values())
    return [cluster.broker(wanted)]


def _answering(client: ClusterClient, wanted: int | None) -> list[Broker]:
    """Those that are down are named on stderr and left out."""
    chosen = _chosen(cluster_admin.look(client), wanted)
    down = client.unanswered([each.address for each in chosen])
    answering = [each for each in chosen if each.address not in down]
    if not answering:
        raise CommandFailed(f"Broker {wanted} does not answer; `tidelog cluster status` says what to start.")
    for each in chosen:
        if each.address in down:
            print(f"Note: broker {each.broker} does not answer.", file=sys.stderr)
    return answering
