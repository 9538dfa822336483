"""What a topic promises while brokers are down, cut off from each other or unable to write.

:mod:`tidelog.planner.promises` counts replicas; here they are brokers, and the controllers count, too. Pure
arithmetic about one moment: what came before is not known, except who led when it began. All replicas were in
sync before.

A promise is given only where the mode gives it without luck. Where a line is half cut, so that a broker is
alive for some and dead for others, several outcomes are possible, and none is promised.
"""

from collections.abc import Iterable, Sequence, Set
from typing import NamedTuple

from tidelog.planner.promises import LEADER, RULES, Terms, may_lose, writes_continue
from tidelog.types import majority

CLIENTS = -1
"""Everything outside of the cluster, as a party of a cut."""

CONTROLLERS = -2
"""The controllers as a party of a cut, where they are elsewhere."""

Line = frozenset[int]
"""Two parties: brokers, or a broker and :data:`CLIENTS` or :data:`CONTROLLERS`."""


class Outage(NamedTuple):
    """One moment, of one topic. Brokers have their numbers."""

    replicas: tuple[int, ...]
    leader: int  # when it began
    voters: tuple[int, ...]  # of the controllers' quorum; none: they are elsewhere, and alive
    dead: Set[int] = frozenset()  # down, frozen or without power
    unwritable: Set[int] = frozenset()  # up, but their disks refuse writes
    slow: Set[int] = frozenset()  # do not keep up; as followers they are left out
    controllers_lost: bool = False  # The majority of the controllers is gone for another reason.
    cut: Set[Line] = frozenset()  # lines that do not work
    controllers_silent: bool = False  # If so: without power or cut off, which tells others nothing.
    ended: Set[int] = frozenset()  # the dead whose machines are up: connections to them are refused

    def works(self, one: int, other: int) -> bool:
        return one == other or frozenset((one, other)) not in self.cut

    def can_write(self, broker: int) -> bool:
        return broker not in self.dead and broker not in self.unwritable


def line(one: int, other: int) -> Line:
    return frozenset((one, other))


def writes_go_on(terms: Terms, now: Outage) -> bool:
    """Whether acks=all writes of clients are acknowledged, after a failover at most."""
    rule = RULES[terms.mode]
    if terms.kafka and terms.min_in_sync > terms.replicas:
        return False  # Tidelog waits for all replicas then.
    if _leads(terms, now, now.leader):
        return True
    if not rule.leader_can_be_replaced or not _is_given_up(terms, now):
        return False
    return any(_leads(terms, now, other) for other in now.replicas if other != now.leader)


def leader_stays(terms: Terms, now: Outage) -> bool:
    """Whether the leader that there was goes on acknowledging writes."""
    return _leads(terms, now, now.leader)


def reads_go_on(terms: Terms, now: Outage) -> bool:
    """Whether clients can read committed records: a replica serves them that they reach.

    Where there is no leader, the controllers say who serves instead: a stand-in, or a new leader. Where
    there are no controllers either, a replica serves on its own that knows of both that they have ended.
    """
    rule = RULES[terms.mode]
    there = [each for each in now.replicas if each not in now.dead and now.works(each, CLIENTS)]
    if terms.kafka and now.leader in there:
        return True  # It does not ask whether it was replaced.
    if rule.elects_itself and writes_go_on(terms, now):
        return True
    if now.leader in there and (rule.elects_itself or _is_confirmed(terms, now)):
        return True
    members = [each for each in there if each == now.leader or each not in now.slow]
    if not terms.kafka and any(
        _knows_of_the_end(now, each) and _is_named(now, each, there) for each in members
    ):
        return True
    if rule.serves_without_leader:
        return any(controllers_decide(now, each) for each in there)
    # Below the minimum, the last ones that fell behind hold all that was committed, and may lead.
    late = now.slow if terms.replicas - len(now.slow & {*now.replicas}) >= terms.copies else frozenset()
    return _is_given_up(terms, now) and any(
        controllers_decide(now, each) for each in there if each != now.leader and each not in late
    )


def _knows_of_the_end(now: Outage, replica: int) -> bool:
    """Whether it is known there that a majority of the controllers has ended, and the leader, if it is
    another one. Machines without power and lines that are cut tell nothing.
    """
    if replica != now.leader and not (now.leader in now.ended and now.works(replica, now.leader)):
        return False
    if now.controllers_silent:
        return False
    if now.controllers_lost:
        return all(now.works(replica, voter) for voter in now.voters)
    known = [voter for voter in now.voters if voter in now.ended and now.works(replica, voter)]
    return bool(now.voters) and len(now.voters) - len(known) < majority(len(now.voters))


def _is_named(now: Outage, replica: int, there: Sequence[int]) -> bool:
    """Whether readers are sent to a replica that serves them, by one that knows of the end. Without the
    controllers, the first replica is named that is not known to have ended: the leader itself, or else the
    first of the others. It may be one without power, or one that is cut off. A slow one may be passed over.
    """
    if replica == now.leader:
        return True
    known = [each for each in now.replicas if each in now.ended and now.works(replica, each)]
    others = [each for each in now.replicas if each != now.leader and each not in known]
    in_time = [each for each in others if each not in now.slow]
    return all(each in there and now.works(replica, each) for each in (*others[:1], *in_time[:1]))


def _is_confirmed(terms: Terms, now: Outage) -> bool:
    """Whether the leader knows that there is no other one: the controllers say so, or every replica that
    could have been appointed still follows it. A primary needs no confirmation: no other one is appointed.
    """
    if controllers_decide(now, now.leader) or not RULES[terms.mode].leader_can_be_replaced:
        return True
    others = [each for each in now.replicas if each != now.leader]
    return all(
        now.can_write(each) and now.works(each, now.leader) and each not in now.slow for each in others
    )


def records_may_be_lost(
    terms: Terms,
    replicas: tuple[int, ...],
    leader: int,
    *,
    destroyed: Set[int] = frozenset(),
    without_power: Set[int] = frozenset(),
) -> bool:
    """:func:`tidelog.planner.promises.may_lose` for brokers."""
    return may_lose(
        terms,
        destroyed=positions(destroyed, leader, replicas),
        without_power=positions(without_power, leader, replicas),
    )


def positions(brokers: Iterable[int], leader: int, replicas: tuple[int, ...]) -> frozenset[int]:
    """Their places among the replicas, the leader's first; brokers without a replica have none."""
    order = [leader, *(each for each in replicas if each != leader)] if leader in replicas else [*replicas]
    return frozenset(order.index(each) for each in brokers if each in order)


def controllers_decide(now: Outage, broker: int) -> bool:
    """Whether this broker reaches a controller that a majority of the controllers follows."""
    if now.controllers_lost:
        return False
    if not now.voters:
        return now.works(broker, CONTROLLERS)
    alive = [voter for voter in now.voters if now.can_write(voter)]
    needed = majority(len(now.voters))
    return any(
        now.works(broker, active) and sum(now.works(active, each) for each in alive) >= needed
        for active in alive
    )


def _leads(terms: Terms, now: Outage, leader: int) -> bool:
    """Whether writes are acknowledged while this replica leads."""
    rule = RULES[terms.mode]
    if leader not in now.replicas or not now.can_write(leader) or not now.works(leader, CLIENTS):
        return False
    if leader != now.leader and leader in now.slow:
        return False
    useless = {each for each in now.replicas if not (now.can_write(each) and now.works(leader, each))}
    useless |= now.slow & {*now.replicas} - {leader}
    if not writes_continue(terms, positions(useless, leader, now.replicas)):
        return False
    asks_controllers = rule.leader_can_be_replaced and not rule.elects_itself
    # Without the controllers no replica leaves the in-sync set, and none is appointed.
    needs_them = asks_controllers and (bool(useless) or leader != now.leader)
    return not needs_them or controllers_decide(now, leader)


def _is_given_up(terms: Terms, now: Outage) -> bool:
    """Whether another replica may take over from the leader that there was."""
    if not now.can_write(now.leader):
        return True
    if RULES[terms.mode].elects_itself:
        reached = [each for each in now.replicas if now.can_write(each) and now.works(now.leader, each)]
        return not writes_continue(terms, frozenset(range(LEADER, terms.replicas - len(reached))))
    return not controllers_decide(now, now.leader)
