"""Any story of joins, losses, silences and changing topics: no partition is ever with two clients, everything
finds an owner in the end, and the log tells the same story.
"""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tidelog.groups.consumer.group import ConsumerGroup
from tidelog.groups.consumer.record_format import decode, encode
from unit.groups.consumer.consumer_world import Client, World, settle

pytestmark = pytest.mark.slow

SUBSCRIPTIONS = (("t",), ("t", "u"), ("u",), ("u", "v"), ("none",))


class Story(RuleBasedStateMachine):
    @initialize(assignors=st.sampled_from(["uniform", "range", "uniform,range"]))
    def begin(self, assignors: str) -> None:
        self.world = World({"t": 3, "u": 5}, consumer_assignors=assignors)
        self.clients: list[Client] = []
        self.names = 0

    def _add(self, client: Client) -> None:
        self.clients.append(client)
        client.beat()

    @precondition(lambda self: len(self.clients) < 6)
    @rule(topics=st.sampled_from(SUBSCRIPTIONS))
    def a_member_joins(self, topics: tuple[str, ...]) -> None:
        self.names += 1
        self._add(Client(self.world, f"m{self.names}", *topics))

    @precondition(lambda self: len(self.clients) < 6)
    @rule(pattern=st.sampled_from(["t|v", ".", "u.*"]))
    def a_member_joins_with_a_pattern(self, pattern: str) -> None:
        self.names += 1
        self._add(Client(self.world, f"m{self.names}", regex=pattern))

    @precondition(lambda self: len(self.clients) < 6)
    @rule(topics=st.sampled_from(SUBSCRIPTIONS))
    def a_static_member_joins(self, topics: tuple[str, ...]) -> None:
        self.names += 1
        self._add(Client(self.world, f"m{self.names}", *topics, instance_id=f"i{self.names}"))

    @precondition(lambda self: self.clients)
    @rule(which=st.integers(0, 5), take=st.booleans(), lose=st.booleans())
    def a_heartbeat(self, which: int, take: bool, lose: bool) -> None:
        client = self.clients[which % len(self.clients)]
        client.lose_answers = lose
        client.beat()
        if take:
            client.take()

    @precondition(lambda self: self.clients)
    @rule(which=st.integers(0, 5))
    def a_member_leaves(self, which: int) -> None:
        client = self.clients.pop(which % len(self.clients))
        if client.member_id in self.world.group.members:
            client.leave()

    @precondition(lambda self: self.clients)
    @rule(which=st.integers(0, 5))
    def a_static_member_restarts(self, which: int) -> None:
        client = self.clients[which % len(self.clients)]
        if client.fields.get("instance_id") and client.member_id in self.world.group.members:
            client.leave(for_good=False)
            self.names += 1
            client.member_id = f"m{self.names}"

    @precondition(lambda self: self.clients)
    @rule(which=st.integers(0, 5), topics=st.sampled_from(SUBSCRIPTIONS))
    def a_subscription_changes(self, which: int, topics: tuple[str, ...]) -> None:
        client = self.clients[which % len(self.clients)]
        client.topics = topics
        client.fields = {**client.fields, "regex": ""}
        client._unsure = True
        client.beat()

    @rule(topic=st.sampled_from(["t", "u", "v"]), more=st.integers(1, 2))
    def a_topic_grows(self, topic: str, more: int) -> None:
        self.world.set_topics(**{topic: self.world.topics.counts.get(topic, 0) + more})

    @rule(topic=st.sampled_from(["t", "u"]))
    def a_topic_is_made_anew(self, topic: str) -> None:
        self.world.topics = self.world.topics.made_anew(topic)

    @rule(seconds=st.integers(1, 50))
    def time_passes(self, seconds: int) -> None:
        thrown_out = self.world.pass_ms(seconds * 1000)
        for client in self.clients:
            if client.member_id in thrown_out:
                # It has not been able to reach the broker for as long, and stops by itself.
                client.owned = {}

    @rule()
    def everything_settles(self) -> None:
        for client in self.clients:
            client.lose_answers = False
        for _ in range(3):
            # Who is gone without a word is thrown out; the others are heard of.
            self.world.pass_ms(20_000)
            settle(self.clients, rounds=4)
        if self.clients:
            assert self.world.group.state_name == "Stable"
        wanted = {
            (name, index)
            for member in self.world.group.members.values()
            for name in (*member.topics, *(self._matches(member.regex)))
            for index in range(self.world.topics.counts.get(name, 0))
        }
        assert set(self.world.owners()) == wanted

    def _matches(self, pattern: str | None) -> tuple[str, ...]:
        return self.world.group.regexes[pattern].topics if pattern else ()

    @invariant()
    def nobody_shares_a_partition(self) -> None:
        seen: dict[tuple[object, int], str] = {}
        for client in getattr(self, "clients", []):
            for topic_id, indexes in client.owned.items():
                for index in indexes:
                    assert seen.setdefault((topic_id, index), client.member_id) == client.member_id

    def teardown(self) -> None:
        """The log tells the same, also when it was compacted, as bytes."""
        if not hasattr(self, "world"):
            return
        group = self.world.group
        assert _facts(self.world.replayed()) == _facts(group)
        newest = {encode("g", update)[0]: encode("g", update) for update in self.world.log}
        compacted = ConsumerGroup("g")
        for key, value in newest.values():
            compacted.apply(decode(key, value)[1])
        assert _facts(compacted) == _facts(group)


def _facts(group: ConsumerGroup) -> tuple[object, ...]:
    records = {(update.kind, update.name): update.value for update in group.everything()}
    return records, group.instances, group.state_name, group._owners


Story.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestStory = Story.TestCase
