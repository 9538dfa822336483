"""``tidelog pipeline``: the finished pipelines of :mod:`tidelog.spark.pipelines` as commands."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from tidelog.cli.client_config import refuse_chosen
from tidelog.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Json, flag
from tidelog.cli.pipeline.archiving import (
    AllowLoss,
    BreakLock,
    DeadLetter,
    FromTime,
    Page,
    RowsPerSecond,
    RowsPerStep,
    ToTime,
    print_archived,
    time_ms,
)
from tidelog.cli.pipeline.auditing import audit, verify
from tidelog.cli.pipeline.decoding import (
    Format,
    Message,
    RegistryOptions,
    RegistryUrl,
    Schema,
    SchemaIds,
    Subject,
    decoding,
)
from tidelog.cli.pipeline.figures import print_indicators
from tidelog.cli.pipeline.run import (
    Every,
    Master,
    Remote,
    SourceOptions,
    SparkSettings,
    pairs,
    shown_progress,
    source_options,
    spark_session,
    stop_on_signals,
)
from tidelog.cli.pipeline.run_page import on_page
from tidelog.cli.pipeline.schedule import schedule
from tidelog.cli.pipeline.table_options import (
    Catalog,
    PartitionBy,
    TableFormat,
    TableOptions,
    chosen_format,
    chosen_options,
)
from tidelog.cli.pipeline.topics import require_topics
from tidelog.cli.pipeline.upkeep import compact, expire
from tidelog.cli.tables import count, print_json

if TYPE_CHECKING:
    from tidelog.spark.pipelines import Transform

app = typer.Typer(
    no_args_is_help=True,
    help="Run pipelines on Spark, on this machine or on a cluster.",
)

app.command("compact")(compact)
app.command("expire")(expire)

Topic = Annotated[
    str, typer.Argument(metavar="TOPIC[,TOPIC…]", help="Topics, separated by commas.", show_default=False)
]


@app.command("archive")
def archive(
    topics: Topic,
    target: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="ARCHIVE",
            help="Directory or URI of the archive; with --catalog, its namespace.",
            show_default=False,
        ),
    ],
    value_format: Format = None,
    schema: Schema = None,
    registry: RegistryUrl = None,
    registry_options: RegistryOptions = [],  # noqa: B006 — typer reads the default and never changes it
    subject: Subject = None,
    schema_ids: SchemaIds = [],  # noqa: B006
    message: Message = None,
    drop_value: Annotated[
        bool, flag("--drop-value", help="Keep only the decoded values, not the original bytes.")
    ] = False,
    table_format: TableFormat = None,
    delta: Annotated[bool, flag("--delta", help="The same as --table-format delta.")] = False,
    catalog: Catalog = None,
    table_options: TableOptions = [],  # noqa: B006
    partition_by: PartitionBy = None,
    merge_mb: Annotated[
        int,
        typer.Option(
            "--merge-mb", metavar="MB", min=0, help="Merge small files into files of this size; 0: never."
        ),
    ] = 128,
    every: Every = None,
    from_time: FromTime = None,
    to_time: ToTime = None,
    rows_per_step: RowsPerStep = None,
    rows_per_second: RowsPerSecond = None,
    allow_loss: AllowLoss = False,
    break_lock: BreakLock = False,
    dead_letter: DeadLetter = None,
    page: Page = None,
    options: SourceOptions = [],  # noqa: B006 — typer reads the default and never changes it
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    master: Master = None,
    remote: Remote = None,
    conf: SparkSettings = [],  # noqa: B006
    json: Json = False,
) -> None:
    """Copy topics to tables, each record once, partitioned by topic and date. A repeated run adds new ones.

    Example: tidelog pipeline archive orders --to /data/orders --format json --schema 'id long, amount double'
    """
    with (
        on_page(page, target=target, topics=topics) as done,
        spark_session("archive", master, remote, conf, bootstrap=bootstrap) as spark,
    ):
        from tidelog.spark.pipelines import Archive, Topics
        from tidelog.spark.pipelines import archive as run

        job = Archive(
            Topics(bootstrap, topics, options=source_options(bootstrap, options)),
            target,
            decoding(
                topics,
                value_format,
                schema,
                registry,
                registry_options,
                subject,
                schema_ids,
                message,
            ),
            not drop_value,
            chosen_format(table_format, delta=delta),
            merge_mb << 20,
            every,
            time_ms(from_time, "--from-time"),
            time_ms(to_time, "--to-time"),
            rows_per_step,
            rows_per_second,
            allow_loss,
            chosen_options(catalog, table_options, partition_by, break_lock=break_lock),
            dead_letter,
        )
        with stop_on_signals() as stop, shown_progress("archive", json) as tell:
            report = run(spark, job, stop=stop, tell=tell)
        done(asdict(report))
    if json:
        print_json(asdict(report))
        return
    print_archived(report)


@app.command("restore")
def restore(
    source: Annotated[
        str,
        typer.Argument(metavar="ARCHIVE", help="Its directory, URI or namespace.", show_default=False),
    ],
    topic: Annotated[
        str | None,
        typer.Option(
            "--topic",
            metavar="NAME",
            help="Write all records to this topic.",
            show_default="the original topic",
        ),
    ] = None,
    where: Annotated[
        str,
        typer.Option(
            "--where", metavar="SQL", help="Only matching records, such as \"date >= '2026-05-01'\"."
        ),
    ] = "",
    catalog: Catalog = None,
    table_options: TableOptions = [],  # noqa: B006
    by_key: Annotated[
        bool, flag("--by-key", help="Choose partitions by key instead of the original ones.")
    ] = False,
    partitions: Annotated[
        int | None,
        typer.Option(
            "--partitions",
            metavar="N",
            min=1,
            help="Partitions of a topic that is created.",
            show_default="as many as the archive has",
        ),
    ] = None,
    replicas: Annotated[
        int | None,
        typer.Option(
            "--replicas",
            metavar="N",
            min=1,
            help="Replicas of a topic that is created.",
            show_default="the cluster's default",
        ),
    ] = None,
    assignments: Annotated[
        list[str],
        typer.Option(
            "--set", metavar="KEY=VALUE", help="A setting of a topic that is created; may be repeated."
        ),
    ] = [],  # noqa: B006
    options: SourceOptions = [],  # noqa: B006
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    master: Master = None,
    remote: Remote = None,
    conf: SparkSettings = [],  # noqa: B006
    json: Json = False,
) -> None:
    """Write the records of an archive back to topics, all or none. Missing topics are created.

    Example: tidelog pipeline restore /data/orders --topic orders-again
    """
    with spark_session("restore", master, remote, conf, bootstrap=bootstrap) as spark:
        from tidelog.spark.pipelines import NewTopics, Restore
        from tidelog.spark.pipelines import restore as run

        job = Restore(
            source,
            bootstrap,
            topic,
            where,
            not by_key,
            options=source_options(bootstrap, options),
            table_options=chosen_options(catalog, table_options),
            new_topics=NewTopics(partitions, replicas, pairs(assignments, "--set")),
        )
        with shown_progress("restore", json) as tell:
            report = run(spark, job, tell=tell)
    if json:
        print_json(asdict(report))
    else:
        created = f" (created {', '.join(report.created)})" if report.created else ""
        print(f"restored {count(report.records, 'record')} to {', '.join(report.topics)}{created}")
        if report.kept:
            print(f"retention.ms=-1 in {', '.join(report.kept)}: by default, old records would be deleted")


@app.command("transform")
def transform(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="The transformation, as YAML or SQL.", show_default=False)
    ],
    every: Every = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    master: Master = None,
    remote: Remote = None,
    conf: SparkSettings = [],  # noqa: B006
    json: Json = False,
) -> None:
    """Run SQL from topics to a topic or table, exactly once. A repeated run processes new records.

    Example: tidelog pipeline transform totals.yaml --every '5 seconds'
    """
    refuse_chosen("the file of a transform has the kafka.* options of its topics")
    with spark_session("transform", master, remote, conf) as spark:
        from dataclasses import replace

        from tidelog.spark.pipelines.transform import transform as run
        from tidelog.spark.pipelines.transform_file import read_transform

        job = read_transform(file, bootstrap=bootstrap)
        if every is not None:
            job = replace(job, every=every)
        if remote is None:
            _require_topics_of(job)
        with stop_on_signals() as stop, shown_progress("transform", json) as tell:
            report = run(spark, job, stop=stop, tell=tell)
    if json:
        print_json(asdict(report))
        return
    apart = sum(report.undecodable.values())
    said = f"; {count(apart, 'undecodable record')} in {job.checkpoint}/undecodable" if apart else ""
    print(f"{'stopped after' if report.stopped else 'read'} {count(report.rows, 'record')}{said}")


app.command("audit")(audit)
app.command("verify")(verify)


@app.command("indicators")
def indicators(
    histories: Annotated[
        list[str],
        typer.Argument(metavar="HISTORY…", help="Files or directories of events.", show_default=False),
    ],
    target: Annotated[
        str | None, typer.Option("--to", metavar="DIR", help="Write tables, charts and index.html there.")
    ] = None,
    step_s: Annotated[
        float | None,
        typer.Option(
            "--step",
            metavar="SECONDS",
            help="Time step of the charts.",
            show_default="about 100 steps in the longest run",
        ),
    ] = None,
    master: Master = None,
    remote: Remote = None,
    conf: SparkSettings = [],  # noqa: B006
    json: Json = False,
) -> None:
    """Turn the events of load and fault runs into throughput, latency, losses, duplicates, order and
    downtime.

    Example: tidelog pipeline indicators history --to report
    """
    with spark_session("indicators", master, remote, conf) as spark:
        from tidelog.spark.pipelines.indicators import Indicators, write_report
        from tidelog.spark.pipelines.indicators import indicators as run

        with shown_progress("indicators", json) as tell:
            report = run(spark, Indicators(histories, step_s), tell=tell)
    written = write_report(report, target) if target is not None else []
    if json:
        print_json(report.as_dict())
        return
    print_indicators(report)
    if written:
        print(f"{written[-1]} shows the report")


app.command("schedule")(schedule)


def _require_topics_of(job: "Transform") -> None:
    for source in job.sources.values():
        names = [name.strip() for name in source.topics.names.split(",")]
        require_topics(source.topics.bootstrap, names, source.topics.options)
    require_topics(job.bootstrap, [job.output.topic], job.output.options)
