"""``--prove``: the faults of a plan in the lab, with real brokers, against what the plan says.

One experiment with a phase for each fault: as many dead brokers as are tolerated, one more, as many lost
disks as are tolerated, and a power failure of all. All settings of the plan run at the same time, each with a
topic of its own.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tidelog.cli.failure import CommandFailed, InvalidCommandLine
from tidelog.cli.plan.settings import topic_settings
from tidelog.planner.faults import default_controllers, listed
from tidelog.planner.needs import Candidate

if TYPE_CHECKING:
    from tidelog.cli.lab.running import Job
    from tidelog.lab.experiment.model import Experiment
    from tidelog.lab.results import Cell

COMMAND = "tidelog plan --prove"
LASTS_S = 6.0
DISK_S = 2.0  # until a broker whose disk was lost is started with an empty one
RATE = 400  # records a second of each topic
BROKERS_MAX = 7


def experiment_text(candidates: Sequence[Candidate], brokers: int) -> str:
    """An experiment of the lab in its own format: it can be kept and run again."""
    tolerated = max(each.writes for each in candidates)
    lines = ['title = "the faults of a plan"', "rounds = 1", "before = 1.0", "after = 1.0", "", "[cluster]"]
    lines += [f"brokers = {brokers}", ""]
    for each in candidates:
        lines += _topic(each, brokers)
    phases = [_kills(count, brokers) for count in (tolerated, tolerated + 1) if 0 < count < brokers]
    phases += _lost_disks(min(each.data for each in candidates), brokers)
    phases.append(_phase("power", "all brokers lose power at once", "power-failure", "all", 1.5))
    return "\n".join([*lines, *(line for phase in phases for line in phase)]) + "\n"


def _topic(candidate: Candidate, brokers: int) -> Iterator[str]:
    """Every broker leads one of the partitions, so that no fault misses the topic."""
    terms = candidate.terms
    settings = topic_settings(terms)
    mode = settings.pop("replication.mode")
    name = topic_name(candidate)
    inside = ", ".join(f'"{key}" = "{value}"' for key, value in settings.items())
    yield from ("[[topics]]", f'name = "{name}"', f'mode = "{mode}"', f"partitions = {brokers}")
    yield from (f"replicas = {terms.replicas}", f"settings = {{ {inside} }}", "")
    yield from ("[[loads]]", f'topic = "{name}"', f"rate = {RATE}", f'acks = "{terms.acks}"', "")
    yield from ("[[consumers]]", f'topic = "{name}"', f'group = "readers-{name}"', "")


def topic_name(candidate: Candidate) -> str:
    return f"plan-{candidate.terms.mode}"


def _kills(count: int, brokers: int) -> list[str]:
    title = f"{count} of {brokers} brokers {'is' if count == 1 else 'are'} dead"
    return _phase(f"dead-{count}", title, "kill", _numbers(1, count), LASTS_S)


def _lost_disks(count: int, brokers: int) -> list[list[str]]:
    """A phase in which so many brokers lose their disks; none where that cannot be tried. The brokers are the
    controllers: at most a minority of those is hit at once, and the lab waits for their readmission.
    """
    at_once = (len(default_controllers(range(1, brokers + 1))) - 1) // 2
    if not count or not at_once:
        return []
    groups = [(first, min(first + at_once - 1, count)) for first in range(1, count + 1, at_once)]
    title = f"{count} of {brokers} brokers {'loses its disk' if count == 1 else 'lose their disks'}"
    if len(groups) > 1:
        title += f", {'one' if at_once == 1 else at_once} at a time"
    steps = [("wipe", _numbers(*group), 2 * DISK_S * place, DISK_S) for place, group in enumerate(groups)]
    return [_timeline(f"disks-{count}", title, steps)]


def _numbers(first: int, last: int) -> str:
    return "+".join(map(str, range(first, last + 1)))


def _phase(name: str, title: str, fault: str, on: str, lasts: float) -> list[str]:
    return _timeline(name, title, [(fault, on, 0.0, lasts)])


Step = tuple[str, str, float, float]
"""Fault, brokers, when it begins, and how long it lasts."""


def _timeline(name: str, title: str, steps: Sequence[Step]) -> list[str]:
    ends = max(at + lasts for _, _, at, lasts in steps)
    lines = ["[[phases]]", f'name = "{name}"', f'title = "{title}"', f"lasts = {max(ends, 3.0)}", ""]
    for fault, on, at, lasts in steps:
        lines += ["[[phases.timeline]]", f"at = {at}", f'fault = "{fault}"', f'on = "{on}"']
        lines += [f"lasts = {lasts}", ""]
    return lines


def experiment_of(candidates: Sequence[Candidate], brokers: int) -> "Experiment":
    from tidelog.lab.experiment.reader import read_text

    return read_text(experiment_text(candidates, brokers), "plan", "plan.toml")


class Proof(NamedTuple):
    rows: tuple[Mapping[str, Any], ...] = ()
    plots: tuple[tuple[str, str], ...] = ()  # title, and the image as SVG
    is_broken: bool = False  # Something happened that the plan rules out.


NOT_PROVED = Proof()


def prove(candidates: Sequence[Candidate], brokers: int, jars: Path | None = None) -> Proof:
    """A row for each fault and setting: promised, observed, and whether they agree. With ``jars``: the isr
    settings on Apache Kafka as well, with the faults that can be made there.
    """
    if brokers > BROKERS_MAX:
        raise CommandFailed(
            f"--prove starts {brokers} brokers on this machine; {BROKERS_MAX} are the most that make sense."
        )
    from tidelog.cli.lab.running import run_all
    from tidelog.lab.targets.base import TargetError

    try:
        jobs = _jobs(candidates, brokers, jars)
    except TargetError as error:
        raise CommandFailed(str(error)) from error
    found = run_all(jobs, history=None, directory=None)
    if found.failures:
        raise CommandFailed(f"The lab could not run {listed(found.failures)}.")
    return _proof(found.results.cells)


def _jobs(candidates: Sequence[Candidate], brokers: int, jars: Path | None) -> "list[Job]":
    from tidelog.cli.lab.running import Job
    from tidelog.lab.run.schedule import expanded
    from tidelog.lab.targets.kafka import KafkaTarget
    from tidelog.lab.targets.tidelog import TidelogTarget

    ours = TidelogTarget()
    jobs = [Job(ours, each, COMMAND) for each in expanded(experiment_of(candidates, brokers))]
    if jars is None:
        return jobs
    theirs = KafkaTarget(jars)
    same = [each for each in candidates if each.terms.mode in theirs.modes]
    if not same:
        raise InvalidCommandLine("--jars: Apache Kafka has no mode but isr; add --mode isr.")
    phases = expanded(experiment_of(same, brokers))
    can = [each for each in phases if all(step.fault in theirs.faults for step in each.timeline)]
    return [*jobs, *(Job(theirs, each, f"{COMMAND} --jars DIR") for each in can)]


def _proof(cells: Sequence["Cell"]) -> Proof:
    from tidelog.lab.report.image import image
    from tidelog.lab.results import BROKEN

    rows = tuple(
        {
            "fault": cell.title,
            "target": cell.target,
            "settings": cell.mode,
            "verdict": cell.verdict,
            "acknowledged": sum(each.figures.acknowledged for each in cell.rounds),
            "lost": cell.worst.lost,
            "writes_stood_still_s": round(cell.worst.writes_stood_still_s, 2),
            "promised": list(cell.promise),
            "sentence": cell.sentence,
        }
        for cell in cells
    )
    plots = tuple(
        (f"{cell.title}, {cell.mode}, {cell.target}", image(each.time_line))
        for cell in cells
        for each in cell.rounds[:1]
    )
    return Proof(rows, plots, any(cell.verdict == BROKEN for cell in cells))
