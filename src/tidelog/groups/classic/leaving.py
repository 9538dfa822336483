"""LeaveGroup: members leave, or an administrator removes them."""

from collections.abc import Sequence

from tidelog.errors import ErrorCode, TidelogError
from tidelog.groups.classic import messages
from tidelog.groups.classic.membership import Member
from tidelog.groups.classic.messages import NO_MEMBER
from tidelog.groups.classic.rebalancing import Rebalancing
from tidelog.groups.effects import Effects, Now


class Leaving(Rebalancing):
    def leave(self, members: Sequence[messages.LeavingMember], now: Now) -> tuple[list[ErrorCode], Effects]:
        """The result for each leaving member, in order, and the effects for the others."""
        return [self._leave(leaving, now) for leaving in members], self._drain()

    def _leave(self, leaving: messages.LeavingMember, now: Now) -> ErrorCode:
        if leaving.member_id in self.pending and leaving.instance_id is None:
            self._forget_pending(leaving.member_id)
            self._try_to_complete_join(now)
            return ErrorCode.NONE
        try:
            member = self._leaving_member(leaving)
        except TidelogError as refusal:
            return refusal.code
        self._remove(member, now, "a member left")
        return ErrorCode.NONE

    def _leaving_member(self, leaving: messages.LeavingMember) -> Member:
        if leaving.member_id == NO_MEMBER and leaving.instance_id is not None:
            # An administrator identifies a static member by its instance id only.
            return self.check_member(self.static_ids.get(leaving.instance_id, NO_MEMBER), leaving.instance_id)
        return self.check_member(leaving.member_id, leaving.instance_id)
