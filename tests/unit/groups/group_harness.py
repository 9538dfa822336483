"""A shard of groups with the time, the log and the members in the test's hands.

What is written is committed at once, or, while ``held``, when the test says so. Tokens of waiting requests
are ``Pending``: they show the answer, and that nobody is answered twice.
"""

from collections.abc import Callable, Iterable
from typing import Any

from tidelog.config import BrokerConfig
from tidelog.errors import ErrorCode, TidelogError
from tidelog.groups.classic.group import ClassicGroup
from tidelog.groups.classic.messages import (
    JoinRequest,
    JoinResponse,
    LeavingMember,
    SyncRequest,
    SyncResponse,
)
from tidelog.groups.classic.states import ClassicGroupState
from tidelog.groups.effects import AppendRecords, Effects, KeyValue, Now, Respond
from tidelog.groups.offset_requests import CommitRequest, OffsetToCommit
from tidelog.groups.shard import GroupShard

START_MS = 1_700_000_000_000
GROUP = "g"
RANGE = (("range", b"metadata"),)


class Pending:
    """Somebody who waits."""

    def __init__(self) -> None:
        self.answers: list[Any] = []

    @property
    def waits(self) -> bool:
        return not self.answers

    @property
    def answer(self) -> Any:
        (answer,) = self.answers
        return answer

    @property
    def error(self) -> ErrorCode:
        answer = self.answer
        return answer.code if isinstance(answer, TidelogError) else answer.error


class Groups:
    def __init__(self, log: Iterable[tuple[KeyValue, int]] = (), **settings: object) -> None:
        values = {name.replace("_", "."): value for name, value in settings.items()}
        self.config = BrokerConfig.parse({"node.id": 1, "group.initial.rebalance.delay.ms": 100, **values})  # type: ignore[dict-item]
        self.shard = GroupShard(lambda: self.config)
        self.uptime_ms = 1_000_000
        self.held = False
        self.refusal = ErrorCode.NONE  # of the next writes
        self.log: list[tuple[KeyValue, int]] = list(log)  # committed, with the producer id
        self._waiting: list[AppendRecords] = []
        self._ids = 0
        for (key, value), producer_id in self.log:
            self.shard.replay(key, value, producer_id)
        self.do(self.shard.start(self.now))

    @property
    def now(self) -> Now:
        return Now(self.uptime_ms, START_MS + self.uptime_ms)

    def successor(self, **settings: object) -> "Groups":
        """The next coordinator of the same log."""
        return Groups(self.log, **settings)

    # -- effects -----------------------------------------------------------------------

    def do(self, effects: Effects) -> None:
        for effect in effects:
            if isinstance(effect, Respond):
                effect.waiter.answers.append(effect.response)
                assert len(effect.waiter.answers) == 1, "answered twice"
            else:
                assert isinstance(effect, AppendRecords)
                self._waiting.append(effect)
        if not self.held:
            self.commit()

    @property
    def writing(self) -> int:
        return len(self._waiting)

    def commit(self, count: int | None = None) -> None:
        """The oldest writes are committed, or refused."""
        while self._waiting and count != 0:
            write = self._waiting.pop(0)
            if not self.refusal:
                self.log += [(record, write.producer_id) for record in write.records]
            self.do(self.shard.appended(write.token, self.refusal, self.now))
            count = None if count is None else count - 1

    def advance(self, milliseconds: int) -> None:
        end_ms = self.uptime_ms + milliseconds
        while (next_ms := self.shard.next_ms) is not None and next_ms <= end_ms:
            self.uptime_ms = max(self.uptime_ms, next_ms)
            self.do(self.shard.pass_to(self.now))
        self.uptime_ms = end_ms

    def ask(self, request: Callable[[Pending, Now], Effects]) -> Pending:
        pending = Pending()
        try:
            self.do(request(pending, self.now))
        except TidelogError as refusal:
            pending.answers.append(refusal)
        return pending

    # -- members -----------------------------------------------------------------------

    def join(self, member_id: str = "", group: str = GROUP, **more: Any) -> Pending:
        self._ids += 1
        fields: dict[str, Any] = {
            "instance_id": None,
            "protocol_type": "consumer",
            "protocols": RANGE,
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 60_000,
            "client_id": "client",
            "client_host": "/127.0.0.1",
            "new_member_id": f"member-{self._ids}",
            "needs_known_id": False,
            "can_skip_assignment": True,
            **more,
        }
        request = JoinRequest(group_id=group, member_id=member_id, **fields)
        return self.ask(lambda waiter, now: self.shard.join(request, waiter, now))

    def sync(
        self, member_id: str, generation: int, assignments: dict[str, bytes] | None = None, **more: Any
    ) -> Pending:
        fields: dict[str, Any] = {"instance_id": None, "protocol_type": None, "protocol": None, **more}
        group = fields.pop("group", GROUP)
        request = SyncRequest(
            group, member_id, generation=generation, assignments=tuple((assignments or {}).items()), **fields
        )
        return self.ask(lambda waiter, now: self.shard.sync(request, waiter, now))

    def heartbeat(self, member_id: str, generation: int, instance_id: str | None = None) -> ErrorCode:
        try:
            self.shard.heartbeat(GROUP, member_id, instance_id, generation, self.now)
        except TidelogError as refusal:
            return refusal.code
        return ErrorCode.NONE

    def leave(self, *members: str | tuple[str, str | None]) -> list[ErrorCode]:
        leaving = [
            LeavingMember(member, None) if isinstance(member, str) else LeavingMember(*member)
            for member in members
        ]
        errors, effects = self.shard.leave(GROUP, leaving, self.now)
        self.do(effects)
        return errors

    # -- offsets -----------------------------------------------------------------------

    def commit_offset(
        self, offset: int, *, partition: int = 0, topic: str = "t", group: str = GROUP, **more: Any
    ) -> Any:
        """The error of the one offset; the Pending while it is being written."""
        fields: dict[str, Any] = {
            "member_id": "",
            "instance_id": None,
            "generation": -1,
            "version": 9,
            "metadata": "m",
            **more,
        }
        offsets = [OffsetToCommit(topic, partition, offset, 3, fields.pop("metadata"))]
        request = CommitRequest(group, offsets=offsets, **fields)
        pending = self.ask(lambda waiter, now: self.shard.commit(request, waiter, now))
        if pending.waits:
            return pending
        return pending.answer.code if isinstance(pending.answer, TidelogError) else pending.answer[0]

    def offset(self, *, partition: int = 0, topic: str = "t", group: str = GROUP) -> int | None:
        committed = self.shard.offsets.get(group, topic, partition)
        return None if committed is None else committed.offset

    # -- whole stories -----------------------------------------------------------------

    @property
    def group(self) -> ClassicGroup:
        group = self.shard.groups[GROUP]
        assert isinstance(group, ClassicGroup)
        return group

    @property
    def state(self) -> ClassicGroupState:
        return self.group.state

    def form(self, count: int = 2, **more: Any) -> list[str]:
        """A stable group of new members; their ids, the leader first."""
        joins = [self.join(**more) for _ in range(count)]
        self.advance(self.config.group_initial_rebalance_delay_ms * (count + 1))
        answers: list[JoinResponse] = [join.answer for join in joins]
        assert all(answer.error == ErrorCode.NONE for answer in answers), answers
        ids = sorted((answer.member_id for answer in answers), key=lambda one: one != answers[0].leader)
        self.share(ids)
        return ids

    def share(self, ids: list[str]) -> None:
        """All members sync, the leader (first) last; everyone is assigned its own name."""
        generation = self.group.generation
        syncs = [self.sync(member, generation) for member in ids[1:]]
        assert all(sync.waits for sync in syncs)
        syncs.append(self.sync(ids[0], generation, {member: member.encode() for member in ids}))
        answers: list[SyncResponse] = [sync.answer for sync in syncs]
        assert [answer.assignment for answer in answers] == [one.encode() for one in [*ids[1:], ids[0]]]
        assert self.state is ClassicGroupState.STABLE
