"""Consumer groups in a shard: their requests, records and deadlines.

A consumer group makes decisions that depend on changes which are still being written, because its members'
heartbeats must not wait for each other. So its state is ahead of the log, and responses wait for the log.
That includes responses to requests that change nothing, while a change of their group is being written. If a
write fails, the shard is loaded again.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from tidelog.config import BrokerConfig
from tidelog.errors import ErrorCode, InvalidRequest, TidelogError
from tidelog.groups.classic.group import ClassicGroup
from tidelog.groups.classic.messages import JoinRequest, LeavingMember, SyncRequest
from tidelog.groups.consumer import classic_members, heartbeats, migration, subscriptions
from tidelog.groups.consumer.description import ConsumerGroupDescription, describe
from tidelog.groups.consumer.group import ConsumerGroup
from tidelog.groups.consumer.heartbeats import JOIN, Heartbeat
from tidelog.groups.consumer.record_format import KINDS, decode, encode
from tidelog.groups.consumer.view import NO_TOPICS, GroupContext, Topics
from tidelog.groups.effects import AppendRecords, Effects, KeyValue, Now, Reload, Respond, Waiter
from tidelog.groups.records import group_record
from tidelog.groups.shard_state import ShardState

logger = logging.getLogger(__name__)

RECORDS_BYTES_MAX = 900_000  # of one change; a batch of the internal topic can have a megabyte


class ConsumerGroupChange(NamedTuple):
    """A change of a group that is being written."""

    group: ConsumerGroup
    responses: list[Respond]  # that wait for it; more may be added


class ConsumerRequests(ShardState):
    # -- from one coordinator to the next ----------------------------------------------

    def __init__(
        self, config: Callable[[], BrokerConfig], topics: Callable[[], Topics] = lambda: NO_TOPICS
    ) -> None:
        super().__init__(config, topics)
        self.replayers.update(dict.fromkeys(KINDS, self._replay_consumer))

    def _replay_consumer(self, key: bytes, value: bytes | None) -> None:
        group_id, update = decode(key, value)
        group = self.groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            if update.value is None:
                return
            group = self.groups[group_id] = ConsumerGroup(group_id)
        group.apply(update)

    def resume_consumer_groups(self, now: Now) -> None:
        """Called after the replay."""
        for group in list(self.groups.values()):
            if not isinstance(group, ConsumerGroup):
                continue
            if group.everything():
                heartbeats.resume(group, self._view(now))
                self._watch(group)
            else:
                del self.groups[group.group_id]  # Only tombstones are left of it, and perhaps offsets.
                if self.offsets.has_any(group.group_id):
                    self._ensure(group.group_id)

    # -- members with the consumer protocol --------------------------------------------

    def consumer_heartbeat(
        self, group_id: str, request: Heartbeat, version: int, waiter: Waiter, now: Now
    ) -> Effects:
        """The response is a HeartbeatResponse."""
        view = self._view(now)._replace(matches=request.matches)
        heartbeats.check(request, version, view.config)
        group, replaced = self._find(group_id, request, view)
        response = heartbeats.heartbeat(group, request, view)
        records = _fitting(group)
        self.groups[group_id] = group  # Only after the member was admitted.
        if replaced is None:
            return self._changed(group, records, waiter, response, view)
        logger.info("group %s uses the consumer protocol now", group_id)
        records = [*replaced.tombstones(), *records]
        return [*replaced.dissolve(now), *self._changed(group, records, waiter, response, view)]

    def names_to_match(
        self, group_id: str, pattern: str | None, rules: object = None
    ) -> Iterator[tuple[str, str]]:
        """The expressions and topics that a heartbeat will have to match, as far as that is known before.
        ``rules``: the access rules, if there are any.
        """
        group = self.groups.get(group_id)
        known = group if isinstance(group, ConsumerGroup) else ConsumerGroup(group_id)
        return subscriptions.unmatched(known, pattern, self.topics(), rules)

    def _find(
        self, group_id: str, request: Heartbeat, view: GroupContext
    ) -> tuple[ConsumerGroup, ClassicGroup | None]:
        """The consumer group, and the classic group that it replaces, if any."""
        group = self.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return group, None
        if request.epoch != JOIN:
            # The coordinator's log has lost the group, or the group was downgraded without this member. Kafka
            # responds with GROUP_ID_NOT_FOUND, which clients treat as fatal or repeat the heartbeat for ever.
            # With this code they join again.
            raise TidelogError(f"there is no consumer group {group_id[:80]!r}", ErrorCode.UNKNOWN_MEMBER_ID)
        if not (group is None or isinstance(group, ClassicGroup)):
            raise TidelogError(f"{group_id[:80]!r} is no consumer group", ErrorCode.GROUP_ID_NOT_FOUND)
        if group is None:
            return ConsumerGroup(group_id), None
        if not group.members:
            return ConsumerGroup(group_id), group
        upgraded = migration.upgraded(group, view)
        heartbeats.resume(upgraded, view)
        return upgraded, group

    def consumer_describe(self, group_id: str, now: Now) -> ConsumerGroupDescription:
        group = self.group(group_id)
        if not isinstance(group, ConsumerGroup):
            raise TidelogError(
                f"group {group_id[:80]!r} is not a consumer group", ErrorCode.GROUP_ID_NOT_FOUND
            )
        return describe(group, self._view(now))

    # -- members with the classic protocol ---------------------------------------------

    def consumer_join(self, group: ConsumerGroup, request: JoinRequest, waiter: Waiter, now: Now) -> Effects:
        """The response is a JoinResponse."""
        view = self._view(now)
        response = classic_members.join(group, request, view)
        return self._changed(group, _fitting(group), waiter, response, view)

    def consumer_sync(self, group: ConsumerGroup, request: SyncRequest, waiter: Waiter, now: Now) -> Effects:
        """The response is a SyncResponse."""
        view = self._view(now)
        response = classic_members.sync(group, request, view)
        return self._changed(group, _put(group), waiter, response, view)

    def consumer_classic_heartbeat(
        self, group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int, now: Now
    ) -> None:
        """Raises the error for the member if its generation is not valid."""
        classic_members.heartbeat(group, member_id, instance_id, generation, self._view(now))

    def consumer_leave(
        self, group: ConsumerGroup, members: Sequence[LeavingMember], now: Now
    ) -> tuple[list[ErrorCode], Effects]:
        view = self._view(now)
        errors = classic_members.leave(group, members, view)
        return errors, self._changed(group, _put(group), None, None, view)

    # -- the clock ---------------------------------------------------------------------

    def _watch(self, group: ConsumerGroup) -> None:
        """Check the group's deadlines when the first of them may have passed."""
        if group.waits.next_check_ms is None:
            return
        if group.alarm is None:
            group.alarm = self.deadlines.new(lambda now: self._time_passed(group, now))
        group.alarm.set(group.waits.next_check_ms)

    def _time_passed(self, group: ConsumerGroup, now: Now) -> Effects:
        if self.groups.get(group.group_id) is not group:
            return []
        view = self._view(now)
        for member_id, wait in heartbeats.expire(group, view).items():
            logger.info("member %s of group %s was removed: %s", member_id, group.group_id, wait.value)
        return self._changed(group, _put(group), None, None, view)

    # -- the log -----------------------------------------------------------------------

    def _view(self, now: Now) -> GroupContext:
        return GroupContext(now, self.topics(), self.config())

    def _changed(
        self,
        group: ConsumerGroup,
        records: Sequence[KeyValue],
        waiter: Waiter | None,
        response: Any,
        view: GroupContext,
    ) -> Effects:
        """Write the records of a change, then send the response, if one is pending."""
        if records and migration.must_downgrade(group, view.config):
            return self._downgrade(group, records, waiter, response, view)
        self._watch(group)
        return self._write(group, records, waiter, response)

    def _downgrade(
        self,
        group: ConsumerGroup,
        records: Sequence[KeyValue],
        waiter: Waiter | None,
        response: Any,
        view: GroupContext,
    ) -> Effects:
        """Only members with the classic protocol are left: the group becomes a classic group again."""
        logger.info("group %s uses the classic protocol again", group.group_id)
        state = migration.downgraded(group, view)
        classic = self._new_classic(group.group_id)
        self.groups[group.group_id] = classic
        records = [*records, *group.tombstones(), group_record(group.group_id, state)]
        return [*self._write(group, records, waiter, response), *classic.adopt(state, view.now)]

    def _write(
        self, group: ConsumerGroup, records: Sequence[KeyValue], waiter: Waiter | None, response: Any
    ) -> Effects:
        responses: list[Respond] = [] if waiter is None else [Respond(waiter, response)]
        if not records:
            if group.pending_responses is None:
                return list(responses)
            # The response depends on the pending change. Without this wait, a replaced coordinator could
            # return an assignment that it could not write, to a member that repeats its request.
            group.pending_responses += responses
            return []
        group.pending_responses = responses
        return [AppendRecords(records, self.writes.add(ConsumerGroupChange(group, responses)))]

    def _change_written(self, change: ConsumerGroupChange, error: ErrorCode) -> Effects:
        group, responses = change
        if group.pending_responses is responses:
            group.pending_responses = None
        if not error:
            return list(responses)
        refusal = TidelogError("the group could not be written", error)
        return [*(Respond(each.waiter, refusal) for each in responses), Reload()]


def _put(group: ConsumerGroup) -> list[KeyValue]:
    """The records that the group has put."""
    return [encode(group.group_id, update) for update in group.take_updates()]


def _fitting(group: ConsumerGroup) -> list[KeyValue]:
    """The records that the group has put. If they exceed the size of a batch, they are undone and the request
    is refused: a write that always fails would reload the whole shard with every retry of the client.
    """
    records = [encode(group.group_id, update) for update in group.updates]
    size = sum(len(key) + len(value or b"") for key, value in records)
    if size > RECORDS_BYTES_MAX:
        group.undo()
        raise InvalidRequest(f"the change of the group has {size} bytes, more than {RECORDS_BYTES_MAX}")
    group.take_updates()
    return records
