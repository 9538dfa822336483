"""What the two kinds of groups have in common: what offsets and administration need of a group."""

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
        """As Kafka's tools print it: Empty, Stable, …"""

    @property
    def protocol_type(self) -> str:
        """``consumer``, ``connect``, …; empty if there never were members."""

    def check_commit(
        self, member_id: str, instance_id: str | None, generation: int, *, transactional: bool, version: int
    ) -> None:
        """Refuse an unauthorised offset commit. ``generation`` is a consumer group's member epoch; -1 without
        a member id comes from outside the group. ``version`` is that of OffsetCommit.
        """

    def committed_by(self, member_id: str, now: Now) -> None:
        """A commit shows that a member is alive."""

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Refuse to return offsets to a former member."""

    def check_offset_delete(self) -> None:
        """Refuse to delete offsets of any topic (those of a subscribed one are refused anyway)."""

    def check_delete(self) -> None:
        """Refuse to delete a group that has members."""

    def is_subscribed(self, topic: str) -> bool:
        """Whether members may be reading the topic: its offsets are in use."""

    def expires_from_ms(self, committed: Committed) -> int | None:
        """From when on (wall clock) the retention of an offset of an unsubscribed topic counts; None: it is
        kept.
        """

    @property
    def is_vacant(self) -> bool:
        """Whether the group may be removed with its last offset: it has no members, nor pending ones."""

    def tombstones(self) -> list[KeyValue]:
        """Records that remove the group from the log, without its offsets."""

    def removed(self, now: Now) -> None:
        """The group is removed from the log and the shard: its timers and effects end."""

    def abandon(self) -> Effects:
        """This broker does not coordinate the group any more: redirect all pending requests."""
