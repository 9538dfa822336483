"""Years of an archive in ten minutes: everything around it is killed, exchanged or deleted, and then every
record is accounted for.

Three brokers with a topic of each mode; producers with and without transactions write to them all the time.
``tidelog pipeline archive`` runs as a process, again and again. Events drawn from ``--seed`` hit drivers,
brokers, executors (``--standalone``), topics, the schema, and the files of the archive
(:mod:`bench.drill.events`).

In the end the archive runs once more, ``tidelog pipeline audit --archive`` must find nothing, and a ledger of
what was acknowledged is compared with what other programs read from the archive (:mod:`bench.drill.ledger`).
"""

import json
import re
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from bench.drill import tables
from bench.drill.events import Stage, draw
from bench.drill.ledger import Ledger, Verdict, compare
from bench.drill.runs import OUTCOMES, Pipelines, Timer
from bench.drill.topics import Topics
from bench.drill.writing import Schema, Writer
from bench.lineup import CACHE, Options
from bench.process import BenchError, end_in_order
from bench.report import Check, Column, Report
from bench.standalone import running_standalone
from tidelog.testing import running_cluster

BROKERS = 3
JOIN_S = 700.0
QUICK = (
    "--conf", "spark.sql.shuffle.partitions=2", "--conf", "spark.driver.memory=600m",
    "--conf", "spark.ui.enabled=false",
)  # fmt: skip
LOCAL = ("--master", "local[2]", *QUICK)
EXECUTORS = (
    *QUICK, "--conf", "spark.executor.memory=512m", "--conf", "spark.executor.cores=1",
    "--conf", "spark.cores.max=2",
)  # fmt: skip
WORKER = ("--cores", "2", "--memory", "1800m")  # For two runs at the same time.

RECORDS = (
    Column("committed", "committed", ",.0f"),
    Column("archived", "archived", ",.0f"),
    Column("not_archived", "deleted before", ",.0f"),
    Column("undecodable", "undecodable", ",.0f"),
    Column("rolled_back", "aborted", ",.0f"),
    Column("uncertain", "uncertain", ",.0f"),
    Column("missing", "missing", ",.0f"),
    Column("doubled", "twice", ",.0f"),
    Column("seconds", "seconds", ",.0f"),
)
RUNS = tuple(Column(outcome, outcome, ",.0f") for outcome in OUTCOMES)
EVENTS = (Column("times", "times", ",.0f"),)
NAMES = {
    "missing": "records missing",
    "doubled": "records there twice",
    "aborted": "records of aborted transactions",
    "unknown": "records that were never written",
    "displaced": "records at another place",
    "changed": "records with another value",
    "undecoded": "records with other fields, or in the wrong table",
}


def run(options: Options) -> list[Report]:
    end_in_order()
    options.say(f"./dev bench {_words(options)}")
    CACHE.mkdir(exist_ok=True)
    # On the disk of the checkout. Kept unless all is well: archive, ledger, and what each run said.
    directory = Path(tempfile.mkdtemp(prefix="drill-", dir=CACHE))
    began = time.monotonic()
    try:
        with ExitStack() as stack:
            stage, writers = _set_up(directory, options, stack)
            _play(stage, writers, options)
            checks = _conclude(stage, options)
            with options.console.status("comparing every record"):
                verdict = _compare(stage, directory)
    except BaseException:
        options.say(f"what happened is in {directory}")
        raise
    records = _records(stage, verdict, time.monotonic() - began, options)
    records.checks += checks
    reports = [records, _events(stage.happened), _runs(stage.pipelines)]
    if any(report.is_missed for report in reports):
        records.notes.append(f"what happened is in {directory}")
    else:
        shutil.rmtree(directory, ignore_errors=True)
    return reports


def _words(options: Options) -> str:
    """To repeat it."""
    more = " --raw" * options.raw + " --standalone" * options.standalone
    return (
        f"archive-drill --minutes {options.minutes:g} --seed {options.seed} "
        f"--format {options.table_format}{more}"
    )


# --- the course ---------------------------------------------------------------------------------------------


def _set_up(directory: Path, options: Options, stack: ExitStack) -> tuple[Stage, list[Writer]]:
    with options.console.status("starting brokers"):
        cluster = stack.enter_context(running_cluster(directory / "brokers", BROKERS))
        topics = Topics(cluster)
        topics.create()
    spark = None
    if options.standalone:
        spark = stack.enter_context(running_standalone(directory / "spark", limits=WORKER))
    ledger, schema = Ledger(), Schema()
    writers = [
        Writer(cluster.bootstrap, topic, ledger, schema, options.seed, commits=commits)
        for topic in topics.all.values()
        for commits in (False, True)
    ]
    outputs = directory / "runs"
    outputs.mkdir()
    pipelines = Pipelines(
        topics,
        schema,
        cluster.bootstrap,
        directory / "archive",
        options.table_format,
        outputs,
        LOCAL if spark is None else ("--master", spark.master, *EXECUTORS),
        decodes=not options.raw,
    )
    stack.callback(pipelines.kill_all)
    return Stage(cluster, topics, ledger, pipelines, Timer(pipelines), spark), writers


def _play(stage: Stage, writers: list[Writer], options: Options) -> None:
    seconds = options.minutes * 60
    threads: list[Writer | Timer] = [*writers, stage.timer]
    for thread in threads:
        thread.start()
    began = time.monotonic()
    for event in draw(options.seed, seconds, executors=stage.spark is not None):
        if time.monotonic() - began > seconds:
            break  # On a slow machine the events before took too long.
        while time.monotonic() - began < event.at_s:
            _check(threads)
            with options.console.status(f"{time.monotonic() - began:.0f} of {seconds:.0f} s"):
                time.sleep(0.2)
        with options.console.status(f"{event.at_s:.0f} of {seconds:.0f} s: {event.kind}"):
            stage.play(event)
    with options.console.status("waiting for the end of what was begun"):
        time.sleep(max(began + seconds - time.monotonic(), 0))
        stage.timer.end()
        for writer in writers:
            writer.end()
        stage.heal()
        for thread in threads:
            thread.join(JOIN_S)
            if thread.is_alive():
                raise BenchError(f"the {thread.name} did not end within {JOIN_S:g} s")
        _check(threads)
        stage.pipelines.wait_for_all()


def _check(threads: Sequence[Writer | Timer]) -> None:
    for thread in threads:
        if thread.failure is not None:
            raise BenchError(f"the {thread.name} failed: {thread.failure}") from thread.failure


def _conclude(stage: Stage, options: Options) -> list[Check]:
    """A last run, and what Tidelog itself says of the archive."""
    with options.console.status("archiving the rest"):
        archived = stage.pipelines.archive().wait() == "finished"
    with options.console.status("auditing replicas and archive"):
        audit = stage.pipelines.audit()
        holds = audit.wait() == "finished" and audit.result["holds"]
    return [
        Check("the last run finishes", float(archived), 1, unit=""),
        Check("audit --archive finds nothing", float(holds), 1, unit=""),
    ]


def _compare(stage: Stage, directory: Path) -> Verdict:
    (directory / "ledger.json").write_text(json.dumps(stage.ledger.to_json()))
    rows = tables.read(stage.pipelines.target, stage.pipelines.table_format)
    return compare(stage.ledger, rows, stage.pipelines.covered, decodes=stage.pipelines.decodes)


# --- the report ---------------------------------------------------------------------------------------------


def _records(stage: Stage, verdict: Verdict, seconds: float, options: Options) -> Report:
    report = Report("what became of every record", RECORDS, ("format",), decides=True)
    report.rows.append(
        {
            "format": options.table_format,
            "committed": verdict.committed,
            "archived": verdict.archived,
            "not_archived": verdict.not_archived,
            "undecodable": verdict.undecodable,
            "rolled_back": len(stage.ledger.aborted),
            "uncertain": verdict.uncertain,
            "seconds": seconds,
            **verdict.defects,
        }
    )
    report.checks = [
        Check(NAMES[name], float(count), 0, at_least=False, unit="")
        for name, count in verdict.defects.items()
    ]
    report.notes = [*verdict.examples, f"./dev bench {_words(options)}"]
    return report


def _events(happened: Counter[str]) -> Report:
    report = Report("events", EVENTS, ("event",))
    report.rows = [{"event": event, "times": times} for event, times in sorted(happened.items())]
    return report


def _runs(pipelines: Pipelines) -> Report:
    report = Report("runs", RUNS, ("command",), decides=True)
    commands = Counter((run.name.partition("-")[0], run.outcome) for run in pipelines.runs)
    report.rows = [
        {"command": command, **{outcome: commands[command, outcome] for outcome in OUTCOMES}}
        for command in dict.fromkeys(name for name, _ in commands)
    ]
    broken = sum(run.outcome == "broken" for run in pipelines.runs)
    report.checks = [Check("runs that hang or end with a trace", float(broken), 0, at_least=False, unit="")]
    ended = [run for run in pipelines.runs if run.outcome in ("refused", "failed", "broken")]
    said = Counter(_alike(run.sentence, pipelines.target) for run in ended)
    report.notes = [f"{times} × {sentence}" for sentence, times in said.most_common()]
    return report


def _alike(sentence: str, target: Path) -> str:
    """Without what is different each time."""
    text = sentence.removeprefix("tidelog: ").replace(str(target), "the archive")
    return re.sub(r"process \d+ on \S+, since \S+;", "process …;", re.sub(r"\boffset \d+", "offset …", text))
