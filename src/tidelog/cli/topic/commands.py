"""``tidelog topic``: create, list, describe, alter, delete; the other commands have their own modules."""

import sys
from typing import Annotated

import typer

from tidelog.cli.client import connect_admin
from tidelog.cli.cluster.controllers import check_controllers
from tidelog.cli.config import admin as setting_admin
from tidelog.cli.consent import consent
from tidelog.cli.failure import CommandFailed, InvalidCommandLine
from tidelog.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Json, Settings, TopicName, Yes, flag
from tidelog.cli.settings import parse_assignments
from tidelog.cli.tables import count, print_json, print_table
from tidelog.cli.topic import admin as topic_admin
from tidelog.cli.topic import stand_ins
from tidelog.cli.topic.elect import elect
from tidelog.cli.topic.mode_changes import (
    MODE_TIMEOUT_S,
    Copies,
    Mode,
    Timeout,
    follow_change,
    print_change,
    print_unconfirmed,
    tell_warnings,
    unset_for,
    with_mode,
)
from tidelog.cli.topic.promised import agree_to_change
from tidelog.cli.topic.promote import promote
from tidelog.cli.topic.reassign import reassign
from tidelog.cli.topic.recover import recover
from tidelog.cli.units import with_units

REPLICAS_MAX = 32_767  # of the protocol
PARTITIONS_MAX = 100_000  # more are not sent by the client library

app = typer.Typer(no_args_is_help=True, help="Create, list, describe, alter, move and delete topics.")


@app.command("create")
def create(
    topic: TopicName,
    partitions: Annotated[
        int | None,
        typer.Option(
            "--partitions",
            metavar="N",
            min=1,
            max=PARTITIONS_MAX,
            help="Number of partitions; default: the broker's num.partitions.",
        ),
    ] = None,
    replicas: Annotated[
        int | None,
        typer.Option(
            "--replicas",
            metavar="N",
            min=1,
            max=REPLICAS_MAX,
            help="Number of replicas; default: the broker's default.replication.factor.",
        ),
    ] = None,
    mode: Mode = None,
    copies: Copies = None,
    assignments: Settings = [],  # noqa: B006 — typer reads the default and never changes it
    if_not_exists: Annotated[
        bool, flag("--if-not-exists", help="Succeed without a change if the topic exists.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Create a topic.

    A topic is a named log, split into partitions; order holds within a partition.

    Example: tidelog topic create orders --partitions 3 --mode primary-backup --copies 2
    """
    settings = with_mode(with_units(parse_assignments(assignments)), mode, copies)
    check_controllers(bootstrap)
    admin = connect_admin(bootstrap)
    try:
        topic_admin.create(
            admin,
            topic,
            partitions or topic_admin.BROKER_DEFAULT,
            replicas or topic_admin.BROKER_DEFAULT,
            settings,
        )
    except CommandFailed as failure:
        if if_not_exists and failure.kafka_error == "TOPIC_ALREADY_EXISTS":
            print(f"Topic {topic} already exists.")
            return
        raise
    print(f"Created topic {topic}.")
    if settings:
        tell_warnings(admin, topic)


@app.command("list")
def list_(
    internal: Annotated[bool, flag("--internal", help="Include internal topics (__…).")] = False,
    json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """List the topics of the cluster.

    Example: tidelog topic list
    """
    rows = topic_admin.list_topics(connect_admin(bootstrap), internal=internal)
    if json:
        print_json(rows)
    elif rows:
        print_table(
            rows,
            {"name": "topic", "partitions": "partitions", "replicas": "replicas", "mode": "mode"},
            right=("partitions", "replicas"),
        )
    else:
        print("No topics yet; create one with `tidelog topic create NAME`.")


@app.command("describe")
def describe(
    topic: TopicName,
    all_settings: Annotated[bool, flag("--all", help="Show all settings, including defaults.")] = False,
    json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Show a topic's partitions, their replicas and its settings.

    "in sync" lists the members of the in-sync set. Offsets start at 0; the end offset is that of the next
    record.

    Example: tidelog topic describe orders
    """
    description = topic_admin.describe(connect_admin(bootstrap), topic)
    stand_ins.correct(description, bootstrap)
    settings = [s for s in description["settings"] if all_settings or json or s["set_by"] == "topic"]
    if json:
        print_json(description)
        return
    partitions = description["partitions"]
    facts = [count(len(partitions), "partition"), f"id {description['id']}"]
    if description["mode"] is not None:
        facts.insert(1, f"mode {description['mode']}")
    print(f"Topic {topic}: {', '.join(facts)}\n")
    columns = ("partition", "leader", "replicas", "in_sync", "start_offset", "end_offset")
    print_table(
        partitions,
        {name: name.replace("_", " ") for name in columns},
        right=("partition", "leader", "start_offset", "end_offset"),
    )
    stand_ins.print_away(description)
    print_change(description["mode"], description["mode_change"])
    print_unconfirmed(description["unconfirmed"])
    print()
    if settings:
        print_table(settings, {"name": "setting", "value": "value", "set_by": "set by"})
    else:
        print("All settings are at their defaults; --all shows them.")


@app.command("alter")
def alter(
    topic: TopicName,
    assignments: Settings = [],  # noqa: B006 — typer reads the default and never changes it
    unset: Annotated[
        list[str],
        typer.Option("--unset", metavar="KEY", help="Reset a setting to its default; may be repeated."),
    ] = [],  # noqa: B006
    mode: Mode = None,
    copies: Copies = None,
    timeout: Timeout = MODE_TIMEOUT_S,
    yes: Yes = False,
    partitions: Annotated[
        int | None,
        typer.Option(
            "--partitions", metavar="N", min=1, max=PARTITIONS_MAX, help="New, larger number of partitions."
        ),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Change a topic's settings or replication mode, or add partitions.

    The mode can be changed while the topic is in use: at most, producers and consumers see retriable errors,
    and nothing is lost. Each partition changes when that is safe; the command waits for all of them. Settings
    without a meaning in the new mode must be removed: the command lists them and asks. It also shows what the
    topic promises before and after, and asks if another mode promises less.

    With more partitions, new records of a key may go to another partition; existing records stay.

    Example: tidelog topic alter orders --set retention.ms=1h --unset segment.bytes
    """
    settings = with_mode(with_units(parse_assignments(assignments)), mode, copies)
    if not settings and not unset and partitions is None:
        raise InvalidCommandLine("Nothing to change: pass --set, --unset, --mode, --copies or --partitions.")
    check_controllers(bootstrap)
    admin = connect_admin(bootstrap)
    if mode is not None:
        unset = [*unset, *unset_for(admin, topic, mode, settings, unset, yes=yes)]
    if settings or unset:
        # Other settings are changed by scripts that were written before there was a question.
        agree_to_change(admin, topic, settings, unset, yes=yes or mode is None)
    if settings or unset:
        setting_admin.change_topic(admin, topic, settings, unset)
    if partitions is not None:
        topic_admin.add_partitions(admin, topic, partitions)
    if mode is not None:
        follow_change(admin, topic, mode, timeout)
    print(f"Changed topic {topic}.")
    if settings:
        tell_warnings(admin, topic)


@app.command("delete")
def delete(
    topics: Annotated[
        list[str], typer.Argument(metavar="TOPIC…", help="Names of the topics.", show_default=False)
    ],
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Delete topics with all their records. This cannot be undone, so a person at a terminal is asked first.

    Example: tidelog topic delete orders
    """
    check_controllers(bootstrap)
    if sys.stdin.isatty():  # Scripts that were written before there was --yes go on.
        consent(f"All records of {', '.join(topics)} would be deleted.", yes=yes)
    admin = connect_admin(bootstrap)
    for topic in topics:
        topic_admin.delete(admin, topic)
        print(f"Deleted topic {topic}.")


app.command("reassign")(reassign)
app.command("elect")(elect)
app.command("promote")(promote)
app.command("recover")(recover)
