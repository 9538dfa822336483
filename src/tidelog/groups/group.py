"""What the two kinds of groups have in common: all that offsets and administration ask of a group."""

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
        """``consumer``, ``connect``, …; empty where there never were members."""

    def check_commit(
        self, member_id: str, instance_id: str | None, generation: int, *, transactional: bool, version: int
    ) -> None:
        """Refuse a commit of offsets by somebody who may not. ``generation`` is a consumer group's member
        epoch; -1 without a member id comes from outside of the group. ``version`` is that of OffsetCommit.
        """

    def committed_by(self, member_id: str, now: Now) -> None:
        """A member showed by a commit that it is alive."""

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Refuse to tell offsets to a member that is not one any more."""

    def check_offset_delete(self) -> None:
        """Refuse to delete offsets of any topic (of a subscribed one they are refused anyway)."""

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
        """Whether the group may go when its last offset has gone: nobody is in it or on the way in."""

    def tombstones(self) -> list[KeyValue]:
        """Records that take the group out of the log; its offsets are not its business."""

    def removed(self, now: Now) -> None:
        """The group is out of the log and the shard: nothing of it may happen any more."""

    def abandon(self) -> Effects:
        """This broker does not coordinate the group any more: send everyone who waits elsewhere."""
