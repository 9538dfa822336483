"""What the demo shows: four lines, the brokers, and which keys do what."""

from collections.abc import Mapping

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tidelog.lab.account import Verdict
from tidelog.lab.demo.sentences import STALLED_S
from tidelog.lab.demo.stage import Line, Snapshot

SIGNS = {
    "up": ("●", "green"), "returning": ("◌", "yellow"), "killed": ("✕", "bold red"),
    "frozen": ("❄", "bold cyan"), "cut off": ("✂", "bold magenta"),
}  # fmt: skip
KEYS = "k kill   f freeze   c cut off, then 1 2 3 or l for the leader   ·   h heal all   ·   q quit"


def screen(now: Snapshot, said: str, pending: str, is_interactive: bool) -> RenderableType:
    parts: list[RenderableType] = [_brokers(now), _table(now), Text(said, style="bold")]
    if is_interactive:
        hint = f"{pending} which broker? 1 2 3, or l for the leader" if pending else KEYS
        parts.append(Text(hint, style="bold yellow" if pending else "dim"))
    return Group(*parts)


def _brokers(now: Snapshot) -> Text:
    line = Text(f"tidelog demo  {now.seconds:5.0f} s   ", style="bold")
    for number, state in now.brokers.items():
        sign, style = SIGNS.get(state, ("?", ""))
        line.append(f"  {sign} broker {number} {state}", style=style)
    return line


def _table(now: Snapshot) -> Table:
    table = Table(expand=True, header_style="dim")
    table.add_column("mode", width=16)
    table.add_column("leader", justify="right", width=7)
    for name in ("acknowledged", "per s", "lost", "twice"):
        table.add_column(name, justify="right", width=max(len(name), 5))
    table.add_column("stalled for", justify="right", width=9)
    table.add_column("longest", justify="right", width=7)
    table.add_column("what is happening, and why", ratio=1)
    for line in now.lines:
        table.add_row(*_cells(line))
    return table


def _cells(line: Line) -> list[Text]:
    is_stalled = line.stalled_s >= STALLED_S
    return [
        Text(line.title, style="bold"),
        Text(_leader(line), style="" if line.leader >= 0 and not line.is_stand_in else "bold red"),
        Text(f"{line.acknowledged:,}"),
        Text(f"{line.per_s:.0f}"),
        Text(str(line.lost), style="bold red" if line.lost else ""),
        Text(str(line.duplicated), style="bold red" if line.duplicated else ""),
        Text(f"{line.stalled_s:.1f} s" if is_stalled else "–", style="bold red" if is_stalled else "dim"),
        Text(f"{line.longest_s:.1f} s"),
        Text(line.sentence),
    ]


def _leader(line: Line) -> str:
    if line.leader < 0:
        return "none"
    return f"none, {line.leader} reads" if line.is_stand_in else str(line.leader)


def plain(now: Snapshot) -> str:
    """One line, for output that is no terminal."""
    states = " ".join(f"{number}={state}" for number, state in now.brokers.items())
    figures = "; ".join(
        f"{line.title}: leader {_leader(line)}, {line.acknowledged} acknowledged, {line.lost} lost, "
        f"{line.duplicated} twice, stalled {line.stalled_s:.1f} s"
        for line in now.lines
    )
    return f"{now.seconds:.1f} s, brokers {states}; {figures}"


def verdicts(found: Mapping[str, Verdict], longest: Mapping[str, float]) -> Table:
    table = Table(title="What became of every record", title_justify="left", header_style="dim")
    table.add_column("mode", no_wrap=True)
    for name in ("acknowledged", "there", "lost", "twice", "disordered", "no writes for"):
        table.add_column(name, justify="right", no_wrap=True)
    for title, one in found.items():
        bad = "" if one.is_clean else "bold red"
        table.add_row(
            Text(title, style=bad), f"{one.acknowledged:,}", f"{one.received - one.doubled:,}",
            str(one.lost), str(one.doubled), str(one.disordered), f"{longest.get(title, 0.0):.1f} s",
        )  # fmt: skip
    return table
