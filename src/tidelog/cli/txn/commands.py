"""``tidelog txn``: list, describe, abort."""

from typing import Annotated

import typer

from tidelog.cli.failure import CommandFailed, InvalidCommandLine
from tidelog.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Json
from tidelog.cli.tables import count, print_json, print_table
from tidelog.cli.txn import admin as txn_admin
from tidelog.cli.txn.client import TxnClient
from tidelog.cli.units import Duration
from tidelog.planner.faults import brokers_named

app = typer.Typer(no_args_is_help=True, help="List, describe and abort transactions.")


@app.command("list")
def list_(
    states: Annotated[
        list[str],
        typer.Option(
            "--state",
            metavar="STATE",
            help="Only ids in this state (Ongoing, Empty, …); may be repeated.",
        ),
    ] = [],  # noqa: B006 — typer reads the default and never changes it
    longer_than: Annotated[
        float | None,
        typer.Option(
            "--longer-than",
            metavar="TIME",
            parser=Duration(),
            help="Only transactions that began longer ago, such as 90s.",
        ),
    ] = None,
    json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """List the transactional ids of the cluster and their states.

    Ongoing means an open transaction: read_committed consumers wait for it.

    Example: tidelog txn list --state Ongoing --longer-than 1m
    """
    with TxnClient(bootstrap) as client:
        rows, unheard = txn_admin.list_transactions(client, states, longer_than)
    if json:
        print_json(rows)
    elif rows:
        print_table(
            rows,
            {
                "transactional_id": "transactional id",
                "state": "state",
                "producer_id": "producer id",
                "coordinator": "coordinator",
            },
            right=("producer_id", "coordinator"),
        )
    elif not unheard:
        filtered = states or longer_than is not None
        print("No such transactions." if filtered else "No transactional ids yet.")
    if unheard:
        raise CommandFailed(
            f"What {brokers_named(unheard)} coordinated is not listed: no answer. "
            "`tidelog cluster status` says what to start."
        )


@app.command("describe")
def describe(
    transactional_id: Annotated[
        str, typer.Argument(metavar="ID", help="The transactional id.", show_default=False)
    ],
    json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Show the producer, transaction and partitions of a transactional id.

    The start offset is where the open transaction begins in a partition; read_committed consumers read up to
    it. Without one, nothing was written yet, or the transaction has ended there.

    Example: tidelog txn describe billing-1
    """
    with TxnClient(bootstrap) as client:
        found = txn_admin.describe(client, transactional_id)
    if json:
        print_json(found)
        return
    facts = [
        found["state"],
        f"producer {found['producer_id']} in epoch {found['epoch']}",
        f"timeout {found['timeout_ms'] / 1000:g} s",
    ]
    if found["running_ms"] is not None:
        facts.append(f"running for {found['running_ms'] / 1000:.1f} s")
    facts.append(f"coordinated by broker {found['coordinator']}")
    print(f"Transactional id {transactional_id}: {', '.join(facts)}")
    if found["partitions"]:
        print()
        print_table(
            found["partitions"],
            {"topic": "topic", "partition": "partition", "start_offset": "start offset"},
            right=("partition", "start_offset"),
        )
        print(f"\n{count(len(found['partitions']), 'partition')}.")


@app.command("abort")
def abort(
    transactional_id: Annotated[
        str | None, typer.Argument(metavar="ID", help="The transactional id.", show_default=False)
    ] = None,
    topic: Annotated[
        str | None, typer.Option("--topic", metavar="TOPIC", help="Topic of a hanging transaction.")
    ] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", metavar="N", min=0, help="Its partition.")
    ] = None,
    start_offset: Annotated[
        int | None,
        typer.Option("--start-offset", metavar="OFFSET", min=0, help="Its first offset in the partition."),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Abort a transaction.

    With an id, the coordinator aborts its open transaction. The producer is fenced and must start again.

    With --topic, --partition and --start-offset, a hanging transaction is aborted in that partition only: one
    that its coordinator does not know, and that blocks read_committed consumers.
    `tidelog txn describe` and Kafka's `kafka-transactions.sh find-hanging` find such transactions.

    Example: tidelog txn abort billing-1
    """
    by_place = (topic, partition, start_offset)
    if transactional_id is not None and by_place == (None, None, None):
        with TxnClient(bootstrap) as client:
            txn_admin.abort_by_id(client, transactional_id)
        print(f"Aborted the transaction of {transactional_id}; its producer must start again.")
    elif (
        transactional_id is None and topic is not None and partition is not None and start_offset is not None
    ):
        with TxnClient(bootstrap) as client:
            producer_id = txn_admin.abort_by_place(client, topic, partition, start_offset)
        print(f"Aborted the transaction of producer {producer_id} in {topic}-{partition}.")
    else:
        raise InvalidCommandLine("Pass either an ID, or --topic, --partition and --start-offset together.")
