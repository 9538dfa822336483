"""``tidelog pipeline audit`` and ``verify``: replicas with each other, an archive with its topics."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidelog.cli.failure import CommandFailed, InvalidCommandLine, ProblemFound
from tidelog.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Json, flag
from tidelog.cli.pipeline.run import (
    Master,
    Remote,
    SourceOptions,
    SparkSettings,
    shown_progress,
    source_options,
    spark_session,
)
from tidelog.cli.pipeline.table_options import Catalog, TableOptions, chosen_options
from tidelog.cli.tables import count, print_json, print_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidelog.spark.pipelines import AuditReport, VerifyReport


def audit(
    topics: Annotated[
        str,
        typer.Argument(
            metavar="[TOPIC[,TOPIC…]]",
            help="Topics, separated by commas; with --archive, all of its topics by default.",
            show_default=False,
        ),
    ] = "",
    directories: Annotated[
        list[str],
        typer.Option(
            "--dir",
            metavar="DIR",
            help="A broker's directory: read segments instead of asking brokers; repeat for each broker.",
        ),
    ] = [],  # noqa: B006
    compacted: Annotated[
        list[str],
        typer.Option(
            "--compacted",
            metavar="TOPIC",
            help="A compacted topic, compared record by record; brokers are asked which topics are.",
        ),
    ] = [],  # noqa: B006
    archive: Annotated[
        str | None,
        typer.Option("--archive", metavar="ARCHIVE", help="Verify this archive of the topics as well."),
    ] = None,
    catalog: Catalog = None,
    table_options: TableOptions = [],  # noqa: B006
    options: SourceOptions = [],  # noqa: B006
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    master: Master = None,
    remote: Remote = None,
    conf: SparkSettings = [],  # noqa: B006
    json: Json = False,
) -> None:
    """Compare all replicas of topics, and an archive with the topics. Exits with 3 if one is damaged or
    differs, and prints where.

    Example: tidelog pipeline audit orders --archive /data/orders
    """
    if not topics and archive is None:
        raise InvalidCommandLine("Name a topic, or an archive with --archive.")
    if directories and archive is not None:
        raise InvalidCommandLine("--archive compares with the brokers, so it excludes --dir.")
    asked = None if directories else bootstrap
    with spark_session("audit", master, remote, conf, bootstrap=asked) as spark:
        from tidelog.spark.pipelines import Audit, Verify
        from tidelog.spark.pipelines import audit as run

        given = source_options(bootstrap, options)
        names = [name for name in topics.split(",") if name]
        verified = None
        if archive is not None:
            wanted = Verify(archive, bootstrap, names, given, chosen_options(catalog, table_options))
            verified = _verified(spark, wanted, json)
            names = names or _existing_topics(verified)
        report = None
        if names:  # All topics of an archive may be gone.
            with shown_progress("audit", json) as tell:
                report = run(spark, Audit(names, bootstrap, directories, compacted, given), tell=tell)
    _conclude(report, verified, json)


def verify(
    target: Annotated[
        str,
        typer.Argument(metavar="ARCHIVE", help="Its directory, URI or namespace.", show_default=False),
    ],
    topics: Annotated[
        list[str],
        typer.Option(
            "--topic", metavar="TOPIC", help="Only this topic; may be repeated.", show_default="all topics"
        ),
    ] = [],  # noqa: B006
    replicas: Annotated[bool, flag("--replicas", help="Audit all replicas of the topics as well.")] = False,
    catalog: Catalog = None,
    table_options: TableOptions = [],  # noqa: B006
    options: SourceOptions = [],  # noqa: B006
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    master: Master = None,
    remote: Remote = None,
    conf: SparkSettings = [],  # noqa: B006
    json: Json = False,
) -> None:
    """Compare an archive with its topics: every committed record is there once. Exits with 3 if not, and
    prints which.

    Example: tidelog pipeline verify /data/orders
    """
    with spark_session("verify", master, remote, conf, bootstrap=bootstrap) as spark:
        from tidelog.spark.pipelines import Audit, Verify
        from tidelog.spark.pipelines import audit as run

        given = source_options(bootstrap, options)
        wanted = Verify(target, bootstrap, topics, given, chosen_options(catalog, table_options))
        report = _verified(spark, wanted, json)
        audited = None
        if replicas and (names := _existing_topics(report)):
            with shown_progress("audit", json) as tell:
                audited = run(spark, Audit(names, bootstrap, options=given), tell=tell)
    _conclude(audited, report, json)


def _verified(spark: "SparkSession", job: Any, json: bool) -> "VerifyReport":
    from tidelog.spark.pipelines import verify as run

    with shown_progress("verify", json) as tell:
        return run(spark, job, tell=tell)


def _existing_topics(report: "VerifyReport") -> list[str]:
    return sorted({one.topic for one in report.places if one.exists})


def _conclude(audited: "AuditReport | None", verified: "VerifyReport | None", json: bool) -> None:
    """Print both reports; :class:`ProblemFound` or :class:`CommandFailed` if it does not hold."""
    if json:
        print_json(
            {
                "holds": all(one.holds for one in (audited, verified) if one is not None),
                **({} if audited is None else asdict(audited)),
                **({} if verified is None else {"archive": asdict(verified)}),
            }
        )
    if verified is not None and not json:
        _print_verify(verified)
    if audited is not None and not json:
        _print_audit(audited)
    if failure := _failure(audited, verified):
        raise failure


def _failure(audited: "AuditReport | None", verified: "VerifyReport | None") -> CommandFailed | None:
    """The first finding; of replicas that could not be read, nothing is known."""
    is_unread = audited is not None and set(audited.counts) == {"unread"}
    if audited is not None and not audited.holds and not is_unread:
        return ProblemFound(f"The replicas are damaged or differ, {_first_replica(audited)}")
    if verified is not None and not verified.holds:
        found = verified.findings[0]
        return ProblemFound(
            f"The archive and the topics differ, first at {found.topic}-{found.partition}, offset "
            f"{found.offset}: {found.detail}."
        )
    if audited is not None and is_unread:
        return CommandFailed(f"The replicas cannot all be read, {_first_replica(audited)}")
    return None


def _first_replica(report: "AuditReport") -> str:
    first = report.findings[0]
    place = f" ({first.place})" if first.place else ""
    return (
        f"first at {first.topic}-{first.partition}, offset {first.offset}, broker {first.broker}: "
        f"{first.detail}{place}."
    )


def _print_audit(report: "AuditReport") -> None:
    states = [asdict(one) for one in report.replicas]
    columns = {
        "topic": "topic", "partition": "partition", "broker": "broker", "start_offset": "start",
        "end_offset": "end", "compared_to": "compared to", "behind": "behind",
    }  # fmt: skip
    print_table(states, columns, right=["partition", "start_offset", "end_offset", "compared_to", "behind"])
    for one in report.compacted:
        print(
            f"{one.topic}-{one.partition} on {one.broker} is compacted: "
            f"{count(one.records, 'record')} compared by offset, "
            f"the newest records of {count(one.keys, 'key')} looked for"
        )
    if report.findings:
        found = {name: name for name in ("kind", "topic", "partition", "offset", "broker", "detail", "place")}
        print_table([asdict(one) for one in report.findings], found, right=["partition", "offset"])
    else:
        print("all replicas are intact, and equal below the high watermark")


def _print_verify(report: "VerifyReport") -> None:
    columns = {
        "topic": "topic", "partition": "partition", "start_offset": "start", "end_offset": "end",
        "records": "records", "compared": "compared", "uncompared": "not compared",
        "missing_offsets": "gaps there", "behind": "not archived yet",
        "held_back": "behind open transactions", "note": "note",
    }  # fmt: skip
    if not any(one.held_back for one in report.places):
        del columns["held_back"]
    numbers = [*columns][1:-1]
    print_table([asdict(one) for one in report.places], columns, right=numbers)
    if not report.covers_values:
        print("the archive has no original values, so they were not compared")
    if report.compacted_away:
        print(f"{count(report.compacted_away, 'archived record')} compacted away in the topics since")
    if report.findings:
        found = {name: name for name in ("kind", "topic", "topic_id", "partition", "offset", "detail")}
        print_table([asdict(one) for one in report.findings], found, right=["partition", "offset"])
    else:
        print("the archive has every committed record of its offsets once")
