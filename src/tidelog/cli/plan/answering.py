"""The two ways to an answer: from needs, or from the settings of another system."""

from collections.abc import Iterator
from math import isfinite
from typing import NamedTuple

from tidelog.cli.failure import CommandFailed, InvalidCommandLine
from tidelog.cli.plan import report
from tidelog.cli.plan.costing import HOW, Known
from tidelog.config.modes import ISR
from tidelog.planner.costs import predict
from tidelog.planner.fault_sets import REPLICAS_MAX
from tidelog.planner.needs import BROKERS_MAX, Candidate, Needs, assess, count, search
from tidelog.planner.promises import RULES, Terms
from tidelog.planner.translation import Translated
from tidelog.planner.translation.kafka import from_kafka
from tidelog.planner.translation.others import SYSTEMS
from tidelog.planner.wishes import Prediction, Wishes, fast_enough
from tidelog.planner.years import Rates

KAFKA = "kafka"


class Advice(NamedTuple):
    title: str
    found: report.Report
    proved: tuple[Candidate, ...]  # what --prove runs
    brokers: int
    chosen: Candidate | None  # what --apply makes; none: nothing satisfies the needs


class Context(NamedTuple):
    """What both ways use."""

    rates: Rates
    costs: Known


def from_needs(needs: Needs, wishes: Wishes, context: Context) -> Advice:
    check(needs)
    if not all(map(isfinite, wishes)):
        raise InvalidCommandLine("--p99-ms and --mb-per-s must be numbers.")
    found = search(needs)
    if any(wishes):
        found = fast_enough(found, wishes, _prediction(context.costs, needs.brokers))
    best = found.candidates[:1]
    told = report.of_needs(needs, found, context.rates, context.costs)
    return Advice("Plan", told, best, needs.brokers, best[0] if best else None)


def _prediction(known: Known, brokers: int) -> Prediction:
    if known is None:
        raise CommandFailed(f"--p99-ms and --mb-per-s need a calibration: {HOW}")
    return lambda terms: predict(terms, known.rounds, brokers, known.cores)


def from_system(
    system: str, options: dict[str, str], brokers: int, separate: bool, context: Context
) -> Advice:
    system = system.lower()
    translated = _translate(system, options)
    there = brokers or max(3, translated.terms.replicas)
    mine, same = _compare(translated, there, separate)
    translated = translated._replace(notes=(*translated.notes, *_gained(mine)))
    told = report.of_translation(translated, mine, same, context.rates, there, context.costs)
    proved = (mine,) if same is None else (mine, same)
    return Advice(f"Plan: from {system}", told, proved, there, same or mine)


def check(needs: Needs) -> None:
    """Needs that no cluster of this size can have."""
    check_size(needs.brokers)
    for name, words in (
        ("writes", "--survive-writes"),
        ("reads", "--survive-reads"),
        ("data", "--survive-data"),
    ):
        if getattr(needs, name) >= needs.brokers:
            raise InvalidCommandLine(
                f"{words} {getattr(needs, name)} with {needs.brokers} brokers: at least one has to be left."
            )
    if needs.replicas_max > needs.brokers:
        raise InvalidCommandLine(
            f"--replicas-max {needs.replicas_max} is more than the {needs.brokers} brokers: each holds one "
            "replica at most."
        )
    if needs.racks > needs.brokers:
        raise InvalidCommandLine(f"--racks {needs.racks} is more than the {needs.brokers} brokers.")
    if needs.racks_lost and not needs.racks:
        raise InvalidCommandLine("--survive-racks needs --racks: over how many racks are the brokers spread?")
    if needs.racks_lost and needs.racks_lost >= needs.racks:
        raise InvalidCommandLine(
            f"--survive-racks {needs.racks_lost} with {count(needs.racks, 'rack')}: at least one has to be "
            "left."
        )


def check_size(brokers: int) -> None:
    if brokers > BROKERS_MAX:
        raise InvalidCommandLine(f"--brokers {brokers} is more than {BROKERS_MAX}.")


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
        raise InvalidCommandLine(f"--from {system}: {error}") from None
    raise InvalidCommandLine(f"There is no system {system!r}; known are {', '.join([KAFKA, *SYSTEMS])}.")


def _gained(there: Candidate) -> Iterator[str]:
    """What Kafka's own brokers do not promise with these settings."""
    here = assess(there.terms._replace(kafka=False), there.where)
    if here.reads > there.reads:
        go_on = f"with {count(here.reads, 'dead broker')}"
        yield f"In Tidelog, reads go on {go_on}: replicas serve readers without the controllers."
    if here.writes > there.writes:
        go_on = f"with {count(here.writes, 'dead broker')}" if here.writes else "while no broker is dead"
        yield f"In Tidelog, writes go on {go_on}."


def _compare(translated: Translated, brokers: int, separate: bool) -> tuple[Candidate, Candidate | None]:
    """The settings, and the isr settings with the same promises, if they are not isr themselves."""
    terms = translated.terms
    if terms.replicas > REPLICAS_MAX:
        raise InvalidCommandLine(
            f"{terms.replicas} replicas: fault sets are computed for up to {REPLICAS_MAX}."
        )
    check_size(brokers)
    if terms.replicas > brokers:
        raise InvalidCommandLine(
            f"{terms.replicas} replicas need {terms.replicas} brokers, and there are {brokers}: each holds "
            "one replica at most."
        )
    if terms.acks not in ("0", "1", "all"):
        raise InvalidCommandLine(f"acks is {terms.acks!r}; it is 0, 1 or all.")
    where = Needs(brokers, separate_controllers=separate).placement(terms.replicas)
    mine = assess(terms, where)
    if terms.mode == ISR:
        return mine, None
    same = Terms(ISR, terms.replicas, min_in_sync=terms.copies, synced=terms.synced)
    return mine, assess(same, where) if RULES[terms.mode].elects_itself else None
