"""Runs experiments from the command line: directory, signals, errors in one sentence, results in any case."""

import contextlib
import errno
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from msgspec.structs import replace

from tidelog.cli.failure import CommandFailed
from tidelog.cli.lab.display import Display
from tidelog.lab.experiment.model import Experiment
from tidelog.lab.experiment.parties import NoSuchParty
from tidelog.lab.faults.errors import FaultError
from tidelog.lab.history import HistoryFailed
from tidelog.lab.local.broker import BrokerError
from tidelog.lab.report.machine import machine as machine_of
from tidelog.lab.report.machine import versions
from tidelog.lab.results import Cell, Results
from tidelog.lab.run.runner import Clock, ExperimentRunner, total_estimate_s
from tidelog.lab.targets.base import Target, TargetError

FREE_BYTES_MIN = 300_000_000


class Job(NamedTuple):
    """One experiment on one target."""

    target: Target
    experiment: Experiment
    command: str  # that repeats it


class Outcome(NamedTuple):
    results: Results
    failures: tuple[str, ...]  # experiments that could not be run to their end, a sentence each
    interrupted: bool


def run_all(jobs: Sequence[Job], *, history: Path | None, directory: Path | None) -> Outcome:
    """What was found is returned in any case."""
    started, began = datetime.now(UTC), time.monotonic()
    cells: list[Cell] = []
    failures: list[str] = []
    interrupted = False
    with _work_directory(directory) as work, Display() as display, _ended_in_order():
        machine = machine_of(work)
        clock = Clock(total_estimate_s([(job.experiment, job.target) for job in jobs]))
        for number, job in enumerate(jobs):
            runner = _runner(job, display, work / str(number), history, clock)
            why = ""
            try:
                runner.run()
            except KeyboardInterrupt:
                interrupted = True
            except Exception as error:
                why = sentence_of(error, work)
                failures.append(f"{job.experiment.name}: {why}")
                display.say(failures[-1])
            cells += [_explained(cell, why) for cell in runner.cells]
            if interrupted:
                break
    found = versions() | {job.target.name: job.target.version for job in jobs}
    results = Results(
        started=started.isoformat(timespec="seconds"),
        seconds=round(time.monotonic() - began, 1),
        is_complete=not (interrupted or failures),
        machine=machine,
        versions=found,
        command=" ".join(["tidelog", *sys.argv[1:]]),
        cells=tuple(cells),
    )
    return Outcome(results, tuple(failures), interrupted)


def _explained(cell: Cell, why: str) -> Cell:
    """A cell without a verdict says why it has none."""
    return cell if cell.rounds or not why else replace(cell, sentence=f"Not run to its end: {why}")


def _runner(
    job: Job, display: Display, directory: Path, history: Path | None, clock: Clock
) -> ExperimentRunner:
    from tidelog.lab.run.parts import REAL

    return ExperimentRunner(
        job.target,
        job.experiment,
        REAL,
        display,
        directory,
        history=history,
        clock=clock,
        command=job.command,
    )


def sentence_of(error: Exception, work: Path) -> str:
    """For failures that are no defect of the lab; everything else is raised again."""
    from tidelog.lab.read_back import LoadFailed
    from tidelog.lab.workload import WorkloadFailed

    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return f"There is no space left on the disk of {work}."
    if isinstance(error, NoSuchParty):
        return f"A fault has no party: {error}."
    if isinstance(error, BrokerError):
        return f"A broker failed: {str(error).partition(';')[0]}."
    if isinstance(error, LoadFailed):
        return f"What was written cannot be accounted for: {error}."
    if isinstance(error, ConnectionError):
        return f"The cluster does not answer: {error}."
    if isinstance(error, HistoryFailed):
        return f"{error}."
    if isinstance(error, TargetError | FaultError | WorkloadFailed):
        return str(error).strip().splitlines()[0]
    raise error


@contextlib.contextmanager
def _work_directory(directory: Path | None) -> Iterator[Path]:
    """For brokers and histories; removed in the end."""
    try:
        if directory is not None:
            directory.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix="tidelog-lab-", dir=directory))
    except OSError as error:
        place = directory or Path(tempfile.gettempdir())
        reason = error.strerror or error
        raise CommandFailed(f"{place} cannot be used for the brokers' data: {reason}.") from error
    try:
        if shutil.disk_usage(work).free < FREE_BYTES_MIN:
            raise CommandFailed(
                f"The disk of {work.parent} has less than {FREE_BYTES_MIN // 1_000_000} MB left; choose "
                "another directory with --dir."
            )
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


@contextlib.contextmanager
def _ended_in_order() -> Iterator[None]:
    """SIGTERM ends a run as Ctrl-C does. Once is enough: a second one would interrupt the clean-up."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(_number: int, _frame: FrameType | None) -> None:
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = {each: signal.signal(each, end) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
