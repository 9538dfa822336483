"""``tidelog pipeline compact`` and ``expire``: small files merged and old ones removed."""

from dataclasses import asdict
from typing import Annotated

import typer

from tidelog.cli.options import Json
from tidelog.cli.pipeline.run import Master, Remote, SparkSettings, shown_progress, spark_session
from tidelog.cli.pipeline.table_options import Catalog, TableOptions, chosen_options
from tidelog.cli.tables import count, print_json

Target = Annotated[
    str,
    typer.Argument(metavar="ARCHIVE", help="Its directory, URI or namespace.", show_default=False),
]


def compact(
    target: Target,
    file_mb: Annotated[
        int, typer.Option("--file-mb", metavar="MB", min=1, help="Merge small files into files of this size.")
    ] = 128,
    catalog: Catalog = None,
    table_options: TableOptions = [],  # noqa: B006 — typer reads the default and never changes it
    master: Master = None,
    remote: Remote = None,
    conf: SparkSettings = [],  # noqa: B006
    json: Json = False,
) -> None:
    """Merge the small files of an archive. The records stay the same, and other readers are not disturbed.

    Example: tidelog pipeline compact /data/orders
    """
    with spark_session("compact", master, remote, conf) as spark:
        from tidelog.spark.pipelines.upkeep import Compaction
        from tidelog.spark.pipelines.upkeep import compact as run

        job = Compaction(target, file_mb << 20, chosen_options(catalog, table_options))
        with shown_progress("compact", json) as tell:
            report = run(spark, job, tell=tell)
    if json:
        print_json(asdict(report))
        return
    print(
        f"replaced {count(report.removed_files, 'file')} by {report.added_files}; "
        f"{target} has {count(report.files, 'file')}"
    )


def expire(
    target: Target,
    older_than: Annotated[
        str,
        typer.Option(
            "--older-than", metavar="AGE", help="Keep snapshots that are younger, such as '7 days'."
        ),
    ] = "7 days",
    catalog: Catalog = None,
    table_options: TableOptions = [],  # noqa: B006
    master: Master = None,
    remote: Remote = None,
    conf: SparkSettings = [],  # noqa: B006
    json: Json = False,
) -> None:
    """Remove old snapshots of an archive, and files that only they or killed runs used. The records stay.

    Example: tidelog pipeline expire /data/orders --older-than '7 days'
    """
    with spark_session("expire", master, remote, conf) as spark:
        from tidelog.spark.pipelines.upkeep import Expiry
        from tidelog.spark.pipelines.upkeep import expire as run

        job = Expiry(target, older_than, chosen_options(catalog, table_options))
        with shown_progress("expire", json) as tell:
            report = run(spark, job, tell=tell)
    if json:
        print_json(asdict(report))
        return
    print(f"removed {count(report.removed_files, 'file')}; {target} has {count(report.files, 'file')}")
