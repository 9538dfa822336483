"""The replicas that could be appointed leader while this one is partitioned and does not know."""

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, ClassVar

from tidelog.replication.attachments.attachment import Attachment
from tidelog.replication.election import FOREVER_MS
from tidelog.replication.replica import NO_LIMIT

if TYPE_CHECKING:
    from tidelog.replication.driver import ReplicaDriver

HEARD_WITHIN_MS = 1000  # a follower fetches several times in this time, even if its partitions are idle


class NoSuccessors(Attachment):
    """There are none: only this replica can lead, or it steps down by itself when it hears no majority."""

    slot: ClassVar[str] = "successors"
    # Whether the controllers appoint one by themselves; otherwise only an operator does.
    are_appointed: ClassVar[bool] = False

    def __init__(self, driver: "ReplicaDriver") -> None:
        self._driver = driver
        self.candidates: frozenset[int] = frozenset()  # from the metadata
        # Replicas that hold everything, according to the metadata. An unclean election may name others.
        self.complete: frozenset[int] = frozenset()

    @property
    def may_be(self) -> bool:
        """Whether there can be successors."""
        return False

    def update(self, candidates: frozenset[int], complete: frozenset[int]) -> None:
        """The metadata or the settings of the topic have changed."""
        self.candidates, self.complete = candidates, complete

    def all_follow(self, *, by_hand: bool = False) -> bool:
        """Whether all replicas that could lead instead are known to follow this replica."""
        return True

    def held_by_all(self, *, by_hand: bool = False) -> int:
        """Exclusive: all replicas that could lead instead are known to hold everything before it."""
        return NO_LIMIT

    def when_all_follow(self, then: Callable[[bool], None], *, by_hand: bool = False) -> None:
        """Call ``then`` with whether all replicas that could lead instead still follow this replica in its
        epoch. The call may come later.
        """
        then(True)

    @property
    def are_members(self) -> bool:
        """Whether members of the in-sync set could lead instead, or know who does."""
        return False

    def when_members_follow(self, then: Callable[[bool], None]) -> None:
        """The same for them only: with this leader alive, the controllers appoint no other replica."""
        then(True)

    def steps_aside(self, able: AbstractSet[int]) -> bool:
        """This replica leads, and has damaged records to drop; the replicas in ``able`` can lead. Returns
        whether the partition can do without this replica now.

        No other replica is appointed, so a backup must have all records and writes must stop: dropped records
        are copied back from it.
        """
        return self._driver.damage.resign_if_copied()


COPIES_WITHOUT_LEADER = 3  # from so many copies on, a promoted backup need not hear the last leader


class NamedByOperator(NoSuccessors):
    """Only an operator names another leader: a backup is promoted. It must hear so many replicas before it
    leads that a member is among them, and that one does not follow this replica any more.
    """

    @property
    def may_be(self) -> bool:
        """Unless this replica itself must be heard first. Forced promotions do not count."""
        replica = self._driver.replica
        return replica.policy.fewest_copies(replica.limits) >= COPIES_WITHOUT_LEADER

    def when_all_follow(self, then: Callable[[bool], None], *, by_hand: bool = False) -> None:
        self.when_members_follow(then)

    @property
    def are_members(self) -> bool:
        return bool(self._members)

    def when_members_follow(self, then: Callable[[bool], None]) -> None:
        self._driver.listener.when_followed(self._driver, self._members, then)

    @property
    def _members(self) -> frozenset[int]:
        replica = self._driver.replica
        return replica.maximal_in_sync - {replica.me}


class Successors(NamedByOperator):
    """The controllers may appoint one of them."""

    are_appointed = True

    @property
    def may_be(self) -> bool:
        return True

    def all_follow(self, *, by_hand: bool = False) -> bool:
        """Whether they followed a moment ago, in our epoch. A fetch that has just arrived is no proof: it may
        have waited while this process was frozen. ``by_hand``: whether an operator may have appointed one.
        """
        oldest_ms = self._driver.services.uptime_ms() - HEARD_WITHIN_MS
        return self.followed_until_ms(by_hand=by_hand) >= oldest_ms

    def steps_aside(self, able: AbstractSet[int]) -> bool:
        """One of them leads next. A replica that has resigned for this does not lead again, whichever others
        are available.
        """
        return self._driver.stand_in.gathers_when_it_leads or bool(able)

    def followed_until_ms(self, *, by_hand: bool = False) -> int:
        """Until when all replicas that could lead instead are known to have followed this replica in its
        epoch.
        """
        driver = self._driver
        able = self._able(by_hand)
        return min((driver.listener.followed_until_ms(driver, each) for each in able), default=FOREVER_MS)

    def held_by_all(self, *, by_hand: bool = False) -> int:
        progress = self._driver.replica.progress
        ends = [
            progress[each].end_offset if each in progress and progress[each].seen else 0
            for each in self._able(by_hand)
        ]
        return min(ends, default=NO_LIMIT)

    def when_all_follow(self, then: Callable[[bool], None], *, by_hand: bool = False) -> None:
        self._driver.listener.when_followed(self._driver, self._able(by_hand), then)

    def _able(self, by_hand: bool) -> frozenset[int]:
        """The replicas that could lead instead. A proposed member may be a member by now without our
        knowledge. ``by_hand``: an operator may have appointed any replica. That all members follow us is no
        proof then, because they may have been given up together with us.
        """
        replica = self._driver.replica
        able = self.candidates | replica.maximal_in_sync
        if by_hand:
            able |= frozenset(replica.replicas)
        return able - {replica.me}
