"""What only ``tidelog pipeline archive`` has: its options for time, pace and losses, and its report."""

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from tidelog.cli.failure import InvalidCommandLine
from tidelog.cli.options import flag
from tidelog.cli.tables import count, print_table

if TYPE_CHECKING:
    from tidelog.spark.pipelines import ArchiveReport

FromTime = Annotated[
    str | None,
    typer.Option(
        "--from-time",
        metavar="TIME",
        help="Only records from this time on, such as 2026-05-01T12:00 (UTC unless it says otherwise). "
        "Records before those of the archive are added to it.",
        show_default="the beginning",
    ),
]
ToTime = Annotated[
    str | None,
    typer.Option("--to-time", metavar="TIME", help="Only records before this time.", show_default="the end"),
]
RowsPerStep = Annotated[
    int | None,
    typer.Option(
        "--rows-per-step",
        metavar="ROWS",
        min=1,
        help="How many offsets are read at most before their records are added.",
        show_default="10 million",
    ),
]
RowsPerSecond = Annotated[
    int | None,
    typer.Option(
        "--rows-per-second", metavar="ROWS", min=1, help="Read no faster than this.", show_default="no limit"
    ),
]
AllowLoss = Annotated[
    bool,
    flag(
        "--allow-loss",
        help="Go on if records were deleted before they were archived, and report which.",
    ),
]
BreakLock = Annotated[
    bool, flag("--break-lock", help="Take a Parquet archive from another run that is known to be dead.")
]

DeadLetter = Annotated[
    str | None,
    typer.Option(
        "--dead-letter", metavar="TOPIC", help="Send undecodable records to this topic as well, each once."
    ),
]

Page = Annotated[
    str | None,
    typer.Option(
        "--page",
        metavar="FILE",
        help="Add this run to a page about the last 500 runs: HTML, one file. With --every, when it ends.",
    ),
]


def time_ms(text: str | None, option: str) -> int | None:
    """Milliseconds since 1970."""
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        raise InvalidCommandLine(
            f"{option} is {text!r}; allowed: a time such as 2026-05-01 or 2026-05-01T12:00:00Z."
        ) from None
    return int((found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp() * 1000)


def print_archived(report: "ArchiveReport") -> None:
    apart = f", {count(report.undecodable, 'undecodable record')} set apart" if report.undecodable else ""
    ended = "stopped after" if report.stopped else "archived"
    print(f"{ended} {count(report.records, 'record')}{apart}; {report.target} holds {report.total}")
    rows = [
        {"what": "this run", "records": report.records, "undecodable": report.undecodable,
         "files": report.added_files, "bytes": report.added_bytes, "seconds": f"{report.duration_s:.1f}"},
        {"what": "archive", "records": report.total, "undecodable": None, "files": report.files,
         "bytes": report.total_bytes, "seconds": None},
    ]  # fmt: skip
    columns = {
        "what": "", "records": "records", "undecodable": "undecodable", "files": "files", "bytes": "bytes",
        "seconds": "seconds",
    }  # fmt: skip
    print_table(rows, columns, right=[name for name in columns if name != "what"])
    if report.lag:
        lag = [
            {"topic": topic, "lag": behind, "held": report.held_back.get(topic, 0)}
            for topic, behind in sorted(report.lag.items())
        ]
        columns = {"topic": "topic", "lag": "not archived"}
        if report.held_back:
            columns["held"] = "behind open transactions"
        print_table(lag, columns, right=["lag", "held"])
    if report.dead_letters:
        print(f"sent {count(report.dead_letters, 'undecodable record')} to the dead-letter topic")
    for note in report.notes:
        print(note, file=sys.stderr)
