"""``tidelog plan``: the command line."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from tidelog.cli.client import connect_admin
from tidelog.cli.cluster_client import ClusterClient
from tidelog.cli.failure import CommandFailed
from tidelog.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Json, TopicName, flag
from tidelog.cli.plan import display, live, report
from tidelog.cli.plan.applying import apply
from tidelog.cli.plan.proving import is_broken, prove
from tidelog.cli.plan.questions import ask_all
from tidelog.cli.plan.reading import brokers_in, options_of, rates_with, read_properties
from tidelog.cli.tables import print_json, print_table
from tidelog.config.modes import ISR
from tidelog.planner.faults import Faults
from tidelog.planner.needs import ANY, STRICT, Candidate, Needs, assess, search
from tidelog.planner.promises import RULES, Terms
from tidelog.planner.translation import Translated
from tidelog.planner.translation.kafka import from_kafka
from tidelog.planner.translation.others import SYSTEMS

KAFKA = "kafka"

app = typer.Typer(invoke_without_command=True, no_args_is_help=False)


class Order(StrEnum):
    STRICT = STRICT
    ANY = ANY


class Mode(StrEnum):
    ISR = "isr"
    PRIMARY_BACKUP = "primary-backup"
    QUORUM = "quorum"


def _number(name: str, words: str, least: int = 0) -> Any:
    return typer.Option(name, metavar="N", min=least, help=words)


Count = int | None


@app.callback()
def plan(
    context: typer.Context,
    brokers: Annotated[Count, _number("--brokers", "Number of brokers; default 3.", 1)] = None,
    writes: Annotated[
        Count, _number("--survive-writes", "Dead brokers during which writes must go on.")
    ] = None,
    reads: Annotated[Count, _number("--survive-reads", "Dead brokers during which reads must go on.")] = None,
    data: Annotated[
        Count, _number("--survive-data", "Disks that may be lost without losing an acknowledged record.")
    ] = None,
    power: Annotated[bool, flag("--power", help="A power failure of all brokers must lose nothing.")] = False,
    order: Annotated[
        Order,
        typer.Option(
            "--order", help="strict: producers stay with a partition; any: they may move to others."
        ),
    ] = Order.STRICT,
    copies_max: Annotated[
        Count, _number("--replicas-max", "Disk budget: at most so many replicas of each record.", 1)
    ] = None,
    mode: Annotated[Mode | None, typer.Option("--mode", help="Consider only this replication mode.")] = None,
    separate: Annotated[
        bool, flag("--separate-controllers", help="The controllers have machines of their own.")
    ] = False,
    system: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="SYSTEM",
            help="Translate the settings of kafka, rocketmq, dledger, nats or rabbitmq.",
        ),
    ] = None,
    replicas: Annotated[Count, _number("--replicas", "With --from: replicas of each record.", 1)] = None,
    min_isr: Annotated[Count, _number("--min-isr", "With --from kafka: min.insync.replicas.", 1)] = None,
    acks: Annotated[
        str | None, typer.Option("--acks", metavar="ACKS", help="With --from kafka: 0, 1 or all.")
    ] = None,
    unclean: Annotated[
        bool, flag("--unclean", help="With --from kafka: unclean.leader.election.enable=true.")
    ] = False,
    queues: Annotated[
        Count, _number("--queues", "With --from: queues or partitions of the topic.", 1)
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", metavar="FILE", help="With --from: a properties file of that system."),
    ] = None,
    settings: Annotated[
        list[str],
        typer.Option("--set", metavar="KEY=VALUE", help="With --from: a setting by the system's own name."),
    ] = [],  # noqa: B006 — typer reads the default and never changes it
    rates: Annotated[
        list[str],
        typer.Option("--rate", metavar="NAME=VALUE", help="Another failure or repair rate; may be repeated."),
    ] = [],  # noqa: B006
    json: Json = False,
    to: Annotated[
        Path | None, typer.Option("--to", metavar="FILE", help="Also write the report as Markdown.")
    ] = None,
    proves: Annotated[
        bool,
        flag("--prove", help="Run the faults with real brokers on this machine, and compare. Takes minutes."),
    ] = False,
    apply_to: Annotated[
        str | None,
        typer.Option("--apply", metavar="TOPIC", help="Create or change this topic with the settings."),
    ] = None,
    yes: Annotated[bool, flag("--yes", help="With --apply: do not ask.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Find the settings for what you must survive, and the exact faults that could still lose a record.

    Give needs (--survive-writes, --survive-data, …), or the settings of another system (--from). Without
    either, it asks five questions.

    Example: tidelog plan --brokers 5 --survive-writes 2 --survive-data 2
    """
    if context.invoked_subcommand is not None:
        return
    chosen = rates_with(rates)
    if system is not None:
        given = options_of(
            {
                "replicas": replicas,
                "min.insync.replicas": min_isr,
                "acks": acks,
                "unclean.leader.election.enable": "true" if unclean else None,
                "queues": queues,
            },
            read_properties(file) if file else {},
            settings,
        )
        translated = _translate(system, given)
        count = brokers or max(3, translated.terms.replicas)
        mine, same = _compare(translated, count, separate)
        found_report = report.of_translation(translated, mine, same, chosen, count)
        answer = same or mine
        proof = prove([mine, same] if same else [mine], count) if proves else []
        _output(found_report | {"proof": proof}, f"Plan: from {system}", json, to)
    else:
        _refuse_without_system(replicas, min_isr, acks, unclean, queues, file, settings)
        given_needs = (
            any(each is not None for each in (brokers, writes, reads, data, copies_max, mode)) or power
        )
        needs = Needs(
            brokers or 3, writes or 0, reads or 0, data or 0, power, order.value, copies_max or 0,
            mode.value if mode else "", separate,
        )  # fmt: skip
        if not given_needs:
            needs = ask_all(lambda text, default: typer.prompt(text, default=default), print)
            print()
        _check(needs)
        found = search(needs)
        proof = prove(found.candidates[:1], needs.brokers) if proves and found.candidates else []
        _output(report.of_needs(needs, found, chosen) | {"proof": proof}, "Plan", json, to)
        if not found.candidates:
            raise typer.Exit(1)
        answer = found.candidates[0]
    if is_broken(proof):
        raise CommandFailed("The lab observed something else than the plan says; see the proof.")
    if apply_to is not None:
        apply(bootstrap, apply_to, answer.terms, queues or 0, ask=not yes)


def _output(found: report.Report, title: str, json: bool, to: Path | None) -> None:
    if to is not None:
        try:
            to.write_text(display.markdown(found, title), encoding="utf-8")
        except OSError as error:
            raise CommandFailed(f"{to} cannot be written: {error.strerror}.") from None
    if json:
        print_json(found)
        return
    display.print_report(found)
    if to is not None:
        print(f"\nWritten to {to}.")


def _check(needs: Needs) -> None:
    """Needs that no cluster of this size can have."""
    for name, words in (
        ("writes", "--survive-writes"),
        ("reads", "--survive-reads"),
        ("data", "--survive-data"),
    ):
        if getattr(needs, name) >= needs.brokers:
            raise CommandFailed(
                f"{words} {getattr(needs, name)} with {needs.brokers} brokers: at least one has to be left."
            )
    if needs.replicas_max > needs.brokers:
        raise CommandFailed(
            f"--replicas-max {needs.replicas_max} is more than the {needs.brokers} brokers: each holds one "
            f"replica at "
            "most."
        )


def _refuse_without_system(*given: object) -> None:
    if any(given):
        raise CommandFailed(
            "--replicas, --min-isr, --acks, --unclean, --queues, --file and --set describe another system; "
            "name it "
            "with --from."
        )


def _translate(system: str, options: dict[str, str]) -> Translated:
    try:
        if system == KAFKA:
            if "replicas" in options:
                options["replication.factor"] = options.pop("replicas")
            if "queues" in options:
                options["num.partitions"] = options.pop("queues")
            return from_kafka(options)
        if system in SYSTEMS:
            return SYSTEMS[system](options)
    except ValueError as error:
        raise CommandFailed(f"A setting of {system} is not a number: {error}.") from None
    raise CommandFailed(f"There is no system {system!r}; known are {', '.join([KAFKA, *SYSTEMS])}.")


def _compare(translated: Translated, brokers: int, separate: bool) -> tuple[Candidate, Candidate | None]:
    """The settings, and the isr settings with the same promises, if they are not isr themselves."""
    terms = translated.terms
    if terms.replicas > brokers:
        raise CommandFailed(
            f"{terms.replicas} replicas need {terms.replicas} brokers, and there are {brokers}: each holds "
            f"one replica "
            "at most."
        )
    if terms.acks not in ("0", "1", "all"):
        raise CommandFailed(f"acks is {terms.acks!r}; it is 0, 1 or all.")
    where = Needs(brokers, separate_controllers=separate).placement(terms.replicas)
    mine = assess(terms, where)
    if terms.mode == ISR:
        return mine, None
    same = Terms(ISR, terms.replicas, min_in_sync=terms.copies, synced=terms.synced)
    return mine, assess(same, where) if RULES[terms.mode].elects_itself else None


@app.command("topic")
def topic(
    topic: TopicName,
    json: Json = False,
    to: Annotated[
        Path | None, typer.Option("--to", metavar="FILE", help="Also write the report as Markdown.")
    ] = None,
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
    place = min(found.places, key=lambda each: (each.terms.replicas, each.partition))
    mine = assess(place.terms, place.where)
    away = [each for each in live.changes(found, Faults()) if not each.after.writes or each.below_minimum]
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


def _write(to: Path, text: str) -> None:
    try:
        to.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandFailed(f"{to} cannot be written: {error.strerror}.") from None


def _worst(found: live.Live, size: int) -> str:
    worst = live.worst(found, size)
    return worst.words() if worst is not None else ""


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
    rows = [each.row() for each in live.changes(found, faults)]
    result = {
        "away_now": sorted(found.away),
        "controllers": list(found.controllers),
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
    print(f"\nThe worst single broker now: {result['worst_single']}.")
    if result["worst_pair"]:
        print(f"The worst pair now: {result['worst_pair']}.")
