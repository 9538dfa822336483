"""``tidelog lab``: lists, runs and compares experiments."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidelog.cli.client_config import refuse_chosen
from tidelog.cli.failure import CommandFailed, InvalidCommandLine, complain
from tidelog.cli.options import Json, flag
from tidelog.cli.tables import print_json, print_table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tidelog.cli.lab.running import Job
    from tidelog.lab.experiment.model import Experiment
    from tidelog.lab.targets.base import Target

app = typer.Typer(
    no_args_is_help=True,
    help="Break a real cluster on purpose, and see what it cost.",
)


class TargetName(StrEnum):
    TIDELOG = "tidelog"
    KAFKA = "kafka"
    EXTERNAL = "external"


Rounds = Annotated[
    int | None,
    typer.Option("--rounds", metavar="N", min=1, help="Rounds of each experiment; default: as in its file."),
]
History = Annotated[
    Path | None,
    typer.Option("--history", metavar="DIR", help="Keep the history of every round in this directory."),
]
Report = Annotated[
    Path | None,
    typer.Option("--report", metavar="FILE.html", help="Write a page about the results, and JSON beside it."),
]
Directory = Annotated[
    Path | None,
    typer.Option(
        "--dir",
        metavar="DIR",
        help="Where the brokers have their data during the run. Default: the system's temporary directory.",
    ),
]
Jars = Annotated[
    Path | None,
    typer.Option(
        "--jars", metavar="DIR", help="Folder `libs` of an Apache Kafka download, for --target kafka."
    ),
]
Namespaces = Annotated[
    bool,
    flag("--namespaces", help="Make network faults by network namespaces (needs root) instead of a relay."),
]


@app.command("list")
def list_experiments(json: Json = False) -> None:
    """List the experiments that come with Tidelog, and the faults that an experiment can have.

    Example: tidelog lab list
    """
    from tidelog.lab.experiment import catalog
    from tidelog.lab.faults.catalog import FAULTS

    experiments = [catalog.builtin(name) for name in catalog.names()]
    rows = [{"name": each.name, "title": each.title} for each in experiments]
    faults = [
        {
            "name": kind.name,
            "group": kind.group,
            "words": kind.words,
            "parameters": {each.name: each.default for each in kind.parameters},
        }
        for kind in FAULTS.values()
    ]
    if json:
        print_json({"experiments": rows, "faults": faults})
        return
    print_table(rows, {"name": "experiment", "title": "what happens"})
    print()
    shown = [
        {**fault, "parameters": ", ".join(f"{k} = {v!r}" for k, v in fault["parameters"].items())}  # type: ignore[attr-defined]
        for fault in faults
    ]
    print_table(
        shown, {"name": "fault", "group": "kind", "words": "what it does", "parameters": "parameters"}
    )


@app.command("run")
def run(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME|FILE",
            help="An experiment of `tidelog lab list`, or a TOML file.",
            show_default=False,
        ),
    ],
    mode: Annotated[
        str | None,
        typer.Option(
            "--mode",
            metavar="MODE",
            help="Replication mode of the topic: isr, primary-backup, primary-backup-sync (two copies) or "
            "quorum. Default: as in the file.",
        ),
    ] = None,
    rounds: Rounds = None,
    history: History = None,
    show: Annotated[bool, flag("--show", help="Print the experiment's file and do nothing.")] = False,
    json: Json = False,
    report: Report = None,
    target: Annotated[
        TargetName, typer.Option("--target", help="What to run it on.", show_default=True)
    ] = TargetName.TIDELOG,
    jars: Jars = None,
    bootstrap: Annotated[
        str | None,
        typer.Option("--bootstrap", metavar="HOST:PORT", help="A running cluster, for --target external."),
    ] = None,
    kill: Annotated[
        str | None,
        typer.Option("--kill", metavar="COMMAND", help="Ends broker `{broker}` of an external cluster."),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option("--start", metavar="COMMAND", help="Starts broker `{broker}` of an external cluster."),
    ] = None,
    freeze: Annotated[
        str | None,
        typer.Option("--freeze", metavar="COMMAND", help="Freezes broker `{broker}` of an external cluster."),
    ] = None,
    thaw: Annotated[
        str | None,
        typer.Option("--thaw", metavar="COMMAND", help="Ends the freeze of broker `{broker}`."),
    ] = None,
    namespaces: Namespaces = False,
    directory: Directory = None,
) -> None:
    """Run one experiment: real brokers, load, faults, and an account of every record.

    Prints for each topic what was promised, what was observed, and whether the promise was kept. The exit
    code is 1 if one was broken. Ctrl-C ends all processes and prints what there is.

    Example: tidelog lab run leader-killed --mode quorum
    """
    experiment = _find(name)
    if show:
        print(experiment.source, end="")
        return
    from tidelog.lab.experiment.modes import with_mode
    from tidelog.lab.run.schedule import expanded

    if mode is not None:
        experiment = _understood(lambda: with_mode(experiment, mode))
    experiment = _with_rounds(experiment, rounds)
    commands = {"kill": kill, "start": start, "freeze": freeze, "thaw": thaw}
    chosen = _target(target, jars, bootstrap, commands, namespaces)
    jobs = [_job(chosen, each, target, name, mode, rounds) for each in expanded(experiment)]
    _finish(jobs, history, directory, json, report)


@app.command("compare")
def compare(
    modes: Annotated[
        str | None,
        typer.Option(
            "--modes",
            metavar="MODE,…",
            help="Modes to compare. Default: isr,primary-backup,primary-backup-sync,quorum.",
            show_default=False,
        ),
    ] = None,
    faults: Annotated[
        str | None,
        typer.Option(
            "--faults",
            metavar="NAME,…",
            help="Experiments with one topic, by name or file. Default: leader-killed, leader-frozen, "
            "leader-cut-off, power-failure, power-failure-all, slow-follower, disk-full.",
            show_default=False,
        ),
    ] = None,
    rounds: Rounds = None,
    history: History = None,
    json: Json = False,
    report: Report = None,
    target: Annotated[
        TargetName,
        typer.Option("--target", help="kafka: the same on Apache Kafka, side by side with Tidelog."),
    ] = TargetName.TIDELOG,
    jars: Jars = None,
    namespaces: Namespaces = False,
    directory: Directory = None,
) -> None:
    """Compare replication modes under the common faults: every mode in every experiment.

    All modes run at the same time, each with a topic of its own on the same brokers: one fault hits all of
    them in the same moment. Takes about seven minutes.

    Example: tidelog lab compare --modes isr,quorum --report compare.html
    """
    from tidelog.cli.lab.running import Job
    from tidelog.lab.experiment.catalog import COMPARED
    from tidelog.lab.experiment.modes import CHOICES

    if target is TargetName.EXTERNAL:
        raise InvalidCommandLine(
            "compare needs a cluster of its own; use `tidelog lab run` with --target external."
        )
    chosen = modes.split(",") if modes else list(CHOICES)
    names = faults.split(",") if faults else list(COMPARED)
    experiments = [_with_rounds(_find(each), rounds) for each in names]
    ours = _target(TargetName.TIDELOG, None, None, {}, namespaces)
    jobs = [
        Job(ours, _in_modes(each, chosen), _compare_command(each.name, modes, rounds)) for each in experiments
    ]
    if target is TargetName.KAFKA:
        theirs = _target(TargetName.KAFKA, jars, None, {}, namespaces)
        jobs += [
            _job(theirs, _in_modes(each, ["isr"]), TargetName.KAFKA, each.name, None, rounds)
            for each in experiments
        ]
    _finish(jobs, history, directory, json, report)


def _find(name: str) -> "Experiment":
    from tidelog.lab.experiment import catalog

    return _understood(lambda: catalog.find(name))


def _understood(make: "Callable[[], Experiment]") -> "Experiment":
    from tidelog.lab.experiment.checking import ExperimentError

    try:
        return make()
    except ExperimentError as error:
        raise CommandFailed(str(error)) from error


def _in_modes(experiment: "Experiment", modes: "Sequence[str]") -> "Experiment":
    from tidelog.lab.experiment.modes import with_modes

    return _understood(lambda: with_modes(experiment, modes))


def _with_rounds(experiment: "Experiment", rounds: int | None) -> "Experiment":
    from msgspec.structs import replace

    return experiment if rounds is None else replace(experiment, rounds=rounds)


def _target(
    name: TargetName,
    jars: Path | None,
    bootstrap: str | None,
    commands: "Mapping[str, str | None]",
    namespaces: bool,
) -> "Target":
    _need_client()
    from tidelog.lab.targets.base import TargetError

    try:
        if name is TargetName.KAFKA:
            from tidelog.lab.targets.kafka import KafkaTarget

            return KafkaTarget(jars)
        if name is TargetName.EXTERNAL:
            from tidelog.lab.targets.external import ExternalTarget

            if bootstrap is None:
                raise InvalidCommandLine("--target external needs --bootstrap HOST:PORT.")
            refuse_chosen("the lab reaches an external cluster by a PLAINTEXT listener")
            return ExternalTarget(bootstrap, commands)
        from tidelog.lab.targets.tidelog import TidelogTarget

        return TidelogTarget(namespaces=namespaces)
    except TargetError as error:
        raise CommandFailed(str(error)) from error


def _need_client() -> None:
    try:
        import confluent_kafka  # noqa: F401
    except ImportError as error:
        raise CommandFailed(
            f"The lab's producers and consumers need confluent-kafka, which cannot be loaded ({error}); "
            "pip install confluent-kafka."
        ) from error


def _job(
    target: "Target",
    experiment: "Experiment",
    target_name: TargetName,
    name: str,
    mode: str | None,
    rounds: int | None,
) -> "Job":
    from tidelog.cli.lab.running import Job

    words = ["tidelog lab run", name]
    words += ["--mode", mode] if mode else []
    words += ["--rounds", str(rounds)] if rounds else []
    words += ["--target", target_name.value] if target_name is not TargetName.TIDELOG else []
    words += ["--jars DIR"] if target_name is TargetName.KAFKA else []
    return Job(target, experiment, " ".join(words))


def _compare_command(name: str, modes: str | None, rounds: int | None) -> str:
    words = ["tidelog lab compare --faults", name]
    words += ["--modes", modes] if modes else []
    words += ["--rounds", str(rounds)] if rounds else []
    return " ".join(words)


def _finish(
    jobs: "Sequence[Job]", history: Path | None, directory: Path | None, json: bool, report: Path | None
) -> None:
    from tidelog.cli.lab.outcome import check_history, check_report, exit_code, not_run, show
    from tidelog.cli.lab.running import run_all

    check_report(report)
    check_history(history)
    outcome = run_all(jobs, history=history, directory=directory)
    show(outcome.results, json=json, report=report)
    sys.stdout.flush()
    if outcome.interrupted:
        raise typer.Exit(130)
    if outcome.failures:
        raise CommandFailed("\ntidelog: ".join(outcome.failures))
    if nothing := not_run(outcome.results):
        raise CommandFailed(nothing)
    if code := exit_code(outcome.results):
        complain("A promise was broken; see above.")
        raise typer.Exit(code)
