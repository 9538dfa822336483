"""Options of the commands that open an archive: its table format, and what that format needs."""

from typing import Annotated

import typer

from tidelog.cli.failure import InvalidCommandLine
from tidelog.cli.pipeline.run import pairs

TableFormat = Annotated[
    str | None,
    typer.Option(
        "--table-format",
        metavar="FORMAT",
        help="parquet, iceberg or delta; the same in every run of an archive.",
        show_default="parquet",
    ),
]
Catalog = Annotated[
    str | None,
    typer.Option(
        "--catalog",
        metavar="NAME",
        help="An Iceberg catalog of .pyiceberg.yaml; the archive is then a namespace, not a path.",
        show_default="none, the archive is a directory",
    ),
]
TableOptions = Annotated[
    list[str],
    typer.Option(
        "--table-option",
        metavar="KEY=VALUE",
        help="A property of the Iceberg catalog, such as uri=http://host:8181, or a storage option of Delta; "
        "may be repeated.",
    ),
]
PartitionBy = Annotated[
    str | None,
    typer.Option(
        "--partition-by",
        metavar="UNIT",
        help="Partition new files of Iceberg by hour, day, month or year of the timestamp.",
        show_default="as before, or by day",
    ),
]


def chosen_format(table_format: str | None, *, delta: bool) -> str:
    if delta and table_format not in (None, "delta"):
        raise InvalidCommandLine(f"--delta and --table-format {table_format} exclude each other.")
    return "delta" if delta else table_format or "parquet"


def chosen_options(
    catalog: str | None, options: list[str], partition_by: str | None = None, *, break_lock: bool = False
) -> dict[str, str]:
    """As :func:`tidelog.spark.pipelines.tables.opening.open_table` takes them."""
    chosen = pairs(options, "--table-option")
    if catalog is not None:
        chosen["catalog"] = catalog
    if partition_by is not None:
        chosen["partition-by"] = partition_by
    if break_lock:
        chosen["break-lock"] = "true"
    return chosen
