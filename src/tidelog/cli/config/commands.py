"""``tidelog config``: settings of running brokers."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from tidelog.cli.client import REQUEST_TIMEOUT_S, connect_admin, refusal
from tidelog.cli.cluster.health import check_controllers
from tidelog.cli.config import admin as setting_admin
from tidelog.cli.failure import CommandFailed
from tidelog.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Json, flag
from tidelog.cli.reach import Address, refused
from tidelog.cli.settings import parse_assignments
from tidelog.cli.tables import count, print_json, print_table
from tidelog.cli.units import with_units

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

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
    admin = connect_admin(bootstrap)
    found = setting_admin.read(admin, "BROKER", _brokers(admin, broker, answering=True))
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

    Only settings that docs/configuration.md marks as live can be changed this way. Set others in broker.toml.

    Times and sizes may have units: 1h, 90s, 512MB.

    Example: tidelog config set log.retention.ms=24h
    """
    values = with_units(parse_assignments(assignments, "config set"))
    check_controllers(bootstrap)
    admin = connect_admin(bootstrap)
    brokers = _brokers(admin, broker)
    for name in brokers:
        setting_admin.change(admin, "BROKER", name, values)
    print(f"Changed {count(len(values), 'setting')} of {count(len(brokers), 'broker')}.")


@app.command("unset")
def unset(
    names: Annotated[list[str], typer.Argument(metavar="KEY…", help="Settings.", show_default=False)],
    broker: BrokerId = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Remove settings made by `config set`: the config file or the default applies again.

    Example: tidelog config unset log.retention.ms
    """
    check_controllers(bootstrap)
    admin = connect_admin(bootstrap)
    brokers = _brokers(admin, broker)
    for name in brokers:
        setting_admin.change(admin, "BROKER", name, {}, names)
    print(f"Removed {count(len(names), 'setting')} of {count(len(brokers), 'broker')}.")


def _brokers(admin: "AdminClient", wanted: int | None, *, answering: bool = False) -> list[str]:
    """``answering``: those that are down are named on stderr and left out."""
    from confluent_kafka import KafkaException

    try:
        there = admin.list_topics(timeout=REQUEST_TIMEOUT_S).brokers
    except KafkaException as error:
        raise refusal(error) from None
    if wanted is not None and wanted not in there:
        known = ", ".join(map(str, sorted(there)))
        raise CommandFailed(f"There is no broker {wanted}; existing brokers: {known}.")
    chosen = [wanted] if wanted is not None else sorted(there)
    if answering:
        addresses = {key: Address(str(there[key].host), int(there[key].port)) for key in chosen}
        down = refused([*addresses.values()])
        chosen = [key for key in chosen if addresses[key] not in down]
        for key in [key for key, address in addresses.items() if address in down]:
            print(f"Note: broker {key} does not answer.", file=sys.stderr)
        if not chosen:
            raise CommandFailed(f"Broker {wanted} does not answer.")
    return [str(key) for key in chosen]
