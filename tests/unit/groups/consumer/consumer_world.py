"""A consumer group, its topics, its clock and its clients, all in a test's hands."""

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from tidelog.config import BrokerConfig
from tidelog.errors import ErrorCode, TidelogError
from tidelog.groups.consumer import heartbeats
from tidelog.groups.consumer.group import ConsumerGroup
from tidelog.groups.consumer.heartbeats import AWAY, JOIN, LEAVE, Heartbeat, HeartbeatResponse
from tidelog.groups.consumer.partitions import Partitions, partitions_of
from tidelog.groups.consumer.records import Update
from tidelog.groups.consumer.view import GroupContext
from tidelog.groups.effects import Now

START_MS = 1_700_000_000_000


def topic_id_of(name: str) -> UUID:
    return UUID(int=sum(letter << 8 * place for place, letter in enumerate(name.encode()[:16])) or 1)


class FakeTopics:
    """As a cluster image: never changed, only replaced."""

    def __init__(self, counts: dict[str, int], generation: dict[str, int] | None = None) -> None:
        self.counts = counts
        self.generation = generation or {}
        self.topics: dict[str, Any] = {}
        self.topic_names: dict[UUID, str] = {}
        self.group_configs: dict[str, dict[str, str]] = {}
        for name, count in counts.items():
            topic_id = UUID(int=topic_id_of(name).int ^ (self.generation.get(name, 0) << 120))
            self.topics[name] = SimpleNamespace(name=name, topic_id=topic_id, partitions=range(count))
            self.topic_names[topic_id] = name

    def made_anew(self, name: str) -> "FakeTopics":
        return FakeTopics(self.counts, {**self.generation, name: self.generation.get(name, 0) + 1})


class World:
    def __init__(self, topics: dict[str, int] | None = None, **settings: object) -> None:
        self.topics = FakeTopics({"t": 4} if topics is None else topics)
        values = {"group." + name.replace("_", "."): value for name, value in settings.items()}
        self.config = BrokerConfig.parse(values)  # type: ignore[arg-type]
        self.uptime_ms = 1000
        self.group = ConsumerGroup("g")
        self.log: list[Update] = []

    @property
    def view(self) -> GroupContext:
        return GroupContext(Now(self.uptime_ms, START_MS + self.uptime_ms), self.topics, self.config)

    def set_topics(self, **counts: int) -> None:
        self.topics = FakeTopics({**self.topics.counts, **counts}, self.topics.generation)

    def beat(self, member_id: str, epoch: int, **fields: Any) -> HeartbeatResponse:
        """One heartbeat; what it writes is in the log afterwards."""
        request = Heartbeat(member_id, epoch, "client", "/127.0.0.1", **fields)
        heartbeats.check(request, 1, self.config)
        before = self.group.everything()
        try:
            answer = heartbeats.heartbeat(self.group, request, self.view)
        except TidelogError:
            assert self.group.everything() == before, "a refusal changes nothing"
            assert self.group.take_updates() == []
            raise
        self.wrote()
        return answer

    def wrote(self) -> list[Update]:
        updates = self.group.take_updates()
        self.log += updates
        self.group.check_owners()
        return updates

    def refusal(self, member_id: str, epoch: int, **fields: Any) -> ErrorCode:
        try:
            self.beat(member_id, epoch, **fields)
        except TidelogError as refusal:
            return refusal.code
        return ErrorCode.NONE

    def join(self, member_id: str, *topics: str, **fields: Any) -> HeartbeatResponse:
        fields.setdefault("rebalance_timeout_ms", 60_000)
        wanted = None if "regex" in fields and not topics else topics or ("t",)
        return self.beat(member_id, JOIN, topics=wanted, owned={}, **fields)

    def pass_ms(self, ms: int) -> dict[str, Any]:
        """Let time pass; who is thrown out."""
        self.uptime_ms += ms
        missed = heartbeats.expire(self.group, self.view)
        self.wrote()
        return missed

    def replayed(self) -> ConsumerGroup:
        group = ConsumerGroup("g")
        for update in self.log:
            group.apply(update)
        return group

    def owners(self) -> dict[tuple[str, int], str]:
        """Who holds which partition, by the group's own records."""
        return {
            (self.topics.topic_names.get(topic_id, str(topic_id)), index): member_id
            for member_id, current in self.group.currents.items()
            for topic_id, epochs in current.held.items()
            for index in epochs
        }


class Client:
    """A consumer that does what the protocol asks of it, when the test lets it.

    What it was assigned and has not begun to read counts as its own, because it may begin at any time.
    """

    def __init__(self, world: World, member_id: str, *topics: str, **fields: Any) -> None:
        self.world = world
        self.member_id = member_id
        self.topics: tuple[str, ...] | None = topics or (None if "regex" in fields else ("t",))
        self.fields = fields
        self.epoch = JOIN
        self.owned: Partitions = {}
        self.assigned: Partitions = {}
        self.lose_answers = False
        self._unsure = True  # whether the last answer may have been lost

    def beat(self) -> None:
        """Send a heartbeat, and give up at once whatever the answer takes away."""
        told = self._say()
        try:
            answer = self.world.beat(self.member_id, self.epoch, **told)
        except TidelogError as refusal:
            assert refusal.code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID), refusal
            self.epoch, self.owned, self.assigned, self._unsure = JOIN, {}, {}, True
            return
        self._unsure = self.lose_answers
        if self.lose_answers:
            return
        self.epoch = answer.epoch
        if answer.assignment is not None:
            self.assigned = partitions_of(answer.assignment.items())
            # Gives up first; it takes what is new when the broker has heard that.
            self.owned = {
                topic_id: kept
                for topic_id, indexes in self.owned.items()
                if (kept := indexes & self.assigned.get(topic_id, frozenset()))
            }

    def take(self) -> None:
        """Begin to read everything it was assigned."""
        self.owned = self.assigned

    def _say(self) -> dict[str, Any]:
        own = partitions_of([*self.owned.items(), *self.assigned.items()])
        told: dict[str, Any] = {"owned": {} if self.epoch == JOIN else own}
        if self._unsure or self.epoch == JOIN:
            told |= {"rebalance_timeout_ms": 60_000, "topics": self.topics, **self.fields}
        return told

    def leave(self, *, for_good: bool = True) -> None:
        epoch = LEAVE if for_good else AWAY
        instance_id = self.fields.get("instance_id")
        self.world.beat(self.member_id, epoch, instance_id=instance_id)
        self.epoch, self.owned, self.assigned, self._unsure = JOIN, {}, {}, True


def settle(clients: Iterable[Client], rounds: int = 12) -> None:
    """Heartbeats all around until everybody has what they should have."""
    for _ in range(rounds):
        for client in clients:
            client.beat()
            client.take()
