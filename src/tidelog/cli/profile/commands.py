"""``tidelog profile``: add, use, list, remove."""

from pathlib import Path
from typing import Annotated

import typer

from tidelog.cli.client_config import read as read_config
from tidelog.cli.failure import CommandFailed, InvalidCommandLine
from tidelog.cli.options import Json
from tidelog.cli.profile import store
from tidelog.cli.tables import print_json, print_table
from tidelog.client.settings import parse_bootstrap

app = typer.Typer(no_args_is_help=True, help="Names for clusters, instead of --bootstrap.")

_COLUMNS = {"name": "profile", "bootstrap": "bootstrap", "config": "config", "active": "active"}

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the profile.", show_default=False)]


@app.command("add")
def add(
    name: Name,
    bootstrap: Annotated[
        str, typer.Option("--bootstrap", metavar="HOST:PORT", help="Addresses of brokers, with commas.")
    ],
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            metavar="FILE",
            help="A client.properties with the security of connections. The profile has its path only.",
            show_default="none",
        ),
    ] = None,
) -> None:
    """Add a profile, or change it.

    Example: tidelog profile add staging --bootstrap kafka1:9092,kafka2:9092
    """
    if not name.strip():
        raise InvalidCommandLine("A profile needs a name.")
    try:
        parse_bootstrap(bootstrap)
    except ValueError as error:
        raise InvalidCommandLine(f"--bootstrap: {error}.") from None
    state = store.read()
    state["profiles"][name] = bootstrap
    state["configs"].pop(name, None)
    if config is not None:
        state["configs"][name] = str(_readable(config))
    store.write(state)
    print(f"Saved profile {name}; `tidelog profile use {name}` makes it the default.")


@app.command("use")
def use(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="None: no profile.", show_default=False)
    ] = None,
) -> None:
    """Make a profile the default of all commands; without a name, none. TIDELOG_PROFILE chooses another one.

    Example: tidelog profile use staging
    """
    state = store.read()
    if name is not None and name not in state["profiles"]:
        raise CommandFailed(f"There is no profile '{name}'; `tidelog profile list` shows the existing ones.")
    state["active"] = name
    store.write(state)
    print("No profile is used." if name is None else f"Using profile {name}: {state['profiles'][name]}.")


@app.command("list")
def list_(json: Json = False) -> None:
    """List the profiles.

    Example: tidelog profile list
    """
    state = store.read()
    rows = [
        {
            "name": name,
            "bootstrap": bootstrap,
            "config": state["configs"].get(name, ""),
            "active": name == state["active"],
        }
        for name, bootstrap in sorted(state["profiles"].items())
    ]
    if json:
        print_json(rows)
    elif rows:
        print_table(rows, _COLUMNS)
    else:
        print("No profiles yet; add one with `tidelog profile add NAME --bootstrap HOST:PORT`.")


@app.command("remove")
def remove(name: Name) -> None:
    """Remove a profile.

    Example: tidelog profile remove staging
    """
    state = store.read()
    if state["profiles"].pop(name, None) is None:
        raise CommandFailed(f"There is no profile '{name}'.")
    state["configs"].pop(name, None)
    if state["active"] == name:
        state["active"] = None
    store.write(state)
    print(f"Removed profile {name}.")


def _readable(config: Path) -> Path:
    """From any directory; what is wrong with the file is said now."""
    path = config.expanduser().resolve()
    read_config(path)
    return path
