"""A group under whatever members do: at most one generation holds partitions, and nobody is stuck.

Members are simple state machines that behave as clients do: they join, sync, send heartbeats, and start over
when they are told to. Chance decides when they act, who dies, stalls, leaves or loses an answer, when a write
is committed or refused, and when another coordinator takes over. Afterwards chance ends, and every member
that lives must come to share one generation.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.errors import ErrorCode
from tidelog.groups.classic.messages import JoinResponse, SyncResponse
from tidelog.groups.classic.states import ClassicGroupState
from unit.groups.group_harness import GROUP, Groups, Pending

SESSION_MS = 6_000
REBALANCE_MS = 9_000
PARTITIONS = 6


class Client:
    """One member, as far as a coordinator can tell."""

    def __init__(self, name: str, static: bool) -> None:
        self.name = name
        self.instance_id = name if static else None
        self.alive = True
        self.restart()

    def restart(self) -> None:
        self.member_id = ""
        self.generation = -1
        self.joining: Pending | None = None
        self.syncing: Pending | None = None
        self.assigned: bytes | None = None  # partitions it reads; None: none it knows of
        self.answer: JoinResponse | None = None

    @property
    def settled(self) -> bool:
        return self.assigned is not None

    def act(self, groups: Groups) -> None:
        """Whatever comes next for a client in its place."""
        if self.joining is not None:
            if not self.joining.waits:
                self._joined(self.joining.answer)
        elif self.syncing is not None:
            if not self.syncing.waits:
                self._synced(self.syncing.answer)
        elif self.answer is not None:
            self._sync(groups)
        elif self.assigned is None:
            self.joining = groups.join(
                self.member_id,
                instance_id=self.instance_id,
                session_timeout_ms=SESSION_MS,
                rebalance_timeout_ms=REBALANCE_MS,
                needs_known_id=self.instance_id is None,
            )
        else:
            error = groups.heartbeat(self.member_id, self.generation, self.instance_id)
            if error:
                self._told(error)

    def _joined(self, answer: object) -> None:
        self.joining = None
        if not isinstance(answer, JoinResponse):
            self._told(getattr(answer, "code", ErrorCode.UNKNOWN_SERVER_ERROR))
        elif answer.error == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
        elif answer.error:
            self._told(answer.error)
        else:
            self.member_id, self.generation, self.answer = answer.member_id, answer.generation, answer

    def _sync(self, groups: Groups) -> None:
        answer, self.answer = self.answer, None
        assert answer is not None
        shares: dict[str, list[int]] = {member.member_id: [] for member in answer.members}
        for partition in range(PARTITIONS if shares else 0):
            list(shares.values())[partition % len(shares)].append(partition)
        assignments = {member: bytes(share) for member, share in shares.items()}
        if answer.skip_assignment:
            assignments = {}
        self.syncing = groups.sync(
            self.member_id, self.generation, assignments, instance_id=self.instance_id, protocol="range"
        )

    def _synced(self, answer: object) -> None:
        self.syncing = None
        if not isinstance(answer, SyncResponse) or answer.error:
            self._told(getattr(answer, "code", getattr(answer, "error", ErrorCode.UNKNOWN_SERVER_ERROR)))
        else:
            self.assigned = answer.assignment

    def _told(self, error: ErrorCode) -> None:
        self.assigned = self.answer = None
        if error in (
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.FENCED_INSTANCE_ID,
            ErrorCode.UNKNOWN_SERVER_ERROR,
        ):
            self.member_id, self.generation = "", -1


class World:
    def __init__(self, clients: int, static: int) -> None:
        self.groups = Groups(group_initial_rebalance_delay_ms=300)
        self.clients = [Client(f"c{number}", number < static) for number in range(clients)]
        self.given: dict[int, dict[str, bytes]] = {}  # generation -> member -> partitions it was given

    def act(self, number: int) -> None:
        client = self.clients[number % len(self.clients)]
        if client.alive:
            client.act(self.groups)
            self.check(client)

    def go_on(self, rounds: int) -> None:
        """Everyone acts in turn while a little time passes."""
        for _ in range(rounds):
            for number in range(len(self.clients)):
                self.act(number)
            self.groups.advance(100)

    def check(self, client: Client) -> None:
        """In one generation no partition is given to two members, and no member hears two things."""
        if client.assigned is None:
            return
        given = self.given.setdefault(client.generation, {})
        assert given.setdefault(client.instance_id or client.member_id, client.assigned) == client.assigned
        partitions = [partition for share in given.values() for partition in share]
        assert len(partitions) == len(set(partitions)), (client.generation, given)

    def crash(self, number: int) -> None:
        """kill -9: it says nothing any more; perhaps it is started again."""
        client = self.clients[number % len(self.clients)]
        client.alive = False
        client.restart()

    def start(self, number: int) -> None:
        self.clients[number % len(self.clients)].alive = True

    def leave(self, number: int) -> None:
        client = self.clients[number % len(self.clients)]
        if client.member_id:
            self.groups.leave((client.member_id, client.instance_id))
        self.crash(number)

    def lose_answer(self, number: int) -> None:
        """The connection breaks; the client asks again with what it knows."""
        client = self.clients[number % len(self.clients)]
        client.joining = client.syncing = None
        client.answer = client.assigned = None

    def stall(self, milliseconds: int) -> None:
        """Time passes and nobody acts."""
        self.groups.advance(milliseconds)

    def hold(self, _: int) -> None:
        self.groups.held = True

    def commit(self, _: int) -> None:
        self.groups.held = False
        self.groups.commit()

    def refuse(self, _: int) -> None:
        self.groups.refusal = ErrorCode.COORDINATOR_NOT_AVAILABLE
        self.commit(0)
        self.groups.refusal = ErrorCode.NONE

    def fail_over(self, _: int) -> None:
        """Another coordinator, with what is committed. Waiting requests end with NOT_COORDINATOR."""
        old = self.groups
        old.do(old.shard.stop())
        self.groups = old.successor(group_initial_rebalance_delay_ms=300)
        self.groups._ids = old._ids + 1
        # Their writes were never committed, so neither the old nor the new coordinator answers for them.
        for client in self.clients:
            for pending in (client.joining, client.syncing):
                if pending is not None and pending.waits:
                    pending.answers.append(JoinResponse(ErrorCode.NOT_COORDINATOR))

    def settle(self) -> None:
        """Chance ends: writes are committed, and everyone goes on as often as it should."""
        self.commit(0)
        for _ in range(300):
            if self._synced():
                return
            self.groups.advance(200)
            for number in range(len(self.clients)):
                self.act(number)
        raise AssertionError(f"stuck: {self.story()}")

    def _synced(self) -> bool:
        """All share the group's generation, and there is nobody else in it."""
        group = self.groups.shard.groups.get(GROUP)
        return (
            group is not None
            and self.groups.state is ClassicGroupState.STABLE
            and len(self.groups.group.members) == len(self.clients)
            and all(
                client.settled and client.generation == self.groups.group.generation
                for client in self.clients
            )
        )

    def story(self) -> str:
        members = {name: bool(member.join_waiter) for name, member in self.groups.group.members.items()}
        clients = [
            (client.name, client.member_id, client.generation, client.settled) for client in self.clients
        ]
        return f"{self.groups.state} {self.groups.group.generation} {members} {clients}"


STEPS = st.one_of(
    st.tuples(st.just("act"), st.integers(0, 5)),
    st.tuples(st.just("go_on"), st.integers(1, 20)),
    st.tuples(st.just("go_on"), st.integers(1, 20)),
    st.tuples(st.just("stall"), st.integers(1, 1000)),
    st.tuples(st.just("stall"), st.integers(1000, 12_000)),
    st.tuples(st.sampled_from(["crash", "start", "leave", "lose_answer"]), st.integers(0, 5)),
    st.tuples(st.sampled_from(["hold", "commit", "refuse", "fail_over"]), st.just(0)),
)


@settings(max_examples=200, deadline=None)
@given(clients=st.integers(1, 5), static=st.integers(0, 3), steps=st.lists(STEPS, max_size=40))
@pytest.mark.slow
def test_one_generation_and_nobody_stuck(clients: int, static: int, steps: list[tuple[str, int]]) -> None:
    world = World(clients, static)
    for step, argument in steps:
        getattr(world, step)(argument)
    for client in world.clients:
        client.alive = True
    world.settle()
    holders = [partition for client in world.clients for partition in client.assigned or b""]
    assert sorted(holders) == list(range(PARTITIONS)), world.story()
