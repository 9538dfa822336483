"""Parts of docs/replication.md that are drawn from the code: the promises, the policies, the steps between
modes and the golden stories. ``tools/docs.py`` puts them where the page names them.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tidelog.cli.modes import QUESTIONS
from tidelog.controller.successions.mode_changes import STEPS
from tidelog.planner.faults import Faults, Placement
from tidelog.planner.model import outcome
from tidelog.planner.promises import EXAMPLES, Terms, may_lose
from tidelog.planner.table import describe
from tidelog.replication.modes import MODES
from tidelog.replication.progress import Progress

GOLDEN = Path(__file__).resolve().parent.parent / "tests" / "golden"
TITLES = {
    "isr": "`isr`, 3 replicas, min ISR 2",
    "async": "`primary-backup`, 2 replicas, 1 copy",
    "double": "`primary-backup`, 2 replicas, 2 copies",
    "quorum": "`quorum`, 3 replicas",
}
HELD = {1: 7, 2: 5, 3: 3}  # broker → end offset, in the picture of what is committed


def blocks() -> dict[str, Callable[[], str]]:
    """Name of each block and what draws it."""
    stories = {f"story {path.stem}": _story(path) for path in sorted(GOLDEN.glob("*.txt"))}
    return {
        "promises": promises,
        "committed": committed,
        "faults": faults,
        "steps": steps,
        **stories,
    }


def promises() -> str:
    """The table that ``tidelog modes`` prints."""
    columns = {_title(name, terms): describe(terms) for name, terms in EXAMPLES.items()}
    rows = [["", *columns]]
    rows += [
        [words, *(_cell(each[key]) for each in columns.values())]
        for key, words in QUESTIONS.items()
        if key != "replicas"
    ]
    return _table(rows)


def _title(name: str, terms: Terms) -> str:
    return TITLES.get(name, f"`{terms.mode}`, {terms.replicas} replicas")


def _cell(value: object) -> str:
    return "; or ".join(map(str, value)) if isinstance(value, list) else str(value)


def _table(rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    lines.insert(1, "|" + "---|" * len(rows[0]))
    return "\n".join(lines)


def committed() -> str:
    """Three replicas with logs of different lengths, and where each mode's policy puts the high watermark."""
    lines = ["offset        " + " ".join(str(offset) for offset in range(max(HELD.values())))]
    for broker, end in HELD.items():
        role = "leader" if broker == 1 else "follower"
        lines.append(f"{broker} {role:<11} " + "■ " * end)
    lines.append("")
    for name, (mode, minimum) in _PICTURED.items():
        end = MODES[mode].policy.committed(_leader(minimum))
        lines.append(f"{name:<13} " + "─ " * (end - 1) + f"┘ committed: everything before {end}")
    return "```\n" + "\n".join(line.rstrip() for line in lines) + "\n```"


_PICTURED = {
    "isr": ("isr", 2),
    "pb, 1 copy": ("primary-backup", 1),
    "pb, 2 copies": ("primary-backup", 2),
    "pb, 3 copies": ("primary-backup", 3),
    "quorum": ("quorum", 2),
}


def _leader(min_in_sync: int) -> Any:
    """Broker 1 with its followers, as policies see it."""
    progress = {}
    for broker, end in HELD.items():
        if broker != 1:
            progress[broker] = Progress(0)
            progress[broker].fetched(end, HELD[1], 0)
    return SimpleNamespace(
        me=1,
        replicas=tuple(HELD),
        in_sync=tuple(HELD),
        maximal_in_sync=frozenset(HELD),
        uncounted=frozenset(),
        progress=progress,
        durable_end_offset=HELD[1],
        epoch_start_offset=0,
        high_watermark=0,
        min_in_sync=min_in_sync,
    )


def faults() -> str:
    """Every set of failed replicas, and what continues; A is the leader or primary."""
    rows = [["failed", *(_title(name, terms) for name, terms in EXAMPLES.items())]]
    for size in range(1, 4):
        for dead in combinations("ABC", size):
            rows.append([" ".join(dead), *(_outcome(terms, dead) for terms in EXAMPLES.values())])
    return _table(rows)


def _outcome(terms: Terms, dead: tuple[str, ...]) -> str:
    places = frozenset("ABC".index(name) for name in dead)
    if any(place >= terms.replicas for place in places):
        return "–"
    # With controllers on other machines.
    found = outcome(terms, Placement(tuple(range(terms.replicas))), Faults(dead=places))
    going_on = [word for word, goes in (("writes", found.writes), ("reads", found.reads)) if goes]
    lost = "; data loss possible if lost for good" if may_lose(terms, destroyed=places) else ""
    return (" and ".join(going_on) or "nothing") + lost


def steps() -> str:
    """Which mode can follow which, as a Mermaid graph."""
    lines = ["```mermaid", "flowchart LR"]
    names = {mode: mode.replace("-", "_") for pair in STEPS for mode in pair}
    lines += [f'    {name}["{mode}"]' for mode, name in names.items()]
    for (now, after), step in STEPS.items():
        lines.append(f"    {names[now]} -->|{step.safe_when}| {names[after]}")
    return "\n".join([*lines, "```"])


def _story(path: Path) -> Callable[[], str]:
    return lambda: "```\n" + path.read_text(encoding="utf-8").rstrip() + "\n```"


def fill(text: str, drawn: Mapping[str, Callable[[], str]]) -> str:
    """A page with all its blocks redrawn. Raises KeyError for an unknown block."""
    return "".join(_pieces(text, drawn))


BEGIN, END = "<!-- drawn: ", "<!-- end -->"


def _pieces(text: str, drawn: Mapping[str, Callable[[], str]]) -> Iterator[str]:
    rest = text
    while BEGIN in rest:
        before, _, behind = rest.partition(BEGIN)
        name, _, behind = behind.partition(" -->")
        _, _, rest = behind.partition(END)
        yield f"{before}{BEGIN}{name} -->\n{drawn[name]()}\n{END}"
    yield rest
