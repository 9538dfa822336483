"""The report: one self-contained HTML page, and the same as JSON.

Owns the order of the page. It needs no network, no script and no other file.
"""

from collections import Counter
from collections.abc import Sequence
from html import escape
from pathlib import Path

import msgspec

from tidelog.lab.report.cells import CLASSES, SIGNS, card, in_matrix
from tidelog.lab.report.style import PATTERNS, STYLE
from tidelog.lab.results import ALLOWED, BROKEN, KEPT, NOT_RUN, Cell, Results

_MEANINGS = {
    KEPT: "nothing happened that the mode rules out.",
    ALLOWED: "records were lost, as the mode says that they may be after this fault.",
    BROKEN: "something happened that the mode rules out, or a check of the experiment failed.",
    NOT_RUN: "there is no round of it.",
}
_TERMS = {
    "lost": "acknowledged, and not there when everything was read to the end.",
    "read, then gone": "a consumer group read it, and it was not there at the end.",
    "no writes for": "the longest time in which writes to one partition waited and none was acknowledged, as "
    "the producer saw it. The part in which a second client without back-off did write is the client's own "
    "back-off.",
    "no reads for": "the longest time in which acknowledged records waited for a reader, or in which no "
    "broker returned records of a partition.",
    "latency": "from handing a record to the client until its acknowledgement; by the moment it was sent: "
    "before, during or after the fault.",
    "full redundancy": "from the end of the last fault until every replica was in sync.",
}


def write(results: Results, path: Path) -> list[Path]:
    """The page at ``path`` and JSON beside it; only JSON if ``path`` ends in ``.json``. What was written."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    data = path.with_suffix(".json")
    data.write_bytes(to_json(results))
    if path == data:
        return [data]
    path.write_text(page(results), encoding="utf-8")
    return [path, data]


def to_json(results: Results) -> bytes:
    return msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n"


def page(results: Results) -> str:
    title = "Tidelog lab"
    parts = [
        PATTERNS,
        f"<h1>{title}</h1>",
        f'<p class="quiet">{_subtitle(results)}</p>',
        "" if results.is_complete else _incomplete(),
        _tally(results.cells),
        _matrix(results.cells),
        *_experiments(results.cells),
        _about(results),
    ]
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{title}</title><style>{STYLE}</style>"
    )
    body = "\n".join(part for part in parts if part)
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n{body}\n</body></html>\n'


def _subtitle(results: Results) -> str:
    rounds = sum(len(cell.rounds) for cell in results.cells)
    minutes, seconds = divmod(round(results.seconds), 60)
    took = f"{minutes} min {seconds} s" if minutes else f"{seconds} s"
    where = results.machine
    machine = f", on {where.cores} cores of {where.cpu}" if where.cpu else ""
    plural = "round" if rounds == 1 else "rounds"
    return f"{escape(results.started)}, {took}, {rounds} {plural}{escape(machine)}"


def _incomplete() -> str:
    return (
        "<p><strong>Not complete:</strong> the run was interrupted, or an experiment could not be run to its "
        "end. The report has what was measured.</p>"
    )


def _tally(cells: Sequence[Cell]) -> str:
    counts = Counter(cell.verdict for cell in cells)
    spans = [
        f'<span class="{CLASSES[verdict]}"><b class="word" style="display:inline">{SIGNS[verdict]} '
        f"{counts[verdict]} {verdict}</b></span>"
        for verdict in (KEPT, ALLOWED, BROKEN, NOT_RUN)
        if counts[verdict]
    ]
    return f'<div class="tally">{"".join(spans)}</div>'


def _columns(cells: Sequence[Cell]) -> list[tuple[str, str]]:
    """Target and mode, in the order in which they came."""
    return list(dict.fromkeys((cell.target, cell.mode) for cell in cells))


def _by_experiment(cells: Sequence[Cell]) -> dict[str, list[Cell]]:
    found: dict[str, list[Cell]] = {}
    for cell in cells:
        found.setdefault(cell.experiment, []).append(cell)
    return found


def _matrix(cells: Sequence[Cell]) -> str:
    columns = _columns(cells)
    several = len({target for target, _ in columns}) > 1
    heads = "".join(
        f"<th>{escape(mode)}{_target(target) if several else ''}</th>" for target, mode in columns
    )
    rows = []
    for experiment, mine in _by_experiment(cells).items():
        by_column = {(cell.target, cell.mode): cell for cell in mine}
        inside = "".join(in_matrix(by_column.get(column)) for column in columns)
        head = f'<th class="row">{escape(experiment)}<span class="target">{escape(mine[0].title)}</span></th>'
        rows.append(f"<tr>{head}{inside}</tr>")
    head = f'<thead><tr><th class="row"></th>{heads}</tr></thead>'
    return f'<div class="wide"><table class="matrix">{head}<tbody>{"".join(rows)}</tbody></table></div>'


def _target(target: str) -> str:
    return f'<span class="target">{escape(target)}</span>'


def _experiments(cells: Sequence[Cell]) -> list[str]:
    parts = []
    for experiment, mine in _by_experiment(cells).items():
        parts.append(f'<h2>{escape(experiment)}</h2><p class="quiet">{escape(mine[0].title)}</p>')
        parts += [card(cell) for cell in mine]
    return parts


def _about(results: Results) -> str:
    where = results.machine
    said = {
        "processor": f"{where.cpu}, {where.cores} cores",
        "memory": f"{where.memory_gb:g} GB",
        "system": where.system,
        "disk": where.disk,
        "load before it began": f"{where.load_average:g}",
        **results.versions,
    }
    known = {name: value for name, value in said.items() if value}
    facts = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in known.items())
    command = f"<p>To repeat all of it:</p><pre>{escape(results.command)}</pre>" if results.command else ""
    verdicts = "".join(f"<dt>{SIGNS[word]} {word}</dt><dd>{words}</dd>" for word, words in _MEANINGS.items())
    terms = "".join(f"<dt>{word}</dt><dd>{words}</dd>" for word, words in _TERMS.items())
    return (
        f"<h2>What the words mean</h2><dl>{verdicts}{terms}</dl>"
        f"<h2>Machine and versions</h2><dl>{facts}</dl>{command}"
    )
