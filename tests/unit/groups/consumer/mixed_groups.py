"""A shard with groups of both kinds: the harness of classic groups, with topics and with heartbeats."""

from collections.abc import Iterable
from typing import Any

from tidelog.errors import ErrorCode, TidelogError
from tidelog.groups.consumer import embedded
from tidelog.groups.consumer.group import ConsumerGroup
from tidelog.groups.consumer.heartbeats import JOIN, LEAVE, Heartbeat
from tidelog.groups.consumer.partitions import partitions_of
from tidelog.groups.effects import Effects, KeyValue, Reload
from tidelog.protocol.wire import INT16, INT32, write_array_size, write_string
from unit.groups.consumer.consumer_world import FakeTopics, topic_id_of
from unit.groups.group_harness import GROUP, Groups, Pending


class MixedGroups(Groups):
    def __init__(self, log: Iterable[tuple[KeyValue, int]] = (), **settings: object) -> None:
        self.reloads = 0
        super().__init__(log, **settings)
        self.topics = FakeTopics({"t": 4})
        self.shard.topics = lambda: self.topics

    def do(self, effects: Effects) -> None:
        self.reloads += sum(isinstance(effect, Reload) for effect in effects)
        super().do([effect for effect in effects if not isinstance(effect, Reload)])

    def beat(self, member_id: str, epoch: int, **fields: Any) -> Pending:
        request = Heartbeat(member_id, epoch, "client", "/127.0.0.1", **fields)
        return self.ask(lambda waiter, now: self.shard.consumer_heartbeat(GROUP, request, 1, waiter, now))

    def enter(self, member_id: str, *topics: str, **fields: Any) -> Pending:
        """A member that speaks the consumer protocol joins."""
        fields = {"rebalance_timeout_ms": 60_000, "owned": {}, "topics": topics or ("t",), **fields}
        return self.beat(member_id, JOIN, **fields)

    @property
    def consumer_group(self) -> ConsumerGroup:
        group = self.shard.groups[GROUP]
        assert isinstance(group, ConsumerGroup)
        return group


class NewMember:
    """Speaks the consumer protocol."""

    def __init__(self, groups: MixedGroups, member_id: str) -> None:
        self.groups = groups
        self.member_id = member_id
        self.epoch = JOIN
        self.held: set[int] = set()

    def beat(self) -> None:
        told: dict[str, Any] = {"owned": partitions_of([(topic_id_of("t"), self.held)])}
        pending = (
            self.groups.enter(self.member_id) if self.epoch == JOIN else
            self.groups.beat(self.member_id, self.epoch, **told)
        )  # fmt: skip
        answer = pending.answer
        assert not isinstance(answer, TidelogError), answer
        self.epoch = answer.epoch
        if answer.assignment is not None:
            self.held = set(answer.assignment.get(topic_id_of("t"), ()))

    def leave(self) -> None:
        self.groups.beat(self.member_id, LEAVE)


class OldMember:
    """Speaks the classic protocol; an eager one gives up everything before it joins."""

    def __init__(self, groups: MixedGroups, member_id: str = "", *, eager: bool = True, **more: Any) -> None:
        self.groups = groups
        self.member_id = member_id
        self.eager = eager
        self.more = more
        self.generation = -1
        self.held: set[int] = set()
        self.joining = Pending()

    @property
    def _protocols(self) -> tuple[tuple[str, bytes], ...]:
        owned = () if self.eager else (("t", tuple(sorted(self.held))),)
        return (("range" if self.eager else "cooperative-sticky", subscription("t", owned=owned)),)

    def join(self) -> Pending:
        if self.eager:
            self.held = set()
        self.joining = self.groups.join(self.member_id, **{"protocols": self._protocols, **self.more})
        return self.joining

    def joined(self, shares: "dict[str, list[int]] | None" = None) -> None:
        """Its JoinGroup is answered: it asks for its partitions, and hands out shares where it leads."""
        answer = self.joining.answer
        assert answer.error == ErrorCode.NONE, answer
        self.member_id, self.generation = answer.member_id, answer.generation
        assignments = {
            name: embedded.write_assignment(1, {"t": part}) for name, part in (shares or {}).items()
        }
        self.syncing = self.groups.sync(self.member_id, self.generation, assignments)

    def synced(self) -> ErrorCode:
        answer = self.syncing.answer
        if isinstance(answer, TidelogError):
            return answer.code
        named = dict(embedded.read_assignment(answer.assignment).partitions)
        before, self.held = self.held, set(named.get("t", ()))
        self.must_rejoin = not self.eager and bool(before - self.held)
        return ErrorCode(answer.error)

    def beat(self) -> None:
        """A heartbeat, and whatever follows from it."""
        error = self.groups.heartbeat(self.member_id, self.generation)
        while error == ErrorCode.REBALANCE_IN_PROGRESS or self.must_rejoin:
            self.join()
            self.joined()
            self.must_rejoin = False
            error = self.synced()
        assert error == ErrorCode.NONE, error

    must_rejoin = False


def subscription(*topics: str, version: int = 1, owned: embedded.NamedPartitions = ()) -> bytes:
    parts = [INT16.pack(version), write_array_size(len(topics), False)]
    parts += [write_string(topic, False) for topic in topics]
    parts.append(INT32.pack(-1))
    if version >= 1:
        parts.append(write_array_size(len(owned), False))
        for topic, partitions in owned:
            parts += [write_string(topic, False), write_array_size(len(partitions), False)]
            parts += map(INT32.pack, partitions)
    if version >= 2:
        parts.append(INT32.pack(7))
    if version >= 3:
        parts.append(write_string("rack", False))
    return b"".join(parts)
