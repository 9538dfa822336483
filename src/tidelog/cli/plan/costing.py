"""What ``tidelog plan calibrate`` measured, in a file of the user: ``~/.cache/tidelog/calibration.json``."""

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

from tidelog.cli.failure import CommandFailed
from tidelog.planner.costs import STEPS, Figures, predict
from tidelog.planner.promises import Terms

FORMAT = 1
EXAMPLES = (
    Terms("isr", 3, min_in_sync=2),
    Terms("isr", 3, min_in_sync=2, synced=True),
    Terms("primary-backup", 2, min_in_sync=1),
    Terms("primary-backup", 2, min_in_sync=2),
    Terms("quorum", 3, synced=True),
)
"""What is shown after a calibration."""
HOW = "`tidelog plan calibrate` measures this machine; then latency and throughput are predicted."


class Calibration(NamedTuple):
    measured: str  # when, in UTC
    version: str  # of Tidelog
    cores: int
    rounds: tuple[Figures, ...]


Known = Calibration | None


def path() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "tidelog" / "calibration.json"


def read() -> Known:
    """None: not measured, or by a version that measured something else."""
    try:
        found = json.loads(path().read_text(encoding="utf-8"))
        if found["format"] != FORMAT:
            return None
        rounds = tuple(_figures(each) for each in found["rounds"])
        return Calibration(str(found["measured"]), str(found["version"]), int(found["cores"]), rounds)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _figures(row: dict[str, Any]) -> Figures:
    figures = Figures(**{name: _value(value) for name, value in row.items()})
    if any(len(times) != STEPS + 1 for times in figures if isinstance(times, tuple)):
        raise ValueError("quantiles are missing")
    return figures


def _value(value: Any) -> Any:
    return tuple(map(float, value)) if isinstance(value, list) else float(value)


def write(calibration: Calibration) -> Path:
    state = {"format": FORMAT, **as_json(calibration)}
    try:
        path().parent.mkdir(parents=True, exist_ok=True)
        part = path().with_suffix(".part")
        part.write_text(json.dumps(state) + "\n", encoding="utf-8")
        part.replace(path())
    except OSError as error:
        raise CommandFailed(f"{path()} cannot be written: {error.strerror}.") from None
    return path()


def as_json(calibration: Calibration) -> dict[str, Any]:
    return {**calibration._asdict(), "rounds": [each._asdict() for each in calibration.rounds]}


def cost_rows(named: list[tuple[str, Terms]], brokers: int, known: Known) -> dict[str, Any] | None:
    """What is predicted for each of them; None: this machine was not measured."""
    if known is None:
        return None
    rows = []
    for name, terms in named:
        found = predict(terms, known.rounds, brokers, known.cores)
        rows.append({"settings": name} | {key: value._asdict() for key, value in found._asdict().items()})
    return {"measured": known.measured, "cores": known.cores, "brokers": brokers, "rows": rows}


def shown(value: dict[str, float]) -> str:
    """``0.62 (0.58–0.71)``."""
    digits = 2 if value["middle"] < 10 else 0
    return f"{value['middle']:.{digits}f} ({value['low']:.{digits}f}–{value['high']:.{digits}f})"
