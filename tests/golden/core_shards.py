"""Shards of groups and of transactions over a log that the trace holds in its hands: see
:mod:`core_machines`. A write is committed or refused by ``appended``, with the token of its effect.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from core_machines import Driver
from datadriven import call, told

from tidelog.config import BrokerConfig
from tidelog.errors import ErrorCode, TidelogError
from tidelog.groups import records as group_records
from tidelog.groups.classic.group import ClassicGroup
from tidelog.groups.classic.messages import JoinRequest, LeavingMember, SyncRequest
from tidelog.groups.effects import AppendRecords, Effects, KeyValue, Now
from tidelog.groups.offset_requests import CommitRequest, OffsetToCommit
from tidelog.groups.records import ClassicGroupRecord, OffsetRecord
from tidelog.groups.shard import GroupShard
from tidelog.transactions import records as transaction_records
from tidelog.transactions.effects import SendMarkers
from tidelog.transactions.rules import EndRequest, ProducerIdAndEpoch
from tidelog.transactions.shard import TransactionShard
from tidelog.types import TopicPartition

GROUP, TOPIC, ID = "g", "t", "orders"


class ShardDriver(Driver):
    """Both clocks begin at zero. Waiting requests are known by a name."""

    def __init__(self) -> None:
        super().__init__()
        self.config = BrokerConfig.parse({"node.id": 1, "group.initial.rebalance.delay.ms": 100})

    @property
    def now(self) -> Now:
        return Now(self.now_ms, self.now_ms)

    @property
    def shards(self) -> tuple[Any, Any]:
        """The shard and another one in the same state, which must do the same."""
        raise NotImplementedError

    def outcome(self, event: Callable[[Any], Any]) -> Iterator[str]:
        shard, other = self.shards
        result, same = _result(event, shard), _result(event, other)
        assert result == same
        if isinstance(result, TidelogError):
            yield f"refused {told(result)}"
            return
        for effect in result:
            if isinstance(effect, AppendRecords):
                yield f"{told(effect._replace(records=()))}".replace(" records=()", "")
                yield from (f"  write {self.record(each)}" for each in effect.records)
            else:
                yield told(effect)

    def record(self, record: KeyValue) -> str:
        raise NotImplementedError

    def do_start(self) -> Iterator[str]:
        return self.outcome(lambda shard: shard.start(self.now))

    def do_stop(self) -> Iterator[str]:
        return self.outcome(lambda shard: shard.stop())

    def do_pass(self, ms: int) -> Iterator[str]:
        """The clock stops at each deadline."""
        end_ms = self.now_ms + ms
        while (next_ms := self.shards[0].next_ms) is not None and next_ms <= end_ms:
            self.now_ms = next_ms
            yield from self.outcome(lambda shard: shard.pass_to(self.now))
        self.now_ms = end_ms


def _result(event: Callable[[Any], Any], shard: Any) -> Effects | TidelogError:
    try:
        return event(shard) or []
    except TidelogError as refusal:
        return refusal


# --- transactions -------------------------------------------------------------------------------------------


def producer_of(word: str) -> ProducerIdAndEpoch:
    producer_id, epoch = word.split("@")
    return ProducerIdAndEpoch(int(producer_id), int(epoch))


class TransactionsDriver(ShardDriver):
    """One transactional id."""

    def __init__(self) -> None:
        super().__init__()
        self.shard = TransactionShard(lambda: self.config)
        self._sent: SendMarkers | None = None

    @property
    def shards(self) -> tuple[TransactionShard, TransactionShard]:
        return self.shard, self.shard.copied()

    def outcome(self, event: Callable[[Any], Any]) -> Iterator[str]:
        """The shard is compared, too."""
        copies: list[TransactionShard] = []

        def noted(shard: TransactionShard) -> Any:
            copies.append(shard)
            result = event(shard)
            self._sent = next((each for each in result or () if isinstance(each, SendMarkers)), self._sent)
            return result

        yield from super().outcome(noted)
        shard, copy = copies
        assert shard is self.shard and shard.as_data() == copy.as_data()

    def execute(self, name: str, words: Mapping[str, str]) -> Iterator[str]:
        before = self._state
        yield from call(getattr(self, f"do_{name}"), words, {})
        if self._state != before:
            yield f"  state: {before} -> {self._state}"

    @property
    def _state(self) -> str:
        found = self.shard.get(ID)
        return "none" if found is None else f"{found.state.name} {found.producer_id}@{found.epoch}"

    def record(self, record: KeyValue) -> str:
        read = transaction_records.decode(*record)
        assert read is not None
        return f"tombstone {read.transactional_id}" if read.transaction is None else told(read.transaction)

    def do_init(self, waiter: str, timeout_ms: int = 60_000) -> Iterator[str]:
        return self.outcome(lambda shard: shard.init_producer(ID, timeout_ms, None, waiter, self.now))

    def do_got_producer_id(self, token: str, producer_id: int = -1, error: str = "") -> Iterator[str]:
        refusal = TidelogError("there are no ids", ErrorCode[error]) if error else None
        return self.outcome(lambda shard: shard.got_producer_id(token, refusal or producer_id, self.now))

    def do_add(self, producer: str, waiter: str, partition: int = 0) -> Iterator[str]:
        partitions = frozenset((TopicPartition(TOPIC, partition),))
        return self.outcome(
            lambda shard: shard.add_partitions(ID, producer_of(producer), partitions, 0, waiter, self.now)
        )

    def do_end(self, producer: str, waiter: str, commits: bool = True, version: int = 0) -> Iterator[str]:
        request = EndRequest(producer_of(producer), commits, version)
        return self.outcome(lambda shard: shard.end(ID, request, waiter, self.now))

    def do_appended(self, token: str, error: ErrorCode = ErrorCode.NONE) -> Iterator[str]:
        return self.outcome(lambda shard: shard.appended(token, error, self.now))

    def do_markers_written(self) -> Iterator[str]:
        """Of the last effect that sent some."""
        assert self._sent is not None
        sent = self._sent
        return self.outcome(lambda shard: shard.markers_written(sent, self.now))


# --- groups -------------------------------------------------------------------------------------------------


class GroupsDriver(ShardDriver):
    """One group. Its timers are bound to its members, so there is no copy: a second shard gets all events."""

    def __init__(self) -> None:
        super().__init__()
        self._shards = (GroupShard(lambda: self.config), GroupShard(lambda: self.config))

    @property
    def shards(self) -> tuple[GroupShard, GroupShard]:
        return self._shards

    def execute(self, name: str, words: Mapping[str, str]) -> Iterator[str]:
        before = self._shown
        yield from call(getattr(self, f"do_{name}"), words, {})
        for field, value in self._shown.items():
            if before[field] != value:
                yield f"  {field}: {told(before[field])} -> {told(value)}"

    @property
    def _shown(self) -> dict[str, Any]:
        shard = self._shards[0]
        group = shard.groups.get(GROUP)
        offsets = {f"{topic}-{number}": at.offset for topic, number, at in shard.offsets.of_group(GROUP)}
        return {
            "state": None if group is None else group.state_name,
            "generation": group.generation if isinstance(group, ClassicGroup) else None,
            "offsets": offsets,
            "pending writes": len(shard.writes),
        }

    def record(self, record: KeyValue) -> str:
        read = group_records.decode(*record)
        if isinstance(read, OffsetRecord):
            place = f"offset of {read.topic}-{read.partition}"
            return f"{place}: {read.committed.offset if read.committed else 'tombstone'}"
        assert isinstance(read, ClassicGroupRecord)
        if read.state is None:
            return f"group {read.group_id}: tombstone"
        members = {each.member_id: each.assignment for each in read.state.members}
        return f"group {read.group_id}: generation={read.state.generation} members={told(members)}"

    # --- members --------------------------------------------------------------------------------------------

    def do_join(self, member: str, again: bool = False, instance: str | None = None) -> Iterator[str]:
        request = JoinRequest(
            GROUP, member if again else "", instance, "consumer", (("range", b""),), 10_000, 60_000, "client",
            "/host", member, False, True,
        )  # fmt: skip
        return self.outcome(lambda shard: shard.join(request, f"join of {member}", self.now))

    def do_sync(self, member: str, generation: int, assigned: str = "") -> Iterator[str]:
        """``assigned``: by the leader, member:partition,…"""
        pairs = (each.split(":") for each in assigned.split(",") if each)
        assignments = tuple((name, part.encode()) for name, part in pairs)
        request = SyncRequest(GROUP, member, None, generation, None, None, assignments)
        return self.outcome(lambda shard: shard.sync(request, f"sync of {member}", self.now))

    def do_leave(self, member: str) -> Iterator[str]:
        leaving = [LeavingMember(member, None)]
        return self.outcome(lambda shard: shard.leave(GROUP, leaving, self.now)[1])

    # --- offsets --------------------------------------------------------------------------------------------

    def do_commit(
        self, offset: int, waiter: str, member: str = "", generation: int = -1, producer_id: int = -1
    ) -> Iterator[str]:
        request = CommitRequest(
            GROUP, member, None, generation, [OffsetToCommit(TOPIC, 0, offset, -1, None)], 9,
            producer_id=producer_id, producer_epoch=min(producer_id, 0),
        )  # fmt: skip
        return self.outcome(lambda shard: shard.commit(request, waiter, self.now))

    def do_marker(self, producer_id: int, committed: bool) -> Iterable[str]:
        return self.outcome(lambda shard: shard.marker(producer_id, committed))

    def do_delete(self, waiter: str) -> Iterator[str]:
        return self.outcome(lambda shard: shard.delete(GROUP, waiter, self.now))

    def do_appended(self, token: int, error: ErrorCode = ErrorCode.NONE) -> Iterator[str]:
        return self.outcome(lambda shard: shard.appended(token, error, self.now))
