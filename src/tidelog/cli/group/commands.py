"""``tidelog group``: list, describe, reset-offsets, delete."""

from typing import Annotated

import typer

from tidelog.cli.client import connect_admin
from tidelog.cli.cluster_client import ClusterClient
from tidelog.cli.failure import CommandFailed
from tidelog.cli.group import admin as group_admin
from tidelog.cli.group import reset as group_reset
from tidelog.cli.group.reset import Target
from tidelog.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Json, flag
from tidelog.cli.tables import count, print_json, print_table
from tidelog.planner.faults import brokers_named

app = typer.Typer(
    no_args_is_help=True, help="List, describe and delete consumer groups, and reset their offsets."
)

GroupName = Annotated[str, typer.Argument(metavar="GROUP", help="Id of the group.", show_default=False)]


@app.command("list")
def list_(
    states: Annotated[
        list[str],
        typer.Option(
            "--state",
            metavar="STATE",
            help="Only groups in this state (Stable, Empty, …); may be repeated.",
        ),
    ] = [],  # noqa: B006 — typer reads the default and never changes it
    json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """List the consumer groups of the cluster.

    Example: tidelog group list --state Stable
    """
    with ClusterClient(bootstrap) as client:
        rows, unheard = group_admin.list_groups(client, states)
    if json:
        print_json(rows)
    elif rows:
        print_table(rows, {"group": "group", "state": "state", "kind": "kind"})
    elif not unheard:
        print("No such groups." if states else "No consumer groups yet.")
    if unheard:  # Part of the groups is not the answer to which groups there are.
        raise CommandFailed(
            f"Groups of {brokers_named(unheard)} are not listed: no answer. "
            "`tidelog cluster status` says what to start."
        )


@app.command("describe")
def describe(
    group: GroupName,
    json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Show a group's members, and its committed offset and lag in each partition.

    The lag is the number of records after the committed offset, which the group has not read or not yet
    committed.

    Example: tidelog group describe billing
    """
    group_admin.check_coordinator(bootstrap, group)
    found = group_admin.describe(connect_admin(bootstrap), group)
    if json:
        print_json(found)
        return
    facts = [found["state"], count(len(found["members"]), "member"), f"lag {found['lag']}"]
    if found["assignor"]:
        facts.append(f"assignor {found['assignor']}")
    if found["coordinator"] is not None:
        facts.append(f"coordinated by broker {found['coordinator']}")
    print(f"Group {group}: {', '.join(facts)}\n")
    if found["partitions"]:
        columns = ("topic", "partition", "committed", "end_offset", "lag", "member")
        print_table(
            found["partitions"],
            {name: name.replace("_", " ") for name in columns},
            right=("partition", "committed", "end_offset", "lag"),
        )
    else:
        print("The group has no committed offsets.")
    if found["members"]:
        print()
        about = ("member", "instance", "client", "host", "partitions")
        print_table(found["members"], {name: name for name in about}, right=("partitions",))


@app.command("reset-offsets")
def reset_offsets(
    group: GroupName,
    topics: Annotated[
        list[str],
        typer.Option(
            "--topic",
            metavar="TOPIC[:N,…]",
            help="A topic, or some of its partitions; may be repeated. Default: all partitions "
            "with committed offsets.",
        ),
    ] = [],  # noqa: B006 — typer reads the default and never changes it
    to_earliest: Annotated[bool, flag("--to-earliest", help="To the first record.")] = False,
    to_latest: Annotated[bool, flag("--to-latest", help="To the end: read only new records.")] = False,
    to_timestamp: Annotated[
        str | None,
        typer.Option(
            "--to-timestamp",
            metavar="TIME",
            help="To the first record of this time or later: 2026-01-31T12:00, or milliseconds as "
            "@1700000000000.",
        ),
    ] = None,
    to_offset: Annotated[
        int | None, typer.Option("--to-offset", metavar="N", min=0, help="To this offset.")
    ] = None,
    shift_by: Annotated[
        int | None,
        typer.Option("--shift-by", metavar="N", help="By N records; a negative number moves back."),
    ] = None,
    execute: Annotated[
        bool, flag("--yes", "--execute", help="Make the change; otherwise only show it.")
    ] = False,
    json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Reset the committed offsets of a group.

    Without --yes, shows what would change and changes nothing. With it, the group must not have members.
    An offset before the first record means the first record, one after the end means the end.

    Example: tidelog group reset-offsets billing --topic orders --to-timestamp 2026-01-31T12:00 --yes
    """
    target = Target(to_earliest, to_latest, to_timestamp, to_offset, shift_by)
    group_reset.check(target)
    group_admin.check_coordinator(bootstrap, group)
    admin = connect_admin(bootstrap)
    rows = group_reset.plan(admin, group, topics, target)
    if execute:
        group_reset.execute(admin, group, rows)
    if json:
        print_json({"group": group, "executed": execute, "partitions": rows})
        return
    columns = ("topic", "partition", "committed", "new", "change", "end_offset")
    print_table(rows, {name: name.replace("_", " ") for name in columns}, right=columns[1:])
    print()
    if execute:
        print(f"Reset the offsets of group {group}.")
    else:
        print("Nothing was changed; pass --yes to reset.")


@app.command("delete")
def delete(
    groups: Annotated[
        list[str], typer.Argument(metavar="GROUP…", help="Ids of the groups.", show_default=False)
    ],
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Delete groups together with their committed offsets. They must not have members.

    Example: tidelog group delete billing
    """
    admin = connect_admin(bootstrap)
    for group in groups:
        group_admin.check_coordinator(bootstrap, group)
        group_admin.delete(admin, group)
        print(f"Deleted group {group}.")
