"""OffsetCommit, TxnOffsetCommit, OffsetFetch and OffsetDelete."""

from collections.abc import Sequence
from typing import NamedTuple

from tidelog.errors import ErrorCode, TidelogError
from tidelog.groups import records
from tidelog.groups.effects import NO_PRODUCER_ID, AppendRecords, Effects, Now, Respond, Waiter
from tidelog.groups.group import Group
from tidelog.groups.offsets import Committed
from tidelog.groups.shard_state import ShardState

GROUP_NOT_FOUND_FROM = 9  # since this version of OffsetCommit clients know the error
NO_RETENTION = -1


class OffsetToCommit(NamedTuple):
    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str | None


class CommitRequest(NamedTuple):
    group_id: str
    member_id: str
    instance_id: str | None
    generation: int
    offsets: Sequence[OffsetToCommit]
    version: int  # of OffsetCommit
    retention_ms: int = NO_RETENTION  # old clients may set the retention
    producer_id: int = NO_PRODUCER_ID  # of the transaction the offsets belong to
    producer_epoch: int = -1


class FetchedOffset(NamedTuple):
    topic: str
    partition: int
    committed: Committed | None
    error: ErrorCode


class OffsetsToCommit(NamedTuple):
    """Offsets that are being written."""

    group_id: str
    accepted: list[tuple[str, int, Committed]]
    errors: list[ErrorCode]  # one per offset of the request, for the waiter
    waiter: Waiter
    producer_id: int


class OffsetRequests(ShardState):
    # -- committing --------------------------------------------------------------------

    def commit(self, request: CommitRequest, waiter: Waiter, now: Now) -> Effects:
        """The response is an error code per offset, in order. Raises if all are refused for one reason."""
        group = self._check_commit(request)
        if group is not None:
            group.committed_by(request.member_id, now)
        metadata_max = self.config().offset_metadata_max_bytes
        errors: list[ErrorCode] = []
        accepted: list[tuple[str, int, Committed]] = []
        expire_ms = -1 if request.retention_ms < 0 else now.wall_ms + request.retention_ms
        for wanted in request.offsets:
            metadata = wanted.metadata or ""
            if len(metadata) > metadata_max:
                errors.append(ErrorCode.OFFSET_METADATA_TOO_LARGE)
                continue
            errors.append(ErrorCode.NONE)
            committed = Committed(wanted.offset, wanted.leader_epoch, metadata, now.wall_ms, expire_ms)
            accepted.append((wanted.topic, wanted.partition, committed))
        if not accepted:
            return [Respond(waiter, errors)]
        return [self._commit(request, accepted, errors, waiter)]

    def _check_commit(self, request: CommitRequest) -> Group | None:
        """The group, if it exists and its state allows the commit."""
        transactional = request.producer_id != NO_PRODUCER_ID
        group = self.groups.get(request.group_id)
        if group is not None:
            group.check_commit(
                request.member_id, request.instance_id, request.generation,
                transactional=transactional, version=request.version,
            )  # fmt: skip
        elif request.generation >= 0:
            if transactional or request.version < GROUP_NOT_FOUND_FROM:
                raise TidelogError("the group does not exist any more", ErrorCode.ILLEGAL_GENERATION)
            raise TidelogError("the group does not exist any more", ErrorCode.GROUP_ID_NOT_FOUND)
        return group

    def _commit(
        self,
        request: CommitRequest,
        accepted: list[tuple[str, int, Committed]],
        errors: list[ErrorCode],
        waiter: Waiter,
    ) -> AppendRecords:
        group_id, producer_id = request.group_id, request.producer_id
        self._committing[group_id] = self._committing.get(group_id, 0) + 1
        return AppendRecords(
            [records.offset_record(group_id, *offset) for offset in accepted],
            self.writes.add(OffsetsToCommit(group_id, accepted, errors, waiter, producer_id)),
            producer_id,
            request.producer_epoch,
        )

    def _offsets_written(self, pending: OffsetsToCommit, error: ErrorCode) -> Effects:
        group_id, accepted, errors, waiter, producer_id = pending
        others = self._committing[group_id] - 1
        if others:
            self._committing[group_id] = others
        else:
            del self._committing[group_id]
        if not error:
            self._committed(group_id, accepted, producer_id)
            return [Respond(waiter, errors)]
        if error == ErrorCode.MESSAGE_TOO_LARGE:
            error = ErrorCode.INVALID_COMMIT_OFFSET_SIZE
        return [Respond(waiter, [refused or error for refused in errors])]

    def _committed(self, group_id: str, accepted: list[tuple[str, int, Committed]], producer_id: int) -> None:
        for topic, partition, committed in accepted:
            if producer_id == NO_PRODUCER_ID:
                self.offsets.commit(group_id, topic, partition, committed)
            else:
                self.offsets.commit_pending(producer_id, group_id, topic, partition, committed)
        self._ensure(group_id)

    # -- fetching ----------------------------------------------------------------------

    def fetch(
        self,
        group_id: str,
        wanted: Sequence[tuple[str, int]] | None,
        *,
        require_stable: bool,
        member_id: str | None = None,
        member_epoch: int = -1,
    ) -> list[FetchedOffset]:
        """The offsets of these partitions, or of all that have one. Raises errors that concern
        all of them.
        """
        group = self.groups.get(group_id)
        if group is not None:
            group.check_fetch(member_id, member_epoch)
        offsets = self.offsets
        keys = wanted
        if keys is None:
            keys = [(topic, partition) for topic, partition, _ in offsets.of_group(group_id)]
        watch = require_stable and offsets.has_pending(group_id)
        found = []
        for topic, partition in keys:
            if watch and offsets.is_pending(group_id, topic, partition):
                found.append(FetchedOffset(topic, partition, None, ErrorCode.UNSTABLE_OFFSET_COMMIT))
            else:
                committed = offsets.get(group_id, topic, partition)
                found.append(FetchedOffset(topic, partition, committed, ErrorCode.NONE))
        return found

    # -- deleting ----------------------------------------------------------------------

    def delete_offsets(
        self, group_id: str, wanted: Sequence[tuple[str, int]], waiter: Waiter, now: Now
    ) -> Effects:
        """The response is an error code per partition, in order."""
        group = self.group(group_id)
        group.check_offset_delete()
        errors = [
            ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if group.is_subscribed(topic) else ErrorCode.NONE
            for topic, _ in wanted
        ]
        known = set(self.offsets.keys_of(group_id))
        keys = [key for key, error in zip(wanted, errors, strict=True) if not error and key in known]
        if not keys:
            return [Respond(waiter, errors)]
        return list(self._delete_offsets(group_id, keys, waiter, errors))

    def topics_deleted(self, topics: Sequence[str]) -> Effects:
        """Offsets of deleted topics are removed: they must not apply to a new topic of the same name."""
        effects: Effects = []
        for topic in topics:
            for group_id in self.offsets.groups_with(topic):
                keys = [key for key in self.offsets.keys_of(group_id) if key[0] == topic]
                effects += self._delete_offsets(group_id, keys)
        return effects
