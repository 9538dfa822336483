"""Shared by the request families of a shard: its groups, its offsets, and the replay of records."""

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from tidelog.config import BrokerConfig
from tidelog.errors import ErrorCode, StorageError, TidelogError
from tidelog.groups import records
from tidelog.groups.classic.group import ClassicGroup
from tidelog.groups.consumer.view import NO_TOPICS, Topics
from tidelog.groups.deadlines import Deadlines
from tidelog.groups.effects import NO_PRODUCER_ID, AppendRecords, Effects, KeyValue, Now, Respond, Waiter
from tidelog.groups.group import Group
from tidelog.groups.offsets import OffsetStore
from tidelog.groups.pending_writes import PendingWrites
from tidelog.groups.records import ClassicGroupRecord, OffsetRecord

logger = logging.getLogger(__name__)

RECORDS_PER_WRITE = 1000  # of tombstones: much less than fits into a batch

Replay = Callable[[bytes, bytes | None], None]


class OffsetDeletion:
    """Offsets of a group that are being deleted, in several writes. A request may wait for it."""

    __slots__ = ("errors", "failure", "group_id", "waiter")

    def __init__(self, group_id: str, waiter: Waiter | None, errors: Sequence[ErrorCode]) -> None:
        self.group_id = group_id
        self.waiter = waiter
        self.errors = errors  # one per offset of the request; NONE for those that are deleted
        self.failure = ErrorCode.NONE  # of the first write that failed


class OffsetDeletionPart(NamedTuple):
    """The offsets of one write."""

    deletion: OffsetDeletion
    keys: Sequence[tuple[str, int]]
    is_last: bool


class GroupRemoval(NamedTuple):
    group: Group
    waiter: Waiter | None


class ShardState:
    def __init__(
        self, config: Callable[[], BrokerConfig], topics: Callable[[], Topics] = lambda: NO_TOPICS
    ) -> None:
        self.config = config
        self.topics = topics
        self.groups: dict[str, Group] = {}
        self.offsets = OffsetStore()
        self.deadlines = Deadlines()
        self.writes = PendingWrites()
        self.replayers: dict[int, Replay] = {}
        """Readers of other kinds of records in this log, by kind."""
        self._committing: dict[str, int] = {}  # offset commits that are being written, by group
        self._unknown_kinds: set[int] = set()

    # -- loading -----------------------------------------------------------------------

    def replay(self, key: bytes | None, value: bytes | None, producer_id: int = NO_PRODUCER_ID) -> None:
        """Apply a record of the log. An invalid one is logged and skipped: it must not affect the other
        groups of the partition.
        """
        try:
            kind = records.kind_of(key or b"")
            if kind in self.replayers:
                self.replayers[kind](key or b"", value)
                return
            record = records.decode(key or b"", value)
        except StorageError as error:
            logger.error("%s", error.message)
            return
        if isinstance(record, OffsetRecord):
            self._replay_offset(record, producer_id)
        elif isinstance(record, ClassicGroupRecord):
            self._replay_group(record)
        elif kind not in self._unknown_kinds:
            self._unknown_kinds.add(kind)
            logger.warning(
                "skipping records of kind %d: they belong to a newer broker or another kind of group", kind
            )

    def _replay_offset(self, record: OffsetRecord, producer_id: int) -> None:
        group_id, topic, partition, committed = record
        if committed is None:
            self.offsets.delete(group_id, topic, partition)
        elif producer_id == NO_PRODUCER_ID:
            self.offsets.commit(group_id, topic, partition, committed)
        else:
            self.offsets.commit_pending(producer_id, group_id, topic, partition, committed)

    def _replay_group(self, record: ClassicGroupRecord) -> None:
        if record.state is not None:
            group = self._new_classic(record.group_id)
            group.restore(record.state)
            self.groups[record.group_id] = group
        elif isinstance(self.groups.get(record.group_id), ClassicGroup):
            del self.groups[record.group_id]

    def marker(self, producer_id: int, committed: bool) -> None:
        """A transaction ended: its offsets become valid or are dropped."""
        for group_id in self.offsets.end_transaction(producer_id, committed):
            self._ensure(group_id)

    # -- groups ------------------------------------------------------------------------

    def _new_classic(self, group_id: str) -> ClassicGroup:
        return ClassicGroup(group_id, self.deadlines, self.writes, self.config)

    def _ensure(self, group_id: str) -> None:
        """Offsets without a group belong to a group without members."""
        if group_id not in self.groups:
            self.groups[group_id] = self._new_classic(group_id)

    def group(self, group_id: str) -> Group:
        group = self.groups.get(group_id)
        if group is None:
            raise TidelogError(f"there is no group {group_id[:80]!r}", ErrorCode.GROUP_ID_NOT_FOUND)
        return group

    # -- deleting ----------------------------------------------------------------------

    def _delete_offsets(
        self,
        group_id: str,
        keys: Sequence[tuple[str, int]],
        waiter: Waiter | None = None,
        errors: Sequence[ErrorCode] = (),
    ) -> Iterator[AppendRecords]:
        """Writes that delete offsets, in parts. After the last one the waiter, if there is one, gets the
        errors of its request, with the first failure of a write in place of every NONE.
        """
        deletion = OffsetDeletion(group_id, waiter, errors)
        parts = [keys[first : first + RECORDS_PER_WRITE] for first in range(0, len(keys), RECORDS_PER_WRITE)]
        for number, part in enumerate(parts, 1):
            tombstones = [
                records.offset_record(group_id, topic, partition, None) for topic, partition in part
            ]
            pending = OffsetDeletionPart(deletion, part, number == len(parts))
            yield AppendRecords(tombstones, self.writes.add(pending))

    def _offsets_deleted(self, part: OffsetDeletionPart, error: ErrorCode) -> Effects:
        deletion = part.deletion
        if error:
            deletion.failure = deletion.failure or error
        else:
            for topic, partition in part.keys:
                self.offsets.delete(deletion.group_id, topic, partition)
        if deletion.waiter is None or not part.is_last:
            return []
        return [Respond(deletion.waiter, [refused or deletion.failure for refused in deletion.errors])]

    def _remove_group(self, group: Group, waiter: Waiter | None = None) -> AppendRecords:
        """Remove a vacant group from the log. The waiter, if there is one, gets the error code."""
        tombstones: list[KeyValue] = group.tombstones()
        return AppendRecords(tombstones, self.writes.add(GroupRemoval(group, waiter)))

    def _group_removed(self, removal: GroupRemoval, error: ErrorCode, now: Now) -> Effects:
        group = removal.group
        # If a member has joined while the tombstones were written, the group is kept. It is written again
        # with its first assignment.
        if not error and self.groups.get(group.group_id) is group and group.is_vacant:
            del self.groups[group.group_id]
            group.removed(now)
            if self.offsets.has_any(group.group_id):
                self._ensure(group.group_id)
        return [] if removal.waiter is None else [Respond(removal.waiter, error)]
