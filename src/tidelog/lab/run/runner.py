"""Runs experiments on a target and collects cells: one for each topic of each experiment.

Owns directories, the life of the cluster, names of topics by round, and the verdicts. The cluster is started
once for all rounds of an experiment. A round that leaves it without full redundancy spoils it, and the next
round gets a new one. Results are there after every round: an interrupted run has what it has.
"""

import itertools
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from tidelog.lab.experiment.model import ClusterSpec, Experiment, TopicSpec
from tidelog.lab.experiment.modes import headings
from tidelog.lab.results import NOT_RUN, Cell, Round
from tidelog.lab.run import judging
from tidelog.lab.run.judging import Surroundings
from tidelog.lab.run.placement import order
from tidelog.lab.run.ports import Observer, Parts, Progress
from tidelog.lab.run.round import RoundPlayer, RoundRecord
from tidelog.lab.run.schedule import estimate_s, stretched
from tidelog.lab.run.topics import Topics, settings_of
from tidelog.lab.targets.base import Target, TargetError

FREE_BYTES_MIN = 20_000_000  # while it runs
UNFINISHED = "_unfinished-"  # of a round: before the name of its histories
FEW_LOGS = {"offsets.topic.num.partitions": 5, "transaction.state.log.num.partitions": 5}


class Clock:
    """How much of a whole run is done, by estimates."""

    def __init__(self, total_s: float) -> None:
        self.total_s = total_s
        self.done_s = 0.0  # of what has ended
        self._began = time.monotonic()
        self._part_s = 0.0

    def begin(self, part_s: float) -> None:
        self._began, self._part_s = time.monotonic(), part_s

    def end(self) -> None:
        self.done_s += self._part_s
        self._part_s = 0.0

    @property
    def now_s(self) -> float:
        return self.done_s + min(time.monotonic() - self._began, self._part_s)


class ExperimentRunner:
    """One experiment on one target."""

    def __init__(
        self,
        target: Target,
        experiment: Experiment,
        parts: Parts,
        observer: Observer,
        directory: Path,
        *,
        history: Path | None = None,
        clock: Clock | None = None,
        command: str = "",
    ) -> None:
        """``directory`` is for brokers and histories, and is removed; ``history`` keeps the histories."""
        self._target, self._parts, self._observer = target, parts, observer
        self._experiment = experiment
        self._directory, self._kept = directory, history
        self._clock = clock or Clock(estimate_s(fitted(experiment, target)))
        self._command = command
        self._clusters = 0
        self._is_up = False
        self._headings = headings(experiment.topics)
        self._rounds: dict[str, list[Round]] = {topic.name: [] for topic in experiment.topics}
        self._cells: dict[str, Cell] = {topic.name: self._empty(topic) for topic in experiment.topics}

    @property
    def cells(self) -> list[Cell]:
        """As of now."""
        return list(self._cells.values())

    def run(self) -> None:
        reason = refusal(self._experiment, self._target)
        if reason:
            self._cells = {
                name: replace(cell, verdict=NOT_RUN, sentence=f"Not run: {reason}.")
                for name, cell in self._cells.items()
            }
            return
        try:
            for number in range(1, self._experiment.rounds + 1):
                self._round(number)
        finally:
            self._stop()

    # --- a round --------------------------------------------------------------------------------------------

    def _round(self, number: int) -> None:
        self._clock.begin(self._estimate_s())
        self._start()
        experiment = self._named(number)
        topics = Topics(self._target, experiment.topics)
        active = self._target.controller()
        placed = order(
            self._target.brokers, self._target.voters, active, number, self._experiment.cluster.racks
        )
        self._tell(number, "topics", {}, {})
        topics.create(placed)
        surroundings = Surroundings(
            self._target.brokers,
            tuple(placed),
            self._target.voters,
            active,
            self._target.session_s,
            self._target.lag_s,
            self._target.notices_ends,
        )
        if number == 1:
            self._promise(surroundings)
        directory = self._round_directory(number)
        player = RoundPlayer(
            self._target, experiment, topics, self._parts, directory, self._teller(number, experiment)
        )
        try:
            record = player.play()
        except BaseException:
            _set_aside(directory)
            raise
        self._judge(number, experiment, surroundings, record, directory)
        topics.delete()
        self._clean_up(directory, record)
        self._clock.end()

    def _promise(self, surroundings: Surroundings) -> None:
        for topic in self._experiment.topics:
            sentences = judging.promise_beforehand(self._experiment, topic, surroundings).sentences
            self._cells[topic.name] = replace(self._cells[topic.name], promise=sentences)

    def _judge(
        self,
        number: int,
        experiment: Experiment,
        surroundings: Surroundings,
        record: RoundRecord,
        directory: Path,
    ) -> None:
        for spec, named in zip(self._experiment.topics, experiment.topics, strict=True):
            figures, time_line = self._parts.figures_of(directory, named.name, record.windows)
            judgement = judging.judge_round(experiment, named, surroundings, record, figures)
            found = Round(
                number=number,
                verdict=judgement.verdict,
                figures=figures,
                time_line=replace(time_line, faults=record.bands),
                sentence=judgement.sentence,
                late_s=record.late_s,
            )
            self._rounds[spec.name].append(found)
            self._cells[spec.name] = replace(
                judging.summarised(self._cells[spec.name], self._rounds[spec.name], self._experiment.rounds),
                network=self._target.network,
            )
            self._observer.say(
                f"{self._experiment.name}, {self._headings[spec.name]}, round {number} of "
                f"{self._experiment.rounds}: "
                f"{judgement.sentence}"
            )

    def _named(self, number: int) -> Experiment:
        """Topics and groups of their own for every round: an account begins with an empty topic."""
        experiment = self._stretched()
        return replace(
            experiment,
            topics=tuple(replace(each, name=f"{each.name}-{number}") for each in experiment.topics),
            loads=tuple(replace(each, topic=f"{each.topic}-{number}") for each in experiment.loads),
            consumers=tuple(
                replace(each, topic=f"{each.topic}-{number}", group=f"{each.group}-{number}")
                for each in experiment.consumers
            ),
            timeline=tuple(
                replace(step, topic=f"{step.topic}-{number}") if step.topic else step
                for step in experiment.timeline
            ),
        )

    # --- the cluster ----------------------------------------------------------------------------------------

    def _start(self) -> None:
        if self._is_up:
            return
        self._clusters += 1
        self._tell(1, "start of the brokers", {}, {})
        faults = {step.fault for step in self._experiment.timeline}
        self._is_up = True  # also when the start fails halfway
        self._target.start(self._cluster_directory, _with_few_logs(self._experiment.cluster), faults)

    def _stop(self) -> None:
        if self._is_up:
            self._target.stop()
            self._is_up = False
        shutil.rmtree(self._cluster_directory, ignore_errors=True)

    @property
    def _cluster_directory(self) -> Path:
        return self._directory / f"cluster-{self._clusters}"

    def _round_directory(self, number: int) -> Path:
        root = self._kept if self._kept is not None else self._directory / "history"
        name = f"{self._experiment.name.replace(': ', '-')}-{self._target.name}-{number}"
        return _new_directory(root, name)

    def _clean_up(self, directory: Path, record: RoundRecord) -> None:
        if self._kept is None:
            shutil.rmtree(directory, ignore_errors=True)
        if not record.is_redundant:
            self._stop()

    def check_space(self) -> None:
        """TargetError: brokers on a full disk would break promises that they cannot keep there."""
        for place in filter(None, (self._directory, self._kept)):
            if place.exists() and (free := shutil.disk_usage(place).free) < FREE_BYTES_MIN:
                raise TargetError(
                    f"The disk of {place} is full ({free // 1_000_000} MB left); the round was given up."
                )

    # --- words ----------------------------------------------------------------------------------------------

    def _stretched(self) -> Experiment:
        return fitted(self._experiment, self._target)

    def _estimate_s(self) -> float:
        return estimate_s(self._stretched()) / self._experiment.rounds

    def _teller(self, number: int, experiment: Experiment) -> "_Teller":
        pairs = zip(self._experiment.topics, experiment.topics, strict=True)
        return _Teller(self, number, {named.name: self._headings[spec.name] for spec, named in pairs})

    def _tell(
        self, number: int, stage: str, acknowledged: Mapping[str, int], leaders: Mapping[str, int]
    ) -> None:
        self._observer.tell(
            Progress(
                self._experiment.name,
                self._experiment.title,
                self._target.name,
                number,
                self._experiment.rounds,
                stage,
                self._clock.now_s,
                self._clock.total_s,
                acknowledged,
                leaders,
            )
        )

    def _empty(self, topic: TopicSpec) -> Cell:
        return Cell(
            experiment=self._experiment.name,
            title=self._experiment.title,
            target=self._target.name,
            mode=self._headings[topic.name],
            topic=topic.name,
            settings={"replicas": topic.replicas, "partitions": topic.partitions, **settings_of(topic)},
            source=self._experiment.source,
            command=self._command,
        )


class _Teller:
    """Names topics by their headings."""

    def __init__(self, runner: ExperimentRunner, number: int, headings: Mapping[str, str]) -> None:
        self._runner, self._number, self._headings = runner, number, headings

    def __call__(self, stage: str, acknowledged: Mapping[str, int], leaders: Mapping[str, int]) -> None:
        self._runner.check_space()
        self._runner._tell(self._number, stage, self._by_heading(acknowledged), self._by_heading(leaders))

    def _by_heading(self, figures: Mapping[str, int]) -> dict[str, int]:
        return {self._headings[topic]: figure for topic, figure in figures.items()}


def _new_directory(root: Path, name: str) -> Path:
    """With a number where there is one already: an account must not see events of another run."""
    found = _free(root, name)
    found.mkdir(parents=True)
    return found


def _free(root: Path, name: str) -> Path:
    later = (root / f"{name}.{place}" for place in itertools.count(2))
    return next(path for path in itertools.chain([root / name], later) if not path.exists())


def _set_aside(directory: Path) -> None:
    """What was not read back would count as lost: ``tidelog pipeline indicators`` leaves such names out."""
    directory.rename(_free(directory.parent, UNFINISHED + directory.name))


def _with_few_logs(spec: ClusterSpec) -> ClusterSpec:
    """A broker that was killed checks all of its logs when it starts, also those of a hundred internal
    partitions that an experiment does not need.
    """
    return replace(spec, settings=FEW_LOGS | spec.settings)


def refusal(experiment: Experiment, target: Target) -> str:
    """Why this target cannot run it; "": it can."""
    missing = sorted({step.fault for step in experiment.timeline} - target.faults)
    if missing:
        return f"the fault {missing[0]} cannot be made on {target.name}"
    foreign = sorted({topic.mode for topic in experiment.topics} - target.modes)
    return f"{target.name} has no mode {foreign[0]}" if foreign else ""


def fitted(experiment: Experiment, target: Target) -> Experiment:
    return stretched(experiment, target.session_s, target.notices_ends)


def total_estimate_s(parts: Sequence[tuple[Experiment, Target]]) -> float:
    return sum(
        estimate_s(fitted(experiment, target))
        for experiment, target in parts
        if not refusal(experiment, target)
    )
