"""One consumer group: the newest record of each of its keys, and look-ups in them.

``apply`` adds a record from the log. Decisions change the group with ``put``, and ``take_updates`` returns
the records that were put since. The only rules of the protocol in this module are those about offsets: which
clients may commit and fetch them.

============  ==================================================================
state         when
============  ==================================================================
Empty         it has no members
Assigning     its epoch is ahead of the epoch its target was computed for
Reconciling   some member has not reached the target yet
Stable        every member has what the target assigns to it
============  ==================================================================
"""

from collections.abc import Mapping
from uuid import UUID

from tidelog.errors import ErrorCode, TidelogError
from tidelog.groups.consumer.partitions import NONE, Held, Partitions
from tidelog.groups.consumer.record_format import encode
from tidelog.groups.consumer.records import (
    CurrentMemberRecord,
    GroupRecord,
    MemberRecord,
    MemberState,
    RecordKind,
    RegexRecord,
    TargetMemberRecord,
    TargetRecord,
    Update,
    Value,
)
from tidelog.groups.consumer.view import Topic
from tidelog.groups.consumer.waits import Waits
from tidelog.groups.deadlines import Deadline
from tidelog.groups.effects import Effects, KeyValue, Now, Respond
from tidelog.groups.group import CONSUMER
from tidelog.groups.offsets import Committed
from tidelog.groups.subscriptions import CONSUMER_PROTOCOL
from tidelog.invariant import invariant

NEW_MEMBER = CurrentMemberRecord(epoch=0, previous_epoch=0)
EPOCHS_FROM_VERSION = 9  # of OffsetCommit: since then the generation may be a member epoch


class ConsumerGroup:
    kind = CONSUMER
    protocol_type = CONSUMER_PROTOCOL

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = 0
        self.metadata_hash = 0
        self.target_epoch = 0  # never ahead of the epoch
        self.target_computed_ms = 0
        self.members: dict[str, MemberRecord] = {}
        self.currents: dict[str, CurrentMemberRecord] = {}
        self.targets: dict[str, Partitions] = {}
        self.regexes: dict[str, RegexRecord] = {}
        # Derived from the records.
        self.instances: dict[str, str] = {}  # static members: instance id → member id
        # the member that holds a partition or must still revoke it
        self._owners: dict[UUID, dict[int, str]] = {}
        # Not in the log.
        self.waits = Waits()
        self.alarm: Deadline | None = None  # when to check the waits
        self.seen_topics: Mapping[str, Topic] = {}  # topics when the regular expressions were last resolved
        self.seen_rules: object = None  # access rules at that time; None if there were none
        self.retargeted_ms = -(1 << 62)  # when the target was computed, on the monotonic clock
        # Responses to send when the newest change is in the log; None if no change is being written.
        self.pending_responses: list[Respond] | None = None
        self._state: str | None = None  # None: unknown since the last record
        self.updates: list[Update] = []  # put and not taken yet
        self._before: list[Update] = []  # the records that the updates replaced

    # -- records ---------------------------------------------------------------------------------------------

    def apply(self, update: Update) -> None:
        """Apply a record."""
        self._state = None
        name, value = update.name, update.value
        match update.kind:
            case RecordKind.GROUP:
                record = value if isinstance(value, GroupRecord) else GroupRecord(0, 0)
                self.epoch, self.metadata_hash = record.epoch, record.metadata_hash
            case RecordKind.TARGET:
                target = value if isinstance(value, TargetRecord) else TargetRecord(0, 0)
                self.target_epoch, self.target_computed_ms = target.epoch, target.computed_ms
            case RecordKind.MEMBER:
                self._set_member(name, value if isinstance(value, MemberRecord) else None)
            case RecordKind.CURRENT_MEMBER:
                self._set_current(name, value if isinstance(value, CurrentMemberRecord) else None)
            case RecordKind.TARGET_MEMBER:
                if isinstance(value, TargetMemberRecord):
                    self.targets[name] = value.partitions
                else:
                    self.targets.pop(name, None)
            case RecordKind.REGEX:
                if isinstance(value, RegexRecord):
                    self.regexes[name] = value
                else:
                    self.regexes.pop(name, None)

    def put(self, kind: RecordKind, name: str, value: Value) -> None:
        """Change the group by a record, unless it changes nothing."""
        before = self.record(kind, name)
        if before != value:
            update = Update(kind, name, value)
            self.apply(update)
            self.updates.append(update)
            self._before.append(Update(kind, name, before))

    def take_updates(self) -> list[Update]:
        """The records put since the last call, in order. They are written to the log as one batch."""
        updates, self.updates = self.updates, []
        self._before = []
        return updates

    def undo(self) -> None:
        """Undo the records that were put and not taken, because they cannot be written."""
        for update in reversed(self._before):
            self.apply(update)
        self.seen_topics, self.seen_rules = {}, None  # The regular expressions must be resolved again.
        for update in self.take_updates():
            if update.kind is RecordKind.MEMBER and update.name not in self.members:
                self.waits.forget(update.name)

    def record(self, kind: RecordKind, name: str) -> Value:
        """The newest record of a key."""
        match kind:
            case RecordKind.GROUP:
                return GroupRecord(self.epoch, self.metadata_hash) if self.epoch else None
            case RecordKind.TARGET:
                known = self.target_epoch or self.target_computed_ms
                return TargetRecord(self.target_epoch, self.target_computed_ms) if known else None
            case RecordKind.MEMBER:
                return self.members.get(name)
            case RecordKind.CURRENT_MEMBER:
                return self.currents.get(name)
            case RecordKind.TARGET_MEMBER:
                return TargetMemberRecord(self.targets[name]) if name in self.targets else None
            case RecordKind.REGEX:
                return self.regexes.get(name)
        return None

    def everything(self) -> list[Update]:
        """All existing records, in an order in which they can be replayed."""
        keys = [(RecordKind.MEMBER, name) for name in self.members]
        keys += [(RecordKind.REGEX, name) for name in self.regexes]
        keys += [(RecordKind.GROUP, "")]
        keys += [(RecordKind.TARGET_MEMBER, name) for name in self.targets]
        keys += [(RecordKind.TARGET, "")]
        keys += [(RecordKind.CURRENT_MEMBER, name) for name in self.currents]
        updates = [Update(kind, name, self.record(kind, name)) for kind, name in keys]
        return [update for update in updates if update.value is not None]

    def _set_member(self, member_id: str, record: MemberRecord | None) -> None:
        old = self.members.pop(member_id, None)
        if old is not None and old.instance_id and self.instances.get(old.instance_id) == member_id:
            del self.instances[old.instance_id]
        if record is not None:
            self.members[member_id] = record
            if record.instance_id:
                self.instances[record.instance_id] = member_id

    def _set_current(self, member_id: str, record: CurrentMemberRecord | None) -> None:
        old = self.currents.pop(member_id, None)
        if old is not None:
            self._disown(member_id, old.held)
            self._disown(member_id, old.revoking)
        if record is not None:
            self.currents[member_id] = record
            self._own(member_id, record.held)
            self._own(member_id, record.revoking)

    def _own(self, member_id: str, held: Held) -> None:
        for topic_id, epochs in held.items():
            self._owners.setdefault(topic_id, {}).update(dict.fromkeys(epochs, member_id))

    def _disown(self, member_id: str, held: Held) -> None:
        for topic_id, epochs in held.items():
            owners = self._owners.get(topic_id, {})
            for index in epochs:
                # In a compacted log the new owner's record may come before the old owner's newest one.
                if owners.get(index) == member_id:
                    del owners[index]
            if not owners:
                self._owners.pop(topic_id, None)

    # -- look-ups --------------------------------------------------------------------------------------------

    @property
    def state_name(self) -> str:
        if self._state is None:
            self._state = self._find_state()
        return self._state

    def _find_state(self) -> str:
        if not self.members:
            return "Empty"
        if self.epoch > self.target_epoch:
            return "Assigning"
        return "Stable" if all(map(self.is_reconciled, self.members)) else "Reconciling"

    def current(self, member_id: str) -> CurrentMemberRecord:
        return self.currents.get(member_id, NEW_MEMBER)

    def target(self, member_id: str) -> Partitions:
        return self.targets.get(member_id, NONE)

    def is_reconciled(self, member_id: str) -> bool:
        current = self.current(member_id)
        return current.state is MemberState.STABLE and current.epoch == self.target_epoch

    def topic_names(self, member: MemberRecord) -> tuple[str, ...]:
        """A member's subscribed topics. A topic that it both names and matches is listed twice."""
        resolved = self.regexes.get(member.regex) if member.regex else None
        return member.topics if resolved is None else member.topics + resolved.topics

    def is_subscribed(self, topic: str) -> bool:
        return any(topic in self.topic_names(member) for member in self.members.values())

    @property
    def is_vacant(self) -> bool:
        return not self.members

    def owner(self, topic_id: UUID, index: int) -> str | None:
        return self._owners.get(topic_id, {}).get(index)

    def check_owners(self) -> None:
        """Check the main invariant: no partition belongs to two members."""
        seen: dict[tuple[UUID, int], str] = {}
        for member_id, current in self.currents.items():
            for held in (current.held, current.revoking):
                for topic_id, epochs in held.items():
                    for index in epochs:
                        other = seen.setdefault((topic_id, index), member_id)
                        invariant(other == member_id, "a partition has one owner", index, other, member_id)

    # -- offsets ---------------------------------------------------------------------------------------------

    def check_commit(
        self, member_id: str, instance_id: str | None, generation: int, *, transactional: bool, version: int
    ) -> None:
        if generation < 0 and not self.members:
            return  # From outside the group, which has no members.
        if transactional and generation < 0 and not member_id:
            return  # An older producer without a member id; it is fenced by its transactional id.
        record = self._known(member_id)
        if record.classic is None and not transactional and version < EPOCHS_FROM_VERSION:
            raise TidelogError(
                f"members of a consumer group commit with version {EPOCHS_FROM_VERSION} or newer",
                ErrorCode.UNSUPPORTED_VERSION,
            )
        stale = ErrorCode.ILLEGAL_GENERATION if transactional else ErrorCode.STALE_MEMBER_EPOCH
        self._check_epoch(record, member_id, generation, stale)

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        if not member_id and member_epoch < 0:
            return  # From outside the group.
        record = self._known(member_id or "")
        self._check_epoch(record, member_id or "", member_epoch, ErrorCode.STALE_MEMBER_EPOCH)

    def _known(self, member_id: str) -> MemberRecord:
        if member_id not in self.members:
            raise TidelogError("this is not a member of the group", ErrorCode.UNKNOWN_MEMBER_ID)
        return self.members[member_id]

    def _check_epoch(self, record: MemberRecord, member_id: str, epoch: int, stale: ErrorCode) -> None:
        current = self.current(member_id).epoch
        if epoch != current:
            code = stale if record.classic is None else ErrorCode.ILLEGAL_GENERATION
            raise TidelogError(f"member epoch {epoch} is not the current one, {current}", code)

    def committed_by(self, member_id: str, now: Now) -> None:
        """Only heartbeats extend a session."""

    def check_offset_delete(self) -> None:
        """Always allowed, because the subscribed topics are known."""

    def expires_from_ms(self, committed: Committed) -> int | None:
        return committed.commit_ms

    # -- the end ---------------------------------------------------------------------------------------------

    def check_delete(self) -> None:
        if self.members:
            raise TidelogError(f"group {self.group_id[:80]!r} has members", ErrorCode.NON_EMPTY_GROUP)

    def tombstones(self) -> list[KeyValue]:
        gone = [Update(update.kind, update.name, None) for update in reversed(self.everything())]
        return [encode(self.group_id, update) for update in gone]

    def removed(self, now: Now) -> None:
        """Nothing to do: only members have pending requests."""

    def abandon(self) -> Effects:
        """Nothing to do: requests wait only for writes, which fail when the shard is unloaded."""
        return []
