"""The table of promises: what ``tidelog modes`` prints about a mode, its settings and its placement."""

from itertools import combinations

from tidelog.planner.faults import Faults, Placement, usual_placement
from tidelog.planner.model import outcome
from tidelog.planner.promises import RULES, Terms, losses, survives_destruction


def failures_tolerated(terms: Terms, where: Placement) -> tuple[int, int]:
    """How many dead brokers are tolerated for writes and for reads, whichever brokers of the replicas and the
    controllers they are.
    """
    writes = reads = -1
    brokers = sorted({*where.replicas, *where.controllers})
    for size in range(len(brokers) + 1):
        found = [outcome(terms, where, Faults(dead=frozenset(dead))) for dead in combinations(brokers, size)]
        if writes == size - 1 and all(each.writes for each in found):
            writes = size
        if reads == size - 1 and all(each.reads for each in found):
            reads = size
    return writes, reads


def describe(terms: Terms, where: Placement | None = None) -> dict[str, str | int | list[str]]:
    """One row of the table of promises. Without a placement: a cluster whose brokers are the controllers."""
    rule = RULES[terms.mode]
    writes, reads = failures_tolerated(terms, where or usual_placement(terms.replicas))
    backups = terms.replicas - 1
    return {
        "mode": terms.mode,
        "replicas": terms.replicas,
        "copies": terms.copies,
        "survives_writing": writes,
        "survives_reading": reads,
        "survives_destruction": survives_destruction(terms),
        "writes_stop_when": _stop(terms, backups, writes),
        "can_lose_when": losses(terms),
        "order": rule.order,
        "who_leads": rule.who_leads,
        "leader_dead": rule.without_leader,
        "needs_controllers": rule.needs_controllers,
        "acks_1": rule.acks_1,
        "least_replicas": rule.least_replicas(terms),
    }


def _stop(terms: Terms, backups: int, tolerated: int) -> str:
    if RULES[terms.mode].leader_can_be_replaced:
        spare = terms.replicas - terms.copies
        down = min(spare, tolerated) + 1
        shown = f"{down} of {terms.replicas} replicas {'is' if down == 1 else 'are'} down"
        return f"{shown}, and the controllers' majority with them" if tolerated < spare else shown
    if terms.may_degrade:
        return "the primary is down; without backups, writes pause for replication.degrade.after.ms"
    spare = terms.replicas - terms.copies
    if backups == 0 or spare >= backups:
        return "the primary is down"
    if backups == 1:
        return "the primary or its backup is down"
    return f"the primary is down, or {spare + 1} of its {backups} backups"
