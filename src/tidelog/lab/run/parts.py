"""The real workload and the real figures behind the interfaces of :mod:`tidelog.lab.run.ports`."""

from pathlib import Path

from tidelog.lab.figures import Windows as FigureWindows
from tidelog.lab.figures import figures_of
from tidelog.lab.results import Figures, TimeLine
from tidelog.lab.run.ports import Parts, Windows, Workload, WorkloadPlan
from tidelog.lab.workload import Workload as ProcessWorkload


def _make_workload(plan: WorkloadPlan) -> Workload:
    return ProcessWorkload(
        plan.bootstrap,
        plan.topics,
        plan.loads,
        plan.consumers,
        plan.directory,
        plan.run,
        plan.mode_by_topic,
        pids=plan.pids,
    )


def _figures_of(directory: Path, topic: str, windows: Windows) -> tuple[Figures, TimeLine]:
    return figures_of(directory, topic, FigureWindows(*windows))


REAL = Parts(_make_workload, _figures_of)
