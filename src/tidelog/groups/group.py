"""The common interface of the two kinds of groups, for offsets and administration."""

from typing import Protocol

from tidelog.groups.effects import Effects, KeyValue, Now
from tidelog.groups.offsets import Committed

CLASSIC = "classic"
CONSUMER = "consumer"


class Group(Protocol):
    group_id: str

    @property
    def kind(self) -> str:
        """``classic`` or ``consumer``."""

    @property
    def state_name(self) -> str:
        """The name in Kafka's tools: Empty, Stable, …"""

    @property
    def protocol_type(self) -> str:
        """``consumer``, ``connect``, …; empty if there never were members."""

    def check_commit(
        self, member_id: str, instance_id: str | None, generation: int, *, transactional: bool, version: int
    ) -> None:
        """Refuse an offset commit that is not allowed. ``generation`` is the member epoch in a consumer
        group;
        -1 without a member id is used by clients outside the group. ``version`` is that of OffsetCommit.
        """

    def committed_by(self, member_id: str, now: Now) -> None:
        """A member has committed offsets, which may extend its session."""

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Refuse to return offsets to a former member."""

    def check_offset_delete(self) -> None:
        """Refuse to delete offsets of the group. Those of subscribed topics are refused in any case."""

    def check_delete(self) -> None:
        """Refuse to delete a group that has members."""

    def is_subscribed(self, topic: str) -> bool:
        """Whether members may be reading the topic: its offsets are in use."""

    def expires_from_ms(self, committed: Committed) -> int | None:
        """The start (wall clock) of the retention of an offset of an unsubscribed topic; None: it is kept."""

    @property
    def is_vacant(self) -> bool:
        """Whether the group may be removed with its last offset: it has no members and no pending members."""

    def tombstones(self) -> list[KeyValue]:
        """Records that remove the group from the log, without its offsets."""

    def removed(self, now: Now) -> None:
        """The group was removed from the log and the shard: cancel its timers."""

    def abandon(self) -> Effects:
        """This broker no longer coordinates the group: redirect all pending requests."""
