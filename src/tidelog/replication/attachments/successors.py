"""Who could be made leader in a replica's place while it is cut off and does not know."""

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from tidelog.replication.attachments.attachment import Attachment
from tidelog.replication.election import FOREVER_MS

if TYPE_CHECKING:
    from tidelog.replication.driver import ReplicaDriver

HEARD_WITHIN_MS = 1000  # a follower asks several times in this time, however quiet the partitions are


class NoSuccessors(Attachment):
    """Nobody could: only this replica leads, or it steps down by itself when it hears no majority."""

    slot: ClassVar[str] = "successors"
    may_be: ClassVar[bool] = False  # Whether there can be any.

    def __init__(self, driver: "ReplicaDriver") -> None:
        self._driver = driver
        self.named: frozenset[int] = frozenset()  # by the metadata
        # Replicas that hold everything, according to the metadata. An unclean election may name others.
        self.complete: frozenset[int] = frozenset()

    def all_follow(self, *, by_hand: bool = False) -> bool:
        """Whether everybody who could lead instead is known to follow this replica."""
        return True

    def when_all_follow(self, then: Callable[[bool], None], *, by_hand: bool = False) -> None:
        """Tell whether everybody who could lead instead follows this replica in its epoch from now on. Until
        it is told, time passes.
        """
        then(True)


class Successors(NoSuccessors):
    """The controllers may name one of them."""

    may_be = True

    def all_follow(self, *, by_hand: bool = False) -> bool:
        """A moment ago, in our epoch. That an ask has just arrived says nothing: it may have waited while
        this process was frozen. ``by_hand``: whether an operator may have named one.
        """
        oldest_ms = self._driver.services.uptime_ms() - HEARD_WITHIN_MS
        return self.followed_until_ms(by_hand=by_hand) >= oldest_ms

    def followed_until_ms(self, *, by_hand: bool = False) -> int:
        """Until when everybody who could lead instead is known to have followed this replica in its epoch."""
        driver = self._driver
        able = self._able(by_hand)
        return min((driver.listener.followed_until_ms(driver, each) for each in able), default=FOREVER_MS)

    def when_all_follow(self, then: Callable[[bool], None], *, by_hand: bool = False) -> None:
        self._driver.listener.when_followed(self._driver, self._able(by_hand), then)

    def _able(self, by_hand: bool) -> frozenset[int]:
        """Who could lead instead. Who is proposed as a member may be one by now, and we have not heard of it.
        ``by_hand``: whether an operator may have named one, and then it can be any replica: that all members
        follow us is no sign, because they may have been given up together with us.
        """
        replica = self._driver.replica
        able = self.named | replica.maximal_in_sync
        if by_hand:
            able |= frozenset(replica.replicas)
        return able - {replica.me}
