"""What ``tidelog plan`` says, as plain data: the same for a terminal, for JSON and for Markdown."""

from collections.abc import Sequence
from typing import Any

from tidelog.cli.plan.costing import Known, cost_rows
from tidelog.cli.plan.settings import create_command, topic_settings
from tidelog.planner import racks as rack_sets
from tidelog.planner.fault_sets import losing, sentence, slowing_writes, stopping_reads, stopping_writes
from tidelog.planner.faults import Placement
from tidelog.planner.needs import Candidate, Found, Needs, assess, count, in_words, metadata_lost
from tidelog.planner.promises import LEADER, RULES, Terms
from tidelog.planner.table import failures_tolerated
from tidelog.planner.translation import Translated
from tidelog.planner.translation.kafka import from_kafka, to_kafka
from tidelog.planner.years import SOURCES, Rates, years

SHOWN = 4  # candidates in the table

Report = dict[str, Any]


def promise_of(candidate: Candidate) -> Report:
    """One candidate: its settings, what it tolerates, and the faults that it does not."""
    terms, where = candidate.terms, candidate.where
    rule = RULES[terms.mode]
    return {
        "settings_in_words": in_words(terms),
        "mode": terms.mode,
        "replicas": terms.replicas,
        "copies": terms.copies,
        "copies_when_acknowledged": copies_when_acknowledged(terms),
        "topic_settings": topic_settings(terms),
        "producer_settings": producer_settings(terms),
        "tolerates": {
            "dead_brokers_for_writes": candidate.writes,
            "dead_brokers_for_reads": candidate.reads,
            "lost_disks": candidate.disks,
            "power_failure_of_all": candidate.power,
        },
        # More dead brokers than one partition tolerates: with --order any.
        "producers_move": candidate.writes > failures_tolerated(terms, where)[0],
        "leader": where.replicas[LEADER],
        "may_lose_when": _loss(terms, where),
        "metadata_lost_when": _metadata_lost(terms, where),
        "writes_stop_when": [sentence(terms, where, each) for each in stopping_writes(terms, where)],
        "writes_wait_when": [sentence(terms, where, each) for each in slowing_writes(terms, where)],
        "reads_stop_when": [sentence(terms, where, each) for each in stopping_reads(terms, where)],
        "racks": _racks(terms, where),
        "order": rule.order,
        "when_the_leader_fails": rule.without_leader,
    }


def _racks(terms: Terms, where: Placement) -> Report | None:
    """None: it is not known where the racks are."""
    if not where.racks:
        return None
    return {
        "tolerated": rack_sets.tolerated(terms, where),
        "may_lose_when": rack_sets.sentences(rack_sets.losing(terms, where), where),
        "writes_stop_when": rack_sets.sentences(rack_sets.stopping_writes(terms, where), where),
        "reads_stop_when": rack_sets.sentences(rack_sets.stopping_reads(terms, where), where),
    }


def copies_when_acknowledged(terms: Terms) -> int:
    """With the acks of these producers."""
    if terms.acks == "0":
        return 0
    return terms.copies if terms.acks == "all" or RULES[terms.mode].acks_1_is_all else 1


def _loss(terms: Terms, where: Placement) -> list[str]:
    if terms.acks == "0":
        return ["Always: with acks=0, nothing is acknowledged."]
    return [sentence(terms, where, each) for each in losing(terms, where)]


def _metadata_lost(terms: Terms, where: Placement) -> list[str]:
    """Before the records themselves: their disks are there, and no broker serves them."""
    words = metadata_lost(terms, where)
    return [f"{words[:1].upper()}{words[1:]}."] if words else []


def producer_settings(terms: Terms) -> dict[str, str]:
    if terms.acks != "all":
        return {"acks": terms.acks}
    return {"acks": "all", "enable.idempotence": "true"}


def years_of(candidates: Sequence[Candidate], rates: Rates) -> list[Report]:
    rows = []
    for each in candidates:
        found = years(each.terms, each.where, rates)
        rows.append(
            {
                "settings": in_words(each.terms),
                "loss_probability_per_year": found.loss_probability,
                "minutes_without_writes_per_year": found.write_minutes,
                "minutes_without_reads_per_year": found.read_minutes,
            }
        )
    return rows


def _costs(candidates: Sequence[Candidate], brokers: int, known: Known) -> Report | None:
    return cost_rows([(in_words(each.terms), each.terms) for each in candidates], brokers, known)


def rates_of(rates: Rates) -> list[Report]:
    return [
        {"rate": name, "value": value, "source": SOURCES[name]}
        for name, value in rates._asdict().items()
        if name in SOURCES
    ]


def of_needs(needs: Needs, found: Found, rates: Rates, costs: Known) -> Report:
    best = found.candidates[0] if found.candidates else None
    shown = found.candidates[:SHOWN]
    return {
        "needs": needs._asdict(),
        "answer": promise_of(best) if best else None,
        "command": create_command("NAME", best.terms) if best else None,
        "candidates": [
            {"settings": in_words(each.terms), **promise_numbers(each)} for each in found.candidates
        ],
        "rejected": [each._asdict() for each in found.rejected],
        "give_up": list(found.give_up),
        "years": years_of(shown, rates),
        "rates": rates_of(rates),
        "costs": _costs(shown, needs.brokers, costs),
        "kafka": _kafka(best) if best else None,
    }


def promise_numbers(candidate: Candidate) -> Report:
    return {
        "replicas": candidate.terms.replicas,
        "writes": candidate.writes,
        "reads": candidate.reads,
        "data": candidate.disks,
        "power": candidate.power,
        "waits": waits_for(candidate.terms),
    }


def waits_for(terms: Terms) -> str:
    """What an acknowledgement waits for, which decides about latency."""
    rule = RULES[terms.mode]
    if rule.elects_itself:
        words = f"the fastest {terms.copies} of {terms.replicas}"
    elif rule.leader_can_be_replaced:
        words = f"all in-sync replicas, at least {terms.copies} of {terms.replicas}"
    elif terms.copies == 1:
        words = "the primary"
    else:
        backups = terms.replicas - 1
        which = "its backup" if backups == 1 else f"the fastest {terms.copies - 1} of {backups} backups"
        words = f"the primary and {which}"
    if not terms.synced:
        return words
    return f"{words}, synced" if words == "the primary" else f"{words}, each synced"


def _kafka(candidate: Candidate) -> Report:
    """The closest settings there, and what they do not have or tolerate on the same machines."""
    settings, notes = to_kafka(candidate.terms)
    # Without what is gained by producers that move: they can do that there as well.
    here = assess(candidate.terms, candidate.where)
    there = assess(from_kafka(settings).terms, candidate.where)
    rows = (
        ("dead broker", "for writes", here.writes, there.writes),
        ("dead broker", "for reads", here.reads, there.reads),
        ("lost disk", "", here.disks, there.disks),
    )
    counted = [
        f"Kafka tolerates {' '.join(filter(None, (count(theirs, what), of)))} with these settings, and "
        f"Tidelog {ours}."
        for what, of, ours, theirs in rows
        if ours != theirs
    ]
    return {"settings": settings, "differences": [*notes, *counted]}


def of_translation(
    translated: Translated,
    mine: Candidate,
    same_in_isr: Candidate | None,
    rates: Rates,
    brokers: int,
    costs: Known,
) -> Report:
    compared = [mine] if same_in_isr is None else [mine, same_in_isr]
    return {
        "from": translated.system,
        "brokers": brokers,
        "today": promise_of(mine),
        "command": create_command("NAME", mine.terms, translated.partitions),
        "notes": list(translated.notes),
        "not_translated": list(translated.unknown),
        "isr_equivalent": promise_of(same_in_isr) if same_in_isr else None,
        "isr_command": create_command("NAME", same_in_isr.terms, translated.partitions)
        if same_in_isr
        else None,
        "same": equalities(mine, same_in_isr) if same_in_isr else [],
        "different": differences(mine, same_in_isr) if same_in_isr else [],
        "partitions": translated.partitions,
        "years": years_of(compared, rates),
        "rates": rates_of(rates),
        "costs": _costs(compared, brokers, costs),
        "kafka": _kafka(same_in_isr or mine),
    }


def equalities(mine: Candidate, other: Candidate) -> list[str]:
    said = []
    if mine.terms.copies == other.terms.copies:
        said.append(f"An acknowledgement means at least {mine.terms.copies} copies.")
    if mine.writes == other.writes:
        said.append(f"Any {mine.writes} dead: writes go on. One more: writes may be refused.")
    if mine.disks == other.disks:
        said.append(f"Any {mine.disks} lost disks: no acknowledged record is lost, and the order is kept.")
    return said


def differences(mine: Candidate, isr: Candidate) -> list[str]:
    """Of settings whose replicas elect their leader, and the isr settings beside them."""
    rows = (
        ("dead brokers for writes", mine.writes, isr.writes),
        ("dead brokers for reads", mine.reads, isr.reads),
        ("lost disks", mine.disks, isr.disks),
    )
    counted = [
        f"{mine.terms.mode} tolerates {ours} {what}, isr {theirs}."
        for what, ours, theirs in rows
        if ours != theirs
    ]
    return [
        *counted,
        "isr waits for every member of the in-sync set: a slow one costs latency until it is left out. "
        f"quorum waits for the fastest {mine.terms.copies} of {mine.terms.replicas}.",
        "isr holds every committed record on every member: the last one of "
        f"{isr.terms.replicas} still has all of them, and with min.insync.replicas=1 it could go on while "
        "the controllers have a majority. quorum needs a majority of the replicas (n of n+1 against n of "
        "2n+1).",
        "isr needs the controllers to appoint a leader; the replicas of quorum elect one themselves.",
    ]
