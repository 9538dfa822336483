"""What each replication mode promises, as data and as arithmetic over a topic's settings.

``tidelog modes`` prints it, the documentation shows it, and the rest of the planner asks the same functions.
Nothing here looks at a cluster: replicas are numbered by their position, 0 is the leader or primary, and all
of them are alive before the faults.
"""

from collections.abc import Callable, Iterator, Sequence, Set
from itertools import combinations
from typing import NamedTuple

from tidelog.config.modes import COPIES, ISR, LEAST_REPLICAS, PRIMARY_BACKUP, QUORUM
from tidelog.types import majority

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
    acks: str = "all"  # of producers: all, 1 or 0
    kafka: bool = False  # Apache Kafka's own brokers, whose replicas serve no client without the controllers

    @property
    def copies(self) -> int:
        """How many replicas hold a record that was acknowledged with acks=all."""
        return COPIES[self.mode](self.min_in_sync, self.replicas)

    @property
    def may_degrade(self) -> bool:
        """Whether an acknowledgement may mean fewer copies, because backups were slow or down."""
        return self.degrades and self.copies > 1


class Rule(NamedTuple):
    """The part of a promise that differs from mode to mode."""

    writes_continue: Callable[[Terms, Set[int]], bool]
    # Whether these replicas may be the only ones with an acknowledged record, if those had faults.
    may_hold_alone: Callable[[Terms, Set[int], Set[int]], bool]
    decides: Callable[[Terms, Set[int]], bool]  # without an operator, when these replicas have lost data
    least_replicas: Callable[[Terms], int]  # with which these settings are accepted
    leader: str  # what users call it
    leader_can_be_replaced: bool  # when it is down
    by_hand: str  # the command of ``tidelog topic`` that makes a replica lead that may lack records
    serves_without_leader: bool  # Readers are served while there is no leader.
    who_leads: str
    without_leader: str
    acks_1: str  # what acks=1 means
    order: str
    needs_controllers: str
    nodes_for: Callable[[int], int]  # failures to tolerate → replicas needed, for writes
    elects_itself: bool = False  # Replicas elect their leader and count copies without the controllers.
    acks_1_is_all: bool = True  # An acks=1 write is acknowledged as late as an acks=all one.
    waits_for: str = "{0.copies} of {0.replicas} replicas"  # acks=all, with several replicas


def _enough_left(terms: Terms, dead: Set[int]) -> bool:
    return terms.replicas - len(dead) >= terms.copies


def _primary_and_enough_left(terms: Terms, dead: Set[int]) -> bool:
    return LEADER not in dead and (terms.may_degrade or _enough_left(terms, dead))


def _in_sync_set(terms: Terms, holders: Set[int], affected: Set[int]) -> bool:
    """An acknowledged record is on all members, and a replica without a fault is a member."""
    return len(holders) >= terms.copies and frozenset(range(terms.replicas)) - affected <= holders


def _primary_and_copies(terms: Terms, holders: Set[int], affected: Set[int]) -> bool:
    """Any backups complete the copies. Late ones are left out where the topic allows it."""
    needed = terms.copies
    if terms.may_degrade:
        in_time = sum(place not in affected for place in range(LEADER + 1, terms.replicas))
        needed = min(needed, 1 + in_time)
    return LEADER in holders and len(holders) >= needed


def _any_majority(terms: Terms, holders: Set[int], affected: Set[int]) -> bool:
    return len(holders) >= terms.copies


def _always(terms: Terms, lost: Set[int]) -> bool:
    return True


def _majority_remembers(terms: Terms, lost: Set[int]) -> bool:
    """A replica that lost its data does not vote. If the others are no majority, there is no leader until an
    operator chooses a log, which may lack records. With an even number of replicas that is one loss before
    all copies are gone.
    """
    return terms.replicas - len(lost) >= terms.copies


def _as_many_as_copies(terms: Terms) -> int:
    return max(LEAST_REPLICAS[terms.mode], terms.copies)


_STRICT = "strict within a partition"

RULES: dict[str, Rule] = {
    ISR: Rule(
        writes_continue=_enough_left,
        may_hold_alone=_in_sync_set,
        decides=_always,
        least_replicas=_as_many_as_copies,
        leader="leader",
        leader_can_be_replaced=True,
        by_hand="elect --unclean",
        serves_without_leader=False,
        who_leads="a member of the in-sync set, appointed by the controllers",
        without_leader="a new leader at once",
        acks_1="only the leader has the record; it is lost if the leader fails before a follower has it",
        order=_STRICT,
        needs_controllers="for every change of leader or in-sync set",
        # Down to a set of one, with min.insync.replicas=1.
        nodes_for=lambda failures: failures + 1,
        waits_for="every replica of the in-sync set, at least {0.copies} of {0.replicas}",
        acks_1_is_all=False,
    ),
    PRIMARY_BACKUP: Rule(
        writes_continue=_primary_and_enough_left,
        may_hold_alone=_primary_and_copies,
        decides=_always,
        least_replicas=_as_many_as_copies,
        leader="primary",
        leader_can_be_replaced=False,
        by_hand="promote",
        serves_without_leader=True,
        who_leads="always the first replica; an operator can promote another",
        without_leader="no writes until it is back; backups serve readers",
        acks_1="same as acks=all",
        order=f"{_STRICT}; producers that need it wait for the primary, others use other partitions",
        needs_controllers="to send readers to a backup and to readmit replicas",
        nodes_for=lambda failures: failures + 1,  # provided that the primary does not fail
    ),
    QUORUM: Rule(
        writes_continue=_enough_left,
        may_hold_alone=_any_majority,
        decides=_majority_remembers,
        least_replicas=lambda terms: LEAST_REPLICAS[QUORUM],
        leader="leader",
        leader_can_be_replaced=True,
        by_hand="recover",
        serves_without_leader=True,
        who_leads="elected by the replicas; the most complete log wins",
        without_leader="a leader election, without writes until it ends",
        acks_1="same as acks=all",
        order=_STRICT,
        needs_controllers="not for writes, reads or elections",
        nodes_for=lambda failures: 2 * failures + 1,
        elects_itself=True,
    ),
}


# --- questions ----------------------------------------------------------------------------------------------


def waits_for(terms: Terms) -> str:
    """Where a record is when it is acknowledged with acks=all, with several replicas."""
    return RULES[terms.mode].waits_for.format(terms)


def writes_continue(terms: Terms, dead: Set[int]) -> bool:
    """Whether acks=all writes are still acknowledged with these replicas dead, after a failover at most,
    while the controllers decide.
    """
    return RULES[terms.mode].writes_continue(terms, dead)


def may_lose(
    terms: Terms, *, destroyed: Set[int] = frozenset(), without_power: Set[int] = frozenset()
) -> bool:
    """Whether an acknowledged record can be lost when these disks are destroyed and those machines lose
    power, all at once. The worst case: all but the leader were late, so that only as many replicas hold the
    record as required, and all of them are hit.
    """
    gone = destroyed | (frozenset() if terms.synced else without_power)
    return holders_may_be_gone(terms, gone, frozenset(range(LEADER + 1, terms.replicas)) | gone)


def holders_may_be_gone(terms: Terms, gone: Set[int], affected: Set[int]) -> bool:
    """Whether all replicas with an acknowledged record may be among those whose data is gone."""
    rule = RULES[terms.mode]
    return not rule.decides(terms, gone) or any(
        rule.may_hold_alone(terms, holders, affected) for holders in subsets(gone)
    )


def subsets(places: Set[int]) -> Iterator[frozenset[int]]:
    """All but the empty one."""
    for size in range(1, len(places) + 1):
        yield from map(frozenset, combinations(sorted(places), size))


def survives_destruction(terms: Terms) -> int:
    """How many destroyed disks lose no acknowledged record, whichever disks they are and however late the
    others were.
    """
    return _most(terms, lambda gone: not may_lose(terms, destroyed=gone))


def by_hand(mode: str | None) -> str:
    """The command of ``tidelog topic`` that makes a replica lead that may lack records. Of a mode that this
    version does not know, and of a broker that has no modes: Kafka's.
    """
    return RULES[mode if mode in RULES else ISR].by_hand


def _most(terms: Terms, holds: Callable[[Set[int]], bool]) -> int:
    """The leader is in every fault set, because no other set is worse."""
    count = 0
    while count < terms.replicas and holds(frozenset(range(count + 1))):
        count += 1
    return count


# --- in words -----------------------------------------------------------------------------------------------


def losses(terms: Terms) -> list[str]:
    """When acknowledged records can be lost: clauses that follow "lost only if"."""
    leader = f"the {RULES[terms.mode].leader}"
    if terms.copies == 1:
        found = [f"{leader} is lost for good with records that were not yet copied"]
        power = f"{leader} loses power with records that were neither synced to disk nor copied"
    else:
        found = [f"{_holders(terms)} are lost for good"]
        power = f"{_holders(terms)} lose power at once, before records were synced to disk"
    if not terms.synced:
        found.append(power)
    if terms.unclean and terms.replicas > 1:
        found.append("all in-sync replicas are down and another replica becomes leader (unclean election)")
    if terms.may_degrade:
        ends = "is lost for good" if terms.synced else "is lost for good or loses power"
        found.append(f"backups are slow or down, writes continue without them, and then {leader} {ends}")
    return found


def _holders(terms: Terms) -> str:
    """The replicas that hold an acknowledged record, if they are as few as allowed."""
    if RULES[terms.mode].elects_itself:
        return f"{survives_destruction(terms) + 1} of {terms.replicas} replicas"
    if terms.copies == terms.replicas:
        return "both replicas" if terms.replicas == 2 else f"all {terms.replicas} replicas"
    return f"all replicas that hold a record (at least {terms.copies} of {terms.replicas})"


EXAMPLES: dict[str, Terms] = {
    "isr": Terms(ISR, 3, min_in_sync=2),
    "async": Terms(PRIMARY_BACKUP, 2, min_in_sync=1),
    "double": Terms(PRIMARY_BACKUP, 2, min_in_sync=2),
    "quorum": Terms(QUORUM, 3, synced=True),
}
"""The modes with their usual settings."""


def examples() -> dict[str, Terms]:
    """Heading → a mode with usual settings. Every mode is among them, also one without a row in EXAMPLES."""
    shown = [*EXAMPLES.values()]
    shown += [Terms(mode, 3) for mode in RULES if all(terms.mode != mode for terms in shown)]
    return {_heading(terms, shown): terms for terms in shown}


def heading_of(terms: Terms) -> str:
    """As in the table of the usual settings: ``primary-backup, 2 copies``."""
    return _heading(terms, [*EXAMPLES.values()])


def _heading(terms: Terms, shown: Sequence[Terms]) -> str:
    if sum(each.mode == terms.mode for each in shown) == 1:
        return terms.mode
    return f"{terms.mode}, {terms.copies} {'copy' if terms.copies == 1 else 'copies'}"


DLEDGER_OF_FIVE = (Terms(QUORUM, 5, synced=True), Terms(ISR, 5, min_in_sync=majority(5)))
"""Five nodes with five replicas, and the isr settings with the same promises."""
