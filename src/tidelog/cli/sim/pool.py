"""Runs of the simulator in this process, or in several at once.

A worker is started fresh (not forked), so that it holds no end of another worker's pipe: when this process
dies, whatever way, every worker reads the end of its pipe and ends, too.
"""

import logging
import multiprocessing
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from tidelog.sim.attempt import Outcome
    from tidelog.sim.coverage import Coverage
    from tidelog.sim.shrinking import Story

PATIENCE_S = 900.0  # for one run, which takes a second on an idle processor
STORY_PATIENCE_S = 4 * PATIENCE_S  # for the shortest story, which takes hundreds of runs
CHECKED_S = 5.0  # how often workers are checked for taking too long


class Task(NamedTuple):
    number: int  # its place among all
    mode: str
    seed: int
    wanted: Mapping[str, Any]  # what the seed does not decide
    lines: int = 40  # of its trace that are wanted
    shrunk: "Outcome | None" = None  # the failure whose shortest story is wanted

    @property
    def patience_s(self) -> float:
        return PATIENCE_S if self.shrunk is None else STORY_PATIENCE_S


class Done(NamedTuple):
    task: Task
    outcome: "Outcome"
    story: "Story | None" = None
    cpu_s: float = 0.0  # that it took, whatever else the machine does


NextTask = Callable[[], Task | None]
"""What is to be done next; None where there is nothing for now, perhaps until something is done."""


class Runner(Protocol):
    def run(self, next_task: NextTask) -> Iterator[Done]:
        """Do everything there is to do, in any order, until there is nothing and all is done."""
        ...


def perform(task: Task) -> Done:
    from tidelog.sim.attempt import attempt
    from tidelog.sim.shrinking import shrink

    began = time.process_time()
    if task.shrunk is None:
        outcome, story = attempt(task.mode, task.seed, task.wanted, task.lines), None
    else:
        story = shrink(task.shrunk, task.wanted)
        outcome = story.outcome
    return Done(task, outcome, story, time.process_time() - began)


class Here:
    """One task after the other, in this process."""

    def __init__(self, coverage: "Coverage | None" = None) -> None:
        self._coverage = coverage

    def run(self, next_task: NextTask) -> Iterator[Done]:
        with self._coverage.watch() if self._coverage else nullcontext():
            while (task := next_task()) is not None:
                yield perform(task)


class Pool:
    """``size`` tasks at once, each in its own process."""

    def __init__(self, size: int, coverage: "Coverage | None" = None) -> None:
        self._coverage = coverage
        self._workers = [_Worker(coverage is not None) for _ in range(size)]

    def run(self, next_task: NextTask) -> Iterator[Done]:
        try:
            while True:
                self._hand_out(next_task)
                busy = {worker.pipe: worker for worker in self._workers if worker.task is not None}
                if not busy:
                    break
                for pipe in wait(list(busy), CHECKED_S):
                    yield busy[pipe].take()  # type: ignore[index]
                for worker in busy.values():
                    if worker.task is not None and worker.busy_s() > worker.task.patience_s:
                        yield worker.give_up(f"it took longer than {worker.task.patience_s:.0f} s")
            self._gather()
        finally:
            for worker in self._workers:
                worker.end()

    def _hand_out(self, next_task: NextTask) -> None:
        for worker in self._workers:
            if worker.task is None:
                task = next_task()
                if task is None:
                    return
                worker.begin(task)

    def _gather(self) -> None:
        if self._coverage is not None:
            for worker in self._workers:
                worker.pipe.send(None)
                self._coverage.add(worker.pipe.recv())


class _Worker:
    def __init__(self, covers: bool) -> None:
        self._covers = covers
        self.task: Task | None = None
        self.since = 0.0
        self.pipe, self._process = self._start()

    def _start(self) -> tuple[Connection, BaseProcess]:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(theirs, self._covers), daemon=True)
        process.start()
        theirs.close()
        return ours, process

    def begin(self, task: Task) -> None:
        self.task, self.since = task, time.monotonic()
        self.pipe.send(task)

    def busy_s(self) -> float:
        return time.monotonic() - self.since

    def take(self) -> Done:
        try:
            done: Done = self.pipe.recv()
        except EOFError:
            self._process.join()
            return self.give_up(f"its process ended with {self._process.exitcode}")
        self.task = None
        return done

    def give_up(self, reason: str) -> Done:
        """The task counts as failed, and a new process takes its place."""
        from tidelog.sim.attempt import Outcome

        task, self.task = self.task, None
        if task is None:
            raise RuntimeError("a worker without a task cannot fail")
        self.end()
        self.pipe, self._process = self._start()
        return Done(task, Outcome(task.mode, task.seed, f"NoResult: {reason}"))

    def end(self) -> None:
        self.pipe.close()
        self._process.kill()
        self._process.join()


def _work(pipe: Connection, covers: bool) -> None:
    """In a worker: do what comes, until the pool ends."""
    from tidelog.sim.coverage import Coverage

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that owns the pipe.
    logging.disable(logging.CRITICAL)
    coverage = Coverage() if covers else None
    with coverage.watch() if coverage is not None else nullcontext():
        try:
            while (task := pipe.recv()) is not None:
                pipe.send(perform(task))
            if coverage is not None:
                pipe.send(coverage.reached())
        except (EOFError, BrokenPipeError):
            return
