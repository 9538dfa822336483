"""A page about the last runs of an archive, for people who look at a scheduled pipeline now and then.

The page is its own memory: it has its runs as JSON, and the next run adds itself to them. So there is no
other state that could be lost or grow, and the page can be sent as one file.
"""

import fcntl
import html
import json
import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tidelog.cli.failure import CommandFailed, complain

RUNS_MAX = 500  # About two days of a run every five minutes.

_OPENING = '<script type="application/json" id="tidelog-runs">'
_CLOSING = "</script>"
_STYLE = """
:root{color-scheme:light dark;--ground:#fff;--ink:#1c2126;--faint:#d8dde2;--quiet:#5d6670;--bad:#b3261e}
@media(prefers-color-scheme:dark){:root{--ground:#15181c;--ink:#e6e9ec;--faint:#343a41;--quiet:#9aa4af;--bad:#ff8a80}}
body{font:15px/1.5 system-ui,sans-serif;max-width:1120px;margin:2em auto;padding:0 1.2em;
background:var(--ground);color:var(--ink)}
.quiet{color:var(--quiet)}.bad{color:var(--bad);font-weight:600}.wide{overflow-x:auto}
table{border-collapse:collapse;font-size:14px;font-variant-numeric:tabular-nums;min-width:100%}
th,td{padding:.35em .55em;border-bottom:1px solid var(--faint);text-align:right;white-space:nowrap;
vertical-align:top}
.text{text-align:left}.note{text-align:left;white-space:normal;min-width:20em}
"""
_COLUMNS = (
    ("began", "began (UTC)"), ("outcome", "outcome"), ("records", "records"), ("undecodable", "undecodable"),
    ("dead_letters", "dead letters"), ("added_files", "files"), ("added_bytes", "bytes"),
    ("behind", "not archived"), ("duration_s", "seconds"), ("notes", "notes"),
)  # fmt: skip
_TEXT = {"began": "text", "outcome": "text", "notes": "note"}

Done = Callable[[Mapping[str, Any]], None]


@contextmanager
def on_page(path: str | None, *, target: str, topics: str) -> Iterator[Done]:
    """Adds the run that happens inside to the page, also if it fails. It reports by calling what it gets."""
    if path is None:
        yield lambda report: None
        return
    page = Path(path)
    _check(page)
    began, reports = time.time(), list[Mapping[str, Any]]()
    failure = ""
    try:
        yield reports.append
    except CommandFailed as failed:
        failure = str(failed)
        raise
    except KeyboardInterrupt:
        failure = "It was interrupted."
        raise
    finally:
        # The archive is as it is, whether there is a page about it or not.
        try:
            _add(page, _run_of(began, reports[-1] if reports else {}, failure), target, topics)
        except (OSError, CommandFailed) as error:
            complain(f"The page {page} could not be written: {error}")


def _check(page: Path) -> None:
    """Before Spark takes its time to start."""
    try:
        runs_of(page)
    except OSError as error:
        raise CommandFailed(f"The page {page} cannot be used: {error.strerror or error}.") from None
    if not page.parent.is_dir() or not os.access(page.parent, os.W_OK):
        raise CommandFailed(
            f"The page {page} cannot be written: {page.parent} must be a directory to write to."
        )


def runs_of(page: Path) -> list[dict[str, Any]]:
    """Of an existing page, oldest first. Another file is refused: it would be overwritten."""
    try:
        text = page.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return []
    _, opening, rest = text.partition(_OPENING)
    try:
        found = json.loads(rest.partition(_CLOSING)[0]) if opening else None
    except ValueError:
        found = None
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise CommandFailed(f"{page} is not a page of --page, and would be overwritten: name another file.")
    return found


def _run_of(began: float, report: Mapping[str, Any], failure: str) -> dict[str, Any]:
    outcome = "failed" if failure or not report else "stopped" if report.get("stopped") else "done"
    kept = (
        "records", "undecodable", "dead_letters", "added_files", "added_bytes", "merged_files", "total",
        "files", "total_bytes", "lag", "held_back", "notes",
    )  # fmt: skip
    run = {name: report[name] for name in kept if name in report}
    run |= {
        "began": datetime.fromtimestamp(began, UTC).isoformat(timespec="seconds"),
        "outcome": outcome,
        "duration_s": round(time.time() - began, 1),
    }
    return run | ({"failure": failure} if failure else {})


def _add(page: Path, run: dict[str, Any], target: str, topics: str) -> None:
    directory = os.open(page.parent, os.O_RDONLY)
    try:
        fcntl.flock(directory, fcntl.LOCK_EX)  # Runs that overlap end at the same time.
        runs = [*runs_of(page), run][-RUNS_MAX:]
        aside = page.with_name(f".{page.name}-{uuid.uuid4().hex}")
        try:
            aside.write_text(drawn(runs, target, topics), encoding="utf-8")
            aside.replace(page)
        finally:
            aside.unlink(missing_ok=True)
    finally:
        os.close(directory)


# --- what it looks like -------------------------------------------------------------------------------------


def drawn(runs: Sequence[Mapping[str, Any]], target: str, topics: str) -> str:
    title = html.escape(f"Archive of {topics}")
    failed = sum(run["outcome"] == "failed" for run in runs)
    said = f"{len(runs)} runs, {failed} of them failed" if len(runs) > 1 else "1 run"
    held = next((run for run in reversed(runs) if "total" in run), None)
    holds = f"; {held['total']:,} records, {held['total_bytes']:,} bytes" if held else ""
    heads = "".join(f'<th class="{_TEXT.get(name, "")}">{heading}</th>' for name, heading in _COLUMNS)
    rows = "".join(_row(run) for run in reversed(runs))
    data = json.dumps(runs, ensure_ascii=False).replace("<", "\\u003c")
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f"<style>{_STYLE}</style></head><body><h1>{title}</h1>"
        f'<p class="quiet">{html.escape(target)}: {said}{holds}</p>'
        f'<div class="wide"><table><tr>{heads}</tr>{rows}</table></div>'
        f"{_OPENING}{data}{_CLOSING}</body></html>\n"
    )


def _row(run: Mapping[str, Any]) -> str:
    lag: Mapping[str, int] = run.get("lag", {})
    behind = [f"{topic}: {count:,}" for topic, count in sorted(lag.items()) if count]
    held_back: Mapping[str, int] = run.get("held_back", {})
    behind += [f"{topic}: {count:,} behind open transactions" for topic, count in sorted(held_back.items())]
    notes = [*([run["failure"]] if "failure" in run else []), *behind, *run.get("notes", [])]
    cells = dict(run) | {"behind": sum(lag.values()) if "lag" in run else None, "notes": " ".join(notes)}
    return "<tr>" + "".join(_cell(name, cells.get(name)) for name, _ in _COLUMNS) + "</tr>"


def _cell(name: str, value: Any) -> str:
    kind = _TEXT.get(name, "")
    if name == "outcome" and value == "failed":
        kind += " bad"
    text = "–" if value is None else f"{value:,}" if isinstance(value, int | float) else str(value)
    return f'<td class="{kind}">{html.escape(text)}</td>'
