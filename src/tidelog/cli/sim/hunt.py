"""Many runs of the simulator, of which sums are kept, failures shown, and shortest stories made."""

import time
from collections.abc import Mapping
from contextlib import closing, nullcontext
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

from tidelog.cli.sim.pool import Done, Here, Pool, Task
from tidelog.cli.sim.progress import Display

if TYPE_CHECKING:
    from tidelog.cli.sim.report import Report
    from tidelog.sim.attempt import Outcome
    from tidelog.sim.coverage import Coverage

FAILURES_SHOWN = 10  # with the end of their traces
SUMMARY_S = 10.0  # how often the sums of a report are written


class Amount(NamedTuple):
    """How much is run: the first of these that is reached ends the hunt."""

    seeds: int | None = None
    minutes: float | None = None
    faults: int | None = None


class Sums:
    """Of all runs, and the digest of their traces in the order of the seeds."""

    def __init__(self) -> None:
        self.runs = 0
        self.failed = 0
        self.acknowledged = 0
        self.faults = 0
        self.simulated_ms = 0.0
        self._digest = sha256()
        self._next = 0  # the first run that the digest lacks
        self._early: dict[int, str] = {}  # what finished before it

    def take(self, number: int, outcome: "Outcome") -> None:
        self.runs += 1
        self.failed += outcome.failed
        self.acknowledged += outcome.acknowledged
        self.faults += outcome.faults
        self.simulated_ms += outcome.simulated_ms
        self._early[number] = outcome.digest
        while self._next in self._early:
            self._digest.update(self._early.pop(self._next).encode())
            self._next += 1

    def digest(self) -> str:
        found = self._digest.copy()
        for _, digest in sorted(self._early.items()):
            found.update(digest.encode())
        return found.hexdigest()[:16]


class Hunt:
    def __init__(
        self,
        wanted: Mapping[str, Mapping[str, Any]],
        first: int,
        amount: Amount,
        *,
        workers: int = 1,
        lines: int = 40,
        shrinks: bool = False,
        report: "Report | None" = None,
        coverage: "Coverage | None" = None,
    ) -> None:
        self._wanted = wanted  # mode → what the seeds do not decide
        self._modes = tuple(wanted)
        self._first = first
        self._amount = amount
        self._workers = workers
        self._lines = lines
        self._shrinks = shrinks
        self._report = report
        self._coverage = coverage
        self._next = 0
        self._finished: set[int] = set()  # numbers of runs that an earlier start has done
        self._to_shrink: list[Task] = []
        self._began = time.monotonic()
        self._cpu_s = 0.0  # of runs
        self._written = self._began
        self.sums = Sums()
        self._earlier = 0.0, 0  # simulated time and faults of earlier starts
        self.last_trace: tuple[str, ...] = ()
        self._display = Display(amount, len(self._modes))

    def run(self) -> None:
        self._resume()
        runner = Here(self._coverage) if self._workers == 1 else Pool(self._workers, self._coverage)
        with closing(self._report) if self._report else nullcontext(), self._display:
            self._display.show(self.sums)
            for done in runner.run(self._next_task):
                self._take(done)
                self._display.show(self.sums)
            if self._report is not None:
                self._report.write_summary(self.summary())

    def _resume(self) -> None:
        if self._report is None:
            return
        for number, outcome in self._report.finished():
            self._finished.add(number)
            self.sums.take(number, outcome)
            if outcome.failed and self._report.lacks_story(outcome):
                self._shrink_later(number, outcome)
        self._earlier = self.sums.simulated_ms, self.sums.faults

    def _next_task(self) -> Task | None:
        if self._to_shrink:
            return self._to_shrink.pop()
        if self._is_enough():
            return None
        number, self._next = self._next, self._next + 1
        while number in self._finished:
            number, self._next = self._next, self._next + 1
        if self._amount.seeds is not None and number >= self._amount.seeds * len(self._modes):
            return None
        mode = self._modes[number % len(self._modes)]
        return Task(number, mode, self._first + number // len(self._modes), self._wanted[mode], self._lines)

    def _is_enough(self) -> bool:
        minutes, faults = self._amount.minutes, self._amount.faults
        if minutes is not None and time.monotonic() - self._began >= minutes * 60:
            return True
        return faults is not None and self.sums.faults >= faults

    def _take(self, done: Done) -> None:
        task, outcome = done.task, done.outcome
        if task.shrunk is not None:
            self._take_story(task.shrunk, done)
            return
        self.sums.take(task.number, outcome)
        self._cpu_s += done.cpu_s
        self.last_trace = () if outcome.failed else outcome.trace
        if outcome.failed:
            self._tell(outcome)
            self._shrink_later(task.number, outcome)
        if self._report is not None:
            self._report.add(task.number, outcome, self._command(outcome))
            if time.monotonic() - self._written > SUMMARY_S:
                self._written = time.monotonic()
                self._report.write_summary(self.summary())

    def _tell(self, outcome: "Outcome") -> None:
        text = f"{outcome.mode}, seed {outcome.seed}: {outcome.error}"
        if self.sums.failed <= FAILURES_SHOWN:
            text = "\n".join([text, *outcome.trace])
        self._display.say(f"{text}\nrepeat it with: {self._command(outcome)}")

    def _shrink_later(self, number: int, outcome: "Outcome") -> None:
        if self._shrinks and outcome.drawn:
            wanted = self._wanted[outcome.mode]
            self._to_shrink.append(Task(number, outcome.mode, outcome.seed, wanted, shrunk=outcome))

    def _take_story(self, failure: "Outcome", done: Done) -> None:
        lines = done.story.lines() if done.story is not None else [done.outcome.error]
        self._display.say("\n".join(["", *lines, ""]))
        if self._report is not None:
            self._report.add_story(failure, lines)

    def _command(self, outcome: "Outcome") -> str:
        from tidelog.sim.overrides import command

        return command(outcome.mode, outcome.seed, self._wanted[outcome.mode])

    def summary(self) -> dict[str, object]:
        """Sums of all starts; times, and what is counted by time, of this one. Processor time is that of the
        runs, without shrinking.
        """
        sums, (earlier_ms, earlier_faults) = self.sums, self._earlier
        cpu_seconds = self._cpu_s
        simulated = (sums.simulated_ms - earlier_ms) / 1000
        return {
            "runs": sums.runs,
            "failed": sums.failed,
            "acknowledged": sums.acknowledged,
            "faults": sums.faults,
            "simulated_seconds": round(sums.simulated_ms / 1000, 1),
            "seconds": round(time.monotonic() - self._began, 1),
            "cpu_seconds": round(cpu_seconds, 1),
            "times_real_time": round(simulated / cpu_seconds, 1) if cpu_seconds else None,
            "faults_per_core_second": (
                round((sums.faults - earlier_faults) / cpu_seconds, 1) if cpu_seconds else None
            ),
            "first_seed": self._first,
            "digest": sums.digest(),
        }
