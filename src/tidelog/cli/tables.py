"""Printing: a table for people, JSON for scripts, the same content in both."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from tidelog.cli.plain import plain, plain_json


def print_json(value: Any) -> None:
    print(plain_json(json.dumps(value, indent=2, ensure_ascii=False)))


PROSE_WIDTH = 150  # of a table in a file or pipe whose cells are sentences


def print_table(
    rows: Sequence[Mapping[str, Any]],
    columns: Mapping[str, str],
    right: Iterable[str] = (),
    *,
    prose: bool = False,
) -> None:
    """One line per row; ``columns`` maps keys of a row to headings, ``right`` names the numeric ones. Rows of
    ``prose`` take as many lines as their sentences need, with a rule between them.
    """
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, show_lines=prose)
    numeric = set(right)
    for key, heading in columns.items():
        # A narrow terminal may break sentences, not the words that say what a column is about.
        least = max((len(word) for word in heading.split()), default=None) if prose else None
        side: Literal["left", "right"] = "right" if key in numeric else "left"
        table.add_column(heading, justify=side, overflow="fold", min_width=least)
    for row in rows:
        table.add_row(*(Text(plain(as_cell(row[key]))) for key in columns))
    console = Console(file=sys.stdout)
    # Into a file or pipe a table is as wide as it needs to be: a wrapped name cannot be found by grep.
    if not console.is_terminal:
        needed = table.__rich_measure__(console, console.options.update(width=10_000)).maximum
        console = Console(file=sys.stdout, width=PROSE_WIDTH if prose else max(80, needed))
        # rich pads every line with blanks, which scripts that cut or compare lines do not want.
        with console.capture() as drawn:
            console.print(table)
        print("\n".join(line.rstrip() for line in drawn.get().splitlines()))
        return
    console.print(table)


def as_cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "-"
    return str(value)


def count(number: int, noun: str) -> str:
    """``1 record``, ``2 records``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
