"""Members' deadlines. They are not in the log: a new coordinator gives every member a new deadline."""

from enum import Enum


class WaitReason(Enum):
    """What a member must do before the deadline. The text is the reason for its removal."""

    HEARTBEAT = "it sent no heartbeat within its session timeout"
    REVOCATION = "it did not revoke partitions within its rebalance timeout"
    JOIN = "it did not rejoin within its rebalance timeout"
    SYNC = "it joined and did not ask for its assignment within its rebalance timeout"


class Waits:
    """The deadlines of one group's members, on the monotonic clock. Those that expire together are handled
    together, so that they cost one rebalance.
    """

    __slots__ = ("_at_ms", "next_check_ms")

    def __init__(self) -> None:
        self._at_ms: dict[tuple[str, WaitReason], int] = {}
        # No deadline expires before this; None if there are none. Not updated when a deadline is postponed:
        # an occasional unnecessary check is cheaper than finding the earliest deadline with every heartbeat.
        self.next_check_ms: int | None = None

    def set(self, member_id: str, wait: WaitReason, at_ms: int) -> None:
        self._at_ms[member_id, wait] = at_ms
        if self.next_check_ms is None or at_ms < self.next_check_ms:
            self.next_check_ms = at_ms

    def set_if_absent(self, member_id: str, wait: WaitReason, at_ms: int) -> None:
        if (member_id, wait) not in self._at_ms:
            self.set(member_id, wait, at_ms)

    def cancel(self, member_id: str, wait: WaitReason) -> None:
        self._at_ms.pop((member_id, wait), None)

    def forget(self, member_id: str) -> None:
        for wait in WaitReason:
            self.cancel(member_id, wait)

    def missed(self, uptime_ms: int) -> dict[str, WaitReason]:
        """Members that missed a deadline; their deadlines are removed."""
        missed = {member_id: wait for (member_id, wait), at_ms in self._at_ms.items() if at_ms <= uptime_ms}
        for member_id in missed:
            self.forget(member_id)
        self.next_check_ms = min(self._at_ms.values(), default=None)
        return missed
