"""``tidelog plan``: the command line."""

import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated, Any

import typer

from tidelog.cli.client import connect_admin
from tidelog.cli.cluster_client import ClusterClient
from tidelog.cli.failure import CommandFailed, InvalidCommandLine
from tidelog.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Json, TopicName, flag
from tidelog.cli.plan import costing, display, live, options, report
from tidelog.cli.plan.answering import Advice, Context, from_needs, from_system
from tidelog.cli.plan.applying import apply
from tidelog.cli.plan.proving import NOT_PROVED, Proof, prove
from tidelog.cli.plan.questions import ask_all
from tidelog.cli.plan.reading import brokers_in, options_of, rates_with, read_properties
from tidelog.cli.tables import print_json, print_table
from tidelog.planner.faults import Faults, Placement, listed
from tidelog.planner.needs import STRICT, Needs, controllers_disks, in_words
from tidelog.planner.what_if import Live, changes, summary, worst
from tidelog.planner.wishes import Wishes

app = typer.Typer(invoke_without_command=True, no_args_is_help=False)


@app.callback()
def plan(
    context: typer.Context,
    brokers: options.Brokers = None,
    writes: options.Writes = None,
    reads: options.Reads = None,
    data: options.Data = None,
    power: options.Power = False,
    racks: options.Racks = None,
    racks_lost: options.RacksLost = None,
    order: options.Ordered = options.Order.STRICT,
    replicas_max: options.ReplicasMax = None,
    p99_ms: options.P99 = None,
    mb_per_s: options.Throughput = None,
    mode: options.OnlyMode = None,
    separate: options.Separate = False,
    system: options.System = None,
    replicas: options.Replicas = None,
    min_isr: options.MinIsr = None,
    acks: options.Acks = None,
    unclean: options.Unclean = False,
    queues: options.Queues = None,
    file: options.File = None,
    settings: options.Given = [],  # noqa: B006 — typer reads the default and never changes it
    rates: options.RateList = [],  # noqa: B006
    json: Json = False,
    to: options.To = None,
    proves: options.Prove = False,
    jars: options.Jars = None,
    apply_to: options.Apply = None,
    yes: options.YesToApply = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Find the settings for what you must survive, and the exact faults that could still lose a record.

    Give needs (--survive-writes, --survive-data, …), or the settings of another system (--from). Without
    either, it asks five questions.

    Example: tidelog plan --brokers 5 --survive-writes 2 --survive-data 2
    """
    if context.invoked_subcommand is not None:
        _refuse_before(context, context.invoked_subcommand)
        return
    known = Context(rates_with(rates), costing.read())
    named = {
        "replicas": replicas,
        "min.insync.replicas": min_isr,
        "acks": acks,
        "unclean.leader.election.enable": "true" if unclean else None,
        "queues": queues,
    }
    given_needs = (brokers, writes, reads, data, racks, racks_lost, replicas_max, mode, p99_ms, mb_per_s)
    is_given = power or separate or order != STRICT or any(each is not None for each in given_needs)
    if system is not None:
        _refuse_needs(power or order != STRICT, *given_needs[1:])
        given = options_of(named, read_properties(file) if file else {}, settings)
        advice = from_system(system, given, brokers or 0, separate, known)
    else:
        _refuse_without_system(replicas, min_isr, acks, unclean, queues and not apply_to, file, settings)
        needs = Needs(
            brokers or 3, writes or 0, reads or 0, data or 0, power, order.value, replicas_max or 0,
            mode.value if mode else "", separate, racks or 0, racks_lost or 0,
        )  # fmt: skip
        wishes = Wishes(p99_ms or 0.0, mb_per_s or 0.0)
        advice = from_needs(needs if is_given else _asked(), wishes, known)
    proof = prove(advice.proved, advice.brokers, jars) if proves and advice.proved else NOT_PROVED
    _finish(advice, proof, json=json, to=to)
    if apply_to is not None and advice.chosen is not None:
        # With --json, nothing but JSON goes to stdout.
        with redirect_stdout(sys.stderr if json else sys.stdout):
            apply(bootstrap, apply_to, advice.chosen, queues or 0, ask=not yes)


def _refuse_before(context: typer.Context, command: str) -> None:
    """Options of another cluster, say, must not be ignored."""
    given = [
        each.opts[0]
        for each in context.command.params
        if each.name and getattr(context.get_parameter_source(each.name), "name", "") == "COMMANDLINE"
    ]
    if given:
        raise InvalidCommandLine(f"{listed(given)}: give options after `{command}`, not before it.")


def _refuse_needs(*given: object) -> None:
    if any(each is not None and each is not False for each in given):
        raise InvalidCommandLine(
            "--from says what these settings promise; --survive-…, --power, --racks, --order, --mode, "
            "--replicas-max, --p99-ms and --mb-per-s are needs. Give one or the other."
        )


def _asked() -> Needs:
    needs = ask_all(lambda text, default: typer.prompt(text, default=default), print)
    print()
    return needs


def _finish(advice: Advice, proof: Proof, *, json: bool, to: Path | None) -> None:
    """Ends the command where nothing satisfies the needs, or the proof shows otherwise."""
    _output(advice.found | {"proof": list(proof.rows)}, advice.title, json, to, proof)
    if advice.chosen is None:
        raise typer.Exit(1)
    if proof.is_broken:
        raise CommandFailed("The lab observed something else than the plan says; see the proof.")


def _output(found: report.Report, title: str, json: bool, to: Path | None, proof: Proof) -> None:
    written = [] if to is None else _write(to, display.markdown(found, title), proof.plots)
    if json:
        print_json(found)
        return
    display.print_report(found)
    if written:
        print(f"\nWritten to {', '.join(map(str, written))}.")


def _refuse_without_system(*given: object) -> None:
    if any(given):
        raise InvalidCommandLine(
            "--replicas, --min-isr, --acks, --unclean, --queues, --file and --set describe another system; "
            "name it with --from."
        )


@app.command("topic")
def topic(
    topic: TopicName,
    json: Json = False,
    to: options.To = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Show what a topic really promises: with its settings, on its brokers, and now.

    Example: tidelog plan topic orders
    """
    with ClusterClient(bootstrap) as client:
        every = live.look(client, connect_admin(bootstrap), internal=True)
    found = every._replace(places=tuple(each for each in every.places if each.topic == topic))
    if not found.places:
        raise CommandFailed(f"Topic '{topic}' does not exist; `tidelog topic list` shows the existing ones.")
    place, mine = live.weakest(found.places)
    away = [each for each in changes(found, Faults()) if not each.after.writes or each.below_minimum]
    result = {
        "topic": topic,
        "partition": place.partition,
        "promise": report.promise_of(mine),
        "years": report.years_of([mine], rates_with([])),
        "rates": report.rates_of(rates_with([])),
        "away_now": sorted(found.away),
        "troubled_now": [each.row() for each in away],
        "worst_single": _worst(found, 1),
        "worst_pair": _worst(found, 2),
    }
    if to is not None:
        _write(to, display.topic_markdown(result))
    if json:
        print_json(result)
    else:
        display.print_topic(result)


def _write(to: Path, text: str, plots: Sequence[tuple[str, str]] = ()) -> list[Path]:
    """The report, and beside it the plots of the proof."""
    files = {
        to.with_name(f"{to.stem}-proof-{number}.svg"): plot for number, plot in enumerate(plots, 1) if plot[1]
    }
    text += display.plots(files)
    try:
        for path, (_, image) in files.items():
            path.write_text(image, encoding="utf-8")
        to.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandFailed(f"{to} cannot be written: {error.strerror}.") from None
    return [to, *files]


def _worst(found: Live, size: int) -> str:
    most = worst(found, size)
    return most.words() if most is not None else ""


def _named(name: str, words: str) -> Any:
    return typer.Option(name, metavar="BROKERS", help=f"{words} Numbers with commas.")


@app.command("what-if")
def what_if(
    dead: Annotated[str, _named("--dead", "Brokers that are down.")] = "",
    disk: Annotated[str, _named("--lost-disk", "Brokers that lose their disks.")] = "",
    power: Annotated[str, _named("--lost-power", "Brokers that lose power at once.")] = "",
    cut_off: Annotated[str, _named("--cut-off", "Brokers that reach no other; clients may reach them.")] = "",
    slow: Annotated[str, _named("--slow", "Brokers that do not keep up.")] = "",
    internal: Annotated[bool, flag("--internal", help="Include internal topics (__…).")] = False,
    json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Show what would happen to this cluster, as it is now, with these faults.

    Per partition: whether writes and reads go on, whether it is below its minimum, and what may be lost.
    Brokers that are down already count.

    Example: tidelog plan what-if --dead 2,3 --lost-disk 1
    """
    faults = Faults(
        brokers_in(slow), brokers_in(dead), brokers_in(cut_off), brokers_in(power), brokers_in(disk)
    )
    with ClusterClient(bootstrap) as client:
        found = live.look(client, connect_admin(bootstrap), internal=internal)
    live.check_known(found, faults)
    changed = changes(found, faults)
    rows = [each.row() for each in changed]
    result = {
        "away_now": sorted(found.away),
        "controllers": list(found.controllers),
        "summary": summary(changed),
        "metadata_lost": _loses_metadata(found, faults),
        "partitions": rows,
        "worst_single": _worst(found, 1),
        "worst_pair": _worst(found, 2),
    }
    if json:
        print_json(result)
        return
    if found.away:
        print(f"Down already: {', '.join(map(str, sorted(found.away)))}.\n")
    if not rows:
        print("There are no topics yet.")
        return
    columns = ("topic", "partition", "mode", "leader", "writes", "reads", "below_minimum", "loss")
    print_table(rows, {each: each.replace("_", " ") for each in columns}, ("partition", "leader"))
    print(f"\n{result['summary']}")
    if result["metadata_lost"]:
        print("The controllers lose the metadata of the cluster; it cannot start without one of these disks.")
    print(f"The worst single broker now: {result['worst_single']}.")
    if result["worst_pair"]:
        print(f"The worst pair now: {result['worst_pair']}.")


def _loses_metadata(found: Live, faults: Faults) -> bool:
    lost = faults.disk_lost.intersection(found.controllers)
    return len(lost) > controllers_disks(Placement((), found.controllers))


@app.command("calibrate")
def calibrate(
    directory: Annotated[
        Path | None,
        typer.Option(
            "--dir", metavar="DIR", help="Where the brokers write; default: the user's cache directory."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Measure what a write costs on this machine, so that latency and throughput can be predicted.

    Starts three brokers, writes to them for less than a minute, and removes them. The machine should do
    nothing else meanwhile.

    Example: tidelog plan calibrate
    """
    from tidelog.cli.plan.calibrating import calibrate as measure

    found = measure(lambda text: print(text, file=sys.stderr), directory)
    where = costing.write(found)
    if json:
        print_json(costing.as_json(found))
        return
    rows = costing.cost_rows([(in_words(each), each) for each in costing.EXAMPLES], 3, found)
    display.print_calibration(found, rows, where)
