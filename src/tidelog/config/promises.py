"""What each replication mode promises, as data and as arithmetic over a topic's settings.

``tidelog modes`` prints it, the documentation shows it, and whoever has to choose settings can ask the same
functions. Nothing here looks at a cluster: replicas are numbered by their place, 0 is the leader or
primary, and all of them live when the faults come.
"""

from collections.abc import Callable, Set
from typing import NamedTuple

from tidelog.config.modes import COPIES, ISR, LEAST_REPLICAS, PRIMARY_BACKUP, QUORUM, majority

SYNC_EVERY_MESSAGE = 1
LEADER = 0  # its place among the replicas


class Terms(NamedTuple):
    """What a promise depends on: a topic's settings and the number of its replicas."""

    mode: str
    replicas: int
    min_in_sync: int = 2
    synced: bool = False  # flush.messages=1
    unclean: bool = False  # unclean.leader.election.enable
    degrades: bool = False  # a late backup may be left out of the count

    @property
    def copies(self) -> int:
        """How many replicas hold a record for which a producer with acks=all was told ok."""
        return COPIES[self.mode](self.min_in_sync, self.replicas)


class Rule(NamedTuple):
    """The part of a promise that differs from mode to mode."""

    writes_go_on: Callable[[Terms, Set[int]], bool]
    leader_can_be_replaced: bool  # when it is down
    who_leads: str
    without_leader: str
    acks_1: str  # what acks=1 means
    order: str
    needs_controllers: str
    nodes_for: Callable[[int], int]  # how many replicas let writes go on with so many of them dead


def _enough_left(terms: Terms, dead: Set[int]) -> bool:
    return terms.replicas - len(dead) >= terms.copies


def _primary_and_enough_left(terms: Terms, dead: Set[int]) -> bool:
    return LEADER not in dead and _enough_left(terms, dead)


_STRICT = "strict within a partition"

RULES: dict[str, Rule] = {
    ISR: Rule(
        writes_go_on=_enough_left,
        leader_can_be_replaced=True,
        who_leads="the controllers name a member of the in-sync set",
        without_leader="a new leader at once",
        acks_1="the leader alone: lost if it dies before a follower has the record",
        order=_STRICT,
        needs_controllers="for every change of leader or in-sync set",
        # Down to a set of one, with min.insync.replicas=1.
        nodes_for=lambda failures: failures + 1,
    ),
    PRIMARY_BACKUP: Rule(
        writes_go_on=_primary_and_enough_left,
        leader_can_be_replaced=False,
        who_leads="the first replica, always; an operator can promote another",
        without_leader="no writes until it is back; backups serve readers",
        acks_1="as acks=all",
        order=f"{_STRICT}; who needs it waits for the primary, others write elsewhere",
        needs_controllers="to send readers to a backup",
        nodes_for=lambda failures: failures + 1,  # As long as it is not the primary that fails.
    ),
    QUORUM: Rule(
        writes_go_on=_enough_left,
        leader_can_be_replaced=True,
        who_leads="the replicas vote, the most complete log wins",
        without_leader="an election, and no writes while it lasts",
        acks_1="as acks=all",
        order=_STRICT,
        needs_controllers="for none of this",
        nodes_for=lambda failures: 2 * failures + 1,
    ),
}


# --- questions ----------------------------------------------------------------------------------------------


def writes_go_on(terms: Terms, dead: Set[int]) -> bool:
    """Whether acks=all is still answered ok with these replicas dead, after a change of leader at most."""
    return RULES[terms.mode].writes_go_on(terms, dead)


def reads_go_on(terms: Terms, dead: Set[int]) -> bool:
    """What is committed can be read as long as any replica lives."""
    return len(dead) < terms.replicas


def may_lose(
    terms: Terms, *, destroyed: Set[int] = frozenset(), without_power: Set[int] = frozenset()
) -> bool:
    """Whether an acknowledged record can be gone for good when these disks are destroyed and those machines
    lose power, all at once. The worst case: no more replicas hold it than had to, and they are among these.
    """
    gone = destroyed | (frozenset() if terms.synced else without_power)
    held_by_leader = terms.mode != QUORUM
    return len(gone) >= terms.copies and (LEADER in gone or not held_by_leader)


def survives_writing(terms: Terms) -> int:
    """So many dead replicas, whichever they are, do not stop writes."""
    return _most(terms, lambda dead: writes_go_on(terms, dead))


def survives_reading(terms: Terms) -> int:
    return terms.replicas - 1


def survives_destruction(terms: Terms) -> int:
    """So many destroyed disks, whichever they are, lose no acknowledged record."""
    return terms.copies - 1


def _most(terms: Terms, holds: Callable[[Set[int]], bool]) -> int:
    """The leader is in every fault set: no other is worse."""
    count = 0
    while count < terms.replicas and holds(frozenset(range(count + 1))):
        count += 1
    return count


# --- in words -----------------------------------------------------------------------------------------------


def losses(terms: Terms) -> list[str]:
    """When acknowledged records can be lost, in sentences without their stop."""
    found = []
    if terms.copies == 1:
        found.append("the leader lost for good, with records that nobody else had yet")
        power = "the leader without power"
    else:
        found.append(f"{_holders(terms)} lost for good")
        power = f"{_holders(terms)} without power at once"
    if not terms.synced:
        found.append(f"{power}, and what was not synced to disk gone")
    if terms.unclean:
        found.append("all in-sync replicas down, and another one made leader")
    if terms.degrades:
        found.append("a backup too slow, the topic gone on without it, and then the primary lost for good")
    return found


def _holders(terms: Terms) -> str:
    """Those who hold an acknowledged record, when there are as few as allowed."""
    if terms.copies == terms.replicas:
        return "both replicas" if terms.replicas == 2 else f"all {terms.replicas} replicas"
    return f"all replicas that hold a record (at least {terms.copies} of {terms.replicas})"


def describe(terms: Terms) -> dict[str, str | int | list[str]]:
    """One row of the table of promises."""
    rule = RULES[terms.mode]
    backups = terms.replicas - 1
    return {
        "mode": terms.mode,
        "replicas": terms.replicas,
        "copies": terms.copies,
        "survives_writing": survives_writing(terms),
        "survives_reading": survives_reading(terms),
        "survives_destruction": survives_destruction(terms),
        "writes_stop_when": _stop(terms, backups),
        "can_lose_when": losses(terms),
        "order": rule.order,
        "who_leads": rule.who_leads,
        "leader_dead": rule.without_leader,
        "needs_controllers": rule.needs_controllers,
        "acks_1": rule.acks_1,
        "least_replicas": LEAST_REPLICAS[terms.mode],
    }


def _stop(terms: Terms, backups: int) -> str:
    if RULES[terms.mode].leader_can_be_replaced:
        return f"{survives_writing(terms) + 1} of {terms.replicas} replicas are down"
    spare = terms.replicas - terms.copies
    if backups == 0 or spare >= backups:
        return "the primary is down"
    if backups == 1:
        return "the primary or its backup is down"
    return f"the primary is down, or {spare + 1} of its {backups} backups"


EXAMPLES: dict[str, Terms] = {
    "isr": Terms(ISR, 3, min_in_sync=2),
    "async": Terms(PRIMARY_BACKUP, 2, min_in_sync=1),
    "double": Terms(PRIMARY_BACKUP, 2, min_in_sync=2),
    "quorum": Terms(QUORUM, 3, synced=True),
}
"""The modes as most people will use them."""

DLEDGER_OF_FIVE = (Terms(QUORUM, 5, synced=True), Terms(ISR, 5, min_in_sync=majority(5)))
"""The classic exercise: five nodes with five replicas, and the isr settings that give the same."""
