"""Which acknowledged records a set of faults may cost.

The question is always the same: which replicas may be the only ones with an acknowledged record
(:attr:`tidelog.planner.promises.Rule.may_hold_alone`), and can they all be given up? Exact: all sets of
holders are tried.
"""

from tidelog.planner.faults import Faults, Placement
from tidelog.planner.outages import positions
from tidelog.planner.promises import LEADER, RULES, Terms, holders_may_be_gone, subsets
from tidelog.types import majority

NOTHING_PROMISED = "acks=0: nothing is acknowledged by a broker"
DATA_GONE = "all replicas with the record lost it"
LEADER_REPLACED = "the leader was replaced before another replica had the record (acks=1)"
UNCLEAN = "a replica without the record became leader (unclean election)"


def loss(terms: Terms, where: Placement, faults: Faults) -> str:
    """Why an acknowledged record may be lost; empty: none is lost."""
    rule = RULES[terms.mode]
    if terms.acks == "0":
        return NOTHING_PROMISED
    gone = _places(where, faults.disk_lost if terms.synced else faults.disk_lost | faults.power_lost)
    affected = _places(where, faults.affected)
    if not rule.decides(terms, gone) or any(
        rule.may_hold_alone(terms, holders, affected) and _could_shrink(terms, where, faults, holders)
        for holders in subsets(gone)
    ):
        return DATA_GONE
    if terms.acks == "1" and not rule.acks_1_is_all and _leader_is_replaced(terms, where, faults):
        return LEADER_REPLACED
    if terms.unclean and _unclean_loses(terms, where, faults):
        return UNCLEAN
    return ""


def _places(where: Placement, brokers: frozenset[int]) -> frozenset[int]:
    return positions(brokers, where.replicas[LEADER], where.replicas)


def _could_shrink(terms: Terms, where: Placement, faults: Faults, holders: frozenset[int]) -> bool:
    """Whether the controllers could leave all others out of the in-sync set before the holders were hit."""
    rule = RULES[terms.mode]
    if not rule.leader_can_be_replaced or rule.elects_itself or len(holders) == terms.replicas:
        return True
    left_out = {each for place, each in enumerate(where.replicas) if place not in holders}
    return _majority_without(where, faults.away & left_out)


def _majority_without(where: Placement, away: frozenset[int]) -> bool:
    alive = [each for each in where.controllers if each not in away]
    return not where.controllers or len(alive) >= majority(len(where.controllers))


def _leader_is_replaced(terms: Terms, where: Placement, faults: Faults) -> bool:
    """Another replica leads at some time while the leader is away, or the leader's data is gone. Without a
    majority of the controllers all sessions end, and the next active controller may appoint another replica.
    """
    leader = where.replicas[LEADER]
    if terms.replicas > 1 and (faults.controllers_lost or not _majority_without(where, faults.away)):
        return True
    if leader in faults.disk_lost or (leader in faults.power_lost and not terms.synced):
        return True
    return leader in faults.away and terms.replicas > 1 and _majority_without(where, frozenset({leader}))


def _unclean_loses(terms: Terms, where: Placement, faults: Faults) -> bool:
    """All holders are away at a time when another replica is there, or one that lost its data returns.
    Without a majority of the controllers all sessions end: the next active controller may hear of another
    replica first, and takes holders that live for dead.
    """
    rule = RULES[terms.mode]
    decide = not faults.controllers_lost and _majority_without(where, faults.away)
    away = _places(where, faults.away if decide else frozenset(where.replicas))
    affected = _places(where, faults.affected)
    emptied = _places(where, faults.disk_lost if terms.synced else faults.disk_lost | faults.power_lost)
    return any(
        rule.may_hold_alone(terms, holders, affected)
        and _could_shrink(terms, where, faults, holders)
        and (len(holders) < terms.replicas or holders & emptied)
        for holders in subsets(away)
    )


def lost_with(terms: Terms, where: Placement, faults: Faults) -> bool:
    """The same with every follower late before the faults: what a busy cluster may come to."""
    late = frozenset(where.replicas[LEADER + 1 :]) - faults.affected
    gone = _places(where, faults.disk_lost if terms.synced else faults.disk_lost | faults.power_lost)
    return holders_may_be_gone(terms, gone, _places(where, faults.affected | late))
