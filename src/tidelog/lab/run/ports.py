"""What the runner needs of the other parts, as interfaces: workload, figures, and who watches.

The runner is tested with small stand-ins for them; :mod:`tidelog.lab.run.parts` has the real ones.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

from tidelog.lab.experiment.model import ConsumerSpec, LoadSpec, TopicSpec
from tidelog.lab.results import Figures, TimeLine


class Workload(Protocol):
    """Producers and consumers of one round."""

    def start(self) -> None: ...

    def wait_steady(self, timeout_s: float) -> None: ...

    def mark(self, kind: str, name: str) -> None:
        """``fault``, ``healed`` or ``redundant``, into the history."""

    def sample_leader(self, topic: str, leader: int) -> None: ...

    def acknowledged(self) -> Mapping[str, int]:
        """So far, by topic."""

    def acknowledged_by_partition(self) -> Mapping[str, Mapping[int, int]]:
        """So far, by topic and partition, of those that have a load."""

    def finish(self, timeout_s: float) -> None:
        """End producers, let consumers catch up, read everything back, close the histories."""

    def close(self) -> None:
        """End what still runs; more than once is fine."""


class Windows(NamedTuple):
    """Times of a round, microseconds since 1970."""

    steady_us: int  # zero of the time line
    fault_start_us: int
    fault_end_us: int  # when the last fault was healed
    end_us: int  # of the load


class WorkloadPlan(NamedTuple):
    bootstrap: str
    topics: tuple[TopicSpec, ...]
    loads: tuple[LoadSpec, ...]
    consumers: tuple[ConsumerSpec, ...]
    directory: Path
    run: str
    mode_by_topic: Mapping[str, str]
    pids: Callable[[], Mapping[int, int]]


class Parts(NamedTuple):
    make_workload: Callable[[WorkloadPlan], Workload]
    figures_of: Callable[[Path, str, Windows], tuple[Figures, TimeLine]]


class Progress(NamedTuple):
    """How far a run is; told several times a second."""

    experiment: str
    title: str
    target: str
    round: int  # from 1
    rounds: int
    stage: str  # "before the fault", "kill -9 of broker 2 (leader)"
    done_s: float
    total_s: float  # estimated, of the whole run
    acknowledged: Mapping[str, int]  # by heading
    leaders: Mapping[str, int]  # by heading


class Observer(Protocol):
    def tell(self, progress: Progress) -> None: ...

    def say(self, line: str) -> None:
        """Something that should stay readable: a verdict."""


class Silent:
    """Discards what it is told."""

    def tell(self, progress: Progress) -> None:
        pass

    def say(self, line: str) -> None:
        pass
