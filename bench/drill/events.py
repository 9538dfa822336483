"""What happens to brokers, topics and runs, drawn from a seed.

:func:`draw` is pure: which events come when, and the random numbers that each of them uses. What they hit
depends on the course of the drill.
"""

import os
import random
import shutil
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from bench.drill.ledger import Ledger
from bench.drill.runs import Pipelines, Run, Timer, kill_after, kill_at_change
from bench.drill.tables import SIGNS
from bench.drill.topics import WITHIN_S, Topics
from bench.standalone import Standalone
from tidelog.testing import Cluster

SPACING_S = (6.0, 16.0)
LONGEST_DOWN_S = 6.0
AWAIT_RUN_S = 60.0

# How often each comes in a deck; a deck is shuffled and drawn to its end before the next.
DECK = {
    "driver killed": 3,
    "broker killed": 2,
    "executor killed": 2,
    "overlapping runs": 2,
    "topic created again": 1,
    "new field": 1,
    "state deleted": 2,
    "upkeep": 1,
    "upkeep killed": 1,
}


class Event(NamedTuple):
    at_s: float
    kind: str
    seed: str  # Of the random numbers that it uses.


def draw(seed: int, seconds: float, *, executors: bool) -> list[Event]:
    """The events of a drill of this length."""
    chance = random.Random(seed)
    kinds = _kinds(chance, executors)
    events: list[Event] = []
    at_s = chance.uniform(*SPACING_S)
    while at_s < seconds:
        events.append(Event(at_s, next(kinds), f"{seed} {len(events)}"))
        at_s += chance.uniform(*SPACING_S)
    return events


def _kinds(chance: random.Random, executors: bool) -> Iterator[str]:
    while True:
        deck = [kind for kind, count in DECK.items() for _ in range(count)]
        chance.shuffle(deck)
        yield from (kind for kind in deck if executors or kind != "executor killed")


@dataclass(slots=True)
class Stage:
    """What events act on."""

    cluster: Cluster
    topics: Topics
    ledger: Ledger
    pipelines: Pipelines
    timer: Timer
    spark: Standalone | None
    happened: Counter[str] = field(default_factory=Counter)
    _overlapping: list[Run] = field(default_factory=list)
    _healing: threading.Thread | None = None

    def play(self, event: Event) -> None:
        chance = random.Random(event.seed)
        play: Callable[[random.Random], str] = {
            "driver killed": self._kill_driver,
            "broker killed": self._kill_broker,
            "executor killed": self._kill_executor,
            "overlapping runs": self._overlap,
            "topic created again": self._create_again,
            "new field": self._add_field,
            "state deleted": self._delete_state,
            "upkeep": self._upkeep,
            "upkeep killed": self._kill_upkeep,
        }[event.kind]
        self.happened[play(chance)] += 1

    def heal(self) -> None:
        """Until all brokers are back."""
        if self._healing is not None:
            self._healing.join()
        self.cluster.await_ready(WITHIN_S)
        self.cluster.await_in_sync(*self.topics.all, timeout_s=WITHIN_S)

    # -- what is killed --------------------------------------------------------------------

    def _kill_driver(self, chance: random.Random) -> str:
        run = self.timer.await_run(AWAIT_RUN_S)
        if run is None:
            return "driver killed: there was none"
        return f"driver killed {self._kill(run, chance)}"

    def _kill(self, run: Run, chance: random.Random) -> str:
        """In the middle of a commit more often than not: that is where it hurts."""
        if chance.random() < 0.3:
            kill_after(run, chance.uniform(0, 25))
            return "at any time" if run.wait() == "killed" else "too late"
        sign = chance.choice(SIGNS[self.pipelines.table_format])
        kill_at_change(run, self.pipelines.target / sign, chance.choice((0.0, 0.002, 0.01, 0.05, 0.3)))
        return "while it wrote or committed" if run.wait() == "killed" else "too late"

    def _kill_broker(self, chance: random.Random) -> str:
        if self._healing is not None:
            self._healing.join()
        victim = chance.choice(list(self.cluster))
        down_s = chance.uniform(0.5, LONGEST_DOWN_S)
        victim.kill()

        def heal() -> None:
            time.sleep(down_s)
            victim.launch()
            with suppress(Exception):  # what is not healed in the end is told then
                self.cluster.await_in_sync(*self.topics.all, timeout_s=WITHIN_S)

        self._healing = threading.Thread(target=heal, name="healing")
        self._healing.start()
        return "broker killed"

    def _kill_executor(self, chance: random.Random) -> str:
        deadline = time.monotonic() + AWAIT_RUN_S
        while self.spark is not None and time.monotonic() < deadline:
            executors = self.spark.executors()
            if len(executors) > 1:
                time.sleep(chance.uniform(0, 8))
                with suppress(ProcessLookupError):
                    os.kill(chance.choice(executors), signal.SIGKILL)
                    return "executor killed"
            time.sleep(0.05)
        return "executor killed: there was none"

    # -- what users do ---------------------------------------------------------------------

    def _overlap(self, chance: random.Random) -> str:
        for run in self._overlapping:
            run.wait()  # Two at once are enough for a small machine.
        self.timer.await_run(AWAIT_RUN_S)
        time.sleep(chance.uniform(0, 10))
        self._overlapping = [self.pipelines.archive()]
        return "overlapping runs"

    def _create_again(self, chance: random.Random) -> str:
        name = chance.choice(list(self.topics.all))
        self.ledger.deleted.add(self.topics.create_again(name, chance.uniform(0, 3)))
        return "topic created again"

    def _add_field(self, chance: random.Random) -> str:
        self.pipelines.schema.archived += 1
        return "new field"

    def _upkeep(self, chance: random.Random) -> str:
        command = chance.choice(("compact", "expire"))
        self._keep_up(command, Run.wait)
        return command

    def _kill_upkeep(self, chance: random.Random) -> str:
        command = chance.choice(("compact", "compact", "expire"))
        how = self._keep_up(command, lambda run: self._kill(run, chance))
        return f"{command} killed {how}"

    def _keep_up(self, command: str, then: Callable[[Run], str]) -> str:
        """Beside the archive where the format allows that, else between two runs."""
        if self.pipelines.table_format != "parquet":
            return then(self.pipelines.upkeep(command))
        with self.timer.between_runs:
            return then(self.pipelines.upkeep(command))

    # -- what users delete -----------------------------------------------------------------

    def _delete_state(self, chance: random.Random) -> str:
        """As after an error: what looks like a lock, a checkpoint, or the rest of a run that died."""
        target = self.pipelines.target
        if self.pipelines.table_format != "parquet":
            for hint in ("metadata/version-hint.text", "_delta_log/_last_checkpoint", "_staging"):
                if not (hint == "_staging" and self._is_any_alive()):
                    _delete(target / "records" / hint)
                    _delete(target / "undecodable" / hint)
            return "hints and staging deleted"
        what = chance.choice(("lock", "staging", "log"))
        if what == "lock":
            _delete(target / "_lock.json")
            return "lock deleted"
        if what == "staging":
            run = self.timer.await_run(AWAIT_RUN_S)
            if run is not None:
                self._kill(run, chance)
        with self.timer.between_runs:
            self.pipelines.wait_for_all()
            if what == "log" and not self._ended_by_itself():
                what = "staging"
            if what == "log":
                _delete(target / "_log")
            _delete(target / "_staging")
            _delete(target / "_lock.json")
        return f"{what} deleted"

    def _is_any_alive(self) -> bool:
        return any(not run.is_over for run in self.pipelines.runs)

    def _ended_by_itself(self) -> bool:
        """Without the log nothing tells which files a killed run had still to move."""
        changes = [run for run in self.pipelines.runs if run.outcome not in ("refused", "failed")]
        return bool(changes) and changes[-1].outcome == "finished"


def _delete(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
