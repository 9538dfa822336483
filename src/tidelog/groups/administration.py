"""ListGroups, DescribeGroups, DeleteGroups, and the expiry of offsets."""

from collections.abc import Collection, Iterator
from typing import NamedTuple

from tidelog.errors import ErrorCode, TidelogError
from tidelog.groups.classic.group import ClassicGroup
from tidelog.groups.classic.messages import ClassicGroupDescription
from tidelog.groups.effects import Effects, Now, Waiter
from tidelog.groups.group import Group
from tidelog.groups.shard_state import ShardState

GROUPS_PER_SLICE = 200  # checked for expired offsets in one step
_MINUTE_MS = 60_000


class Listed(NamedTuple):
    group_id: str
    protocol_type: str
    state: str
    kind: str


class Administration(ShardState):
    def list(self, states: Collection[str], kinds: Collection[str]) -> Iterator[Listed | None]:
        """Groups in one of these states and of one of these kinds, in lower case; empty: any. None for each
        of the others, so that the caller can pause: there may be very many.
        """
        for group in [*self.groups.values()]:
            wanted = (not states or group.state_name.lower() in states) and (not kinds or group.kind in kinds)
            yield (
                Listed(group.group_id, group.protocol_type, group.state_name, group.kind) if wanted else None
            )

    def describe(self, group_id: str) -> ClassicGroupDescription:
        group = self.group(group_id)
        if not isinstance(group, ClassicGroup):
            raise TidelogError(
                f"group {group_id[:80]!r} is not a classic group", ErrorCode.GROUP_ID_NOT_FOUND
            )
        return group.describe()

    def delete(self, group_id: str, waiter: Waiter, now: Now) -> Effects:
        """Delete a group without members, and its offsets."""
        group = self.group(group_id)
        group.check_delete()
        keys = self.offsets.keys_of(group_id)
        return [*self._delete_offsets(group_id, keys), self._remove_group(group, waiter)]

    # -- expiry ------------------------------------------------------------------------

    def begin_expiry(self, now: Now) -> None:
        self._to_check: list[str] = []
        self._expiry = self.deadlines.new(self._expire)
        self._expiry.set(now.uptime_ms + self.config().offsets_retention_check_interval_ms)

    def _expire(self, now: Now) -> Effects:
        """Check some groups and schedule the rest, because a shard may have very many."""
        if not self._to_check:
            self._to_check = list(self.groups)
        slice_, self._to_check = self._to_check[:GROUPS_PER_SLICE], self._to_check[GROUPS_PER_SLICE:]
        effects: Effects = []
        for group_id in slice_:
            # An offset commit that is being written must not be deleted by a decision that ignores it.
            if group_id in self.groups and group_id not in self._committing:
                effects += self._expire_group(self.groups[group_id], now)
        rest_ms = 0 if self._to_check else self.config().offsets_retention_check_interval_ms
        # At least one millisecond later, or ``pass_to`` would never return.
        self._expiry.set(now.uptime_ms + max(1, rest_ms))
        return effects

    def _expire_group(self, group: Group, now: Now) -> Effects:
        group_id = group.group_id
        retention_ms = self.config().offsets_retention_minutes * _MINUTE_MS
        expired: list[tuple[str, int]] = []
        kept = self.offsets.has_pending(group_id)
        for topic, partition, committed in self.offsets.of_group(group_id):
            from_ms = None if group.is_subscribed(topic) else group.expires_from_ms(committed)
            if from_ms is None or self.offsets.is_pending(group_id, topic, partition):
                over = False
            elif committed.expire_ms >= 0:
                over = now.wall_ms >= committed.expire_ms
            else:
                over = now.wall_ms - from_ms >= retention_ms
            if over:
                expired.append((topic, partition))
            else:
                kept = True
        effects: Effects = list(self._delete_offsets(group_id, expired))
        if not kept and group.is_vacant:
            effects.append(self._remove_group(group))
        return effects
