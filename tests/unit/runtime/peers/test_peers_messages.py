"""Every message between nodes, over real sockets: what one says is what the other hears."""

from typing import Any, get_args
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.broker.node.ports import Answered, Asked, NodeMessage
from tidelog.controller.endpoints import Endpoint
from tidelog.controller.leader_assignment import InSyncProposal
from tidelog.controller.messages import (
    ControllerAsk,
    ControllerGot,
    HeartbeatAsk,
    HeartbeatGot,
    InSyncAsk,
    InSyncGot,
    OfflineAsk,
    OfflineGot,
    PromiseConfirmedAsk,
    PromiseConfirmedGot,
    RegisterAsk,
    RegisterGot,
)
from tidelog.controller.promises import ConfirmedPromise
from tidelog.errors import ErrorCode
from tidelog.protocol import messages, requests
from tidelog.replication.messages import (
    Bytes,
    FetchAsk,
    FetchGot,
    FetchItem,
    FetchPart,
    LeaderBegan,
    Message,
    SnapshotAsk,
    SnapshotGot,
    VoteRequested,
    VoteResponded,
)
from tidelog.replication.votes import Tail, VoteRequest, VoteResponse
from tidelog.runtime.peers import exchanges
from tidelog.runtime.peers.exchanges import exchange_of
from tidelog.types import METADATA_TOPIC_ID, SnapshotId
from unit.runtime.peers.loopback import LoopbackCluster, LoopbackNode, on_loop, until

METADATA = (METADATA_TOPIC_ID, 0)
TOPIC = UUID("7e5e0000-0000-4000-8000-0000000000ff")
DISK = UUID(int=0xD15C)
SNAPSHOT = SnapshotId(1 << 33, 4)


def proposal(broker: int = 1, index: int = 0, members: tuple[int, ...] = (1, 2)) -> InSyncProposal:
    return InSyncProposal(broker, 77, TOPIC, index, 5, 6, members, tuple(10 + each for each in members))


def fetch_ask(sender: int, generation: int, since: int = 0) -> FetchAsk:
    items = [FetchItem((TOPIC, index), 5, 100 + index, 4, 7, 90) for index in range(2)]
    return FetchAsk(sender, 77, generation, since, items, [(TOPIC, 9)], 300, 1 << 20, DISK)


PARTS = [
    FetchPart((TOPIC, 0), 100, ErrorCode.NONE, 5, 2, 91, 7, Bytes(b"some records"), None),
    FetchPart((TOPIC, 1), 101, ErrorCode.NOT_LEADER_OR_FOLLOWER, 6, 3),
    FetchPart((TOPIC, 2), 102, ErrorCode.NONE, 5, 2, 91, 7, None, (3, 50)),
    FetchPart((TOPIC, 3), 103, ErrorCode.OFFSET_OUT_OF_RANGE, 5, 2, 91, 7, None, None, SNAPSHOT),
]
FIRST = 1 << 40
UNKNOWN = ErrorCode.FETCH_SESSION_ID_NOT_FOUND
TAKEN = ErrorCode.DUPLICATE_BROKER_REGISTRATION

Pair = tuple[NodeMessage, NodeMessage]


CONFIRMED = (
    ConfirmedPromise(DISK, 1, 3, synced=True),
    ConfirmedPromise(TOPIC, 0, 3, synced=True),
    ConfirmedPromise(TOPIC, 2, 3, copied=True),
    ConfirmedPromise(TOPIC, 3, 70_000, synced=True, copied=True),
)


def pairs(me: int, other: int) -> dict[str, Pair]:
    """What one node asks another, and what that one answers."""
    return {
        "fetch": (fetch_ask(me, FIRST), FetchGot(other, FIRST, ErrorCode.NONE, PARTS)),
        "fetch anew": (fetch_ask(me, FIRST + 1, FIRST), FetchGot(other, FIRST + 1, UNKNOWN, [])),
        "pre-vote": (
            VoteRequested(me, METADATA, VoteRequest(9, me, Tail(8, 1000), True, DISK, UUID(int=2))),
            VoteResponded(other, METADATA, VoteResponse(other, 9, True, -1, True)),
        ),
        "vote": (
            VoteRequested(me, (TOPIC, 3), VoteRequest(10, me, Tail(-1, 0), False)),
            VoteResponded(other, (TOPIC, 3), VoteResponse(other, 12, False, 3, False)),
        ),
        "vote of a readmitted voter": (
            VoteRequested(me, (TOPIC, 3), VoteRequest(10, me, Tail(4, 90), False, heals=70_000)),
            VoteResponded(other, (TOPIC, 3), VoteResponse(other, 10, True, -1, False)),
        ),
        "vote of a voter whose log begins later": (
            VoteRequested(me, (TOPIC, 3), VoteRequest(10, me, Tail(4, 90), False)),
            VoteResponded(other, (TOPIC, 3), VoteResponse(other, 10, True, -1, False, 70)),
        ),
        "registration": (
            Asked(me, RegisterAsk(me, DISK, "localhost", 9092, None, False, None)),
            Answered(other, RegisterGot(me, DISK, ErrorCode.NONE, 77)),
        ),
        "refused registration": (
            Asked(me, RegisterAsk(me, TOPIC, "a.example", 1, "räck", True, DISK, (("a.setting", 2),))),
            Answered(other, RegisterGot(me, TOPIC, TAKEN, -1)),
        ),
        "registration with an address for each listener": (
            Asked(
                me,
                RegisterAsk(
                    me,
                    DISK,
                    "10.0.0.1",
                    9093,
                    None,
                    False,
                    None,
                    endpoints=(Endpoint("INSIDE", "a", 9092), Endpoint("OUTSIDE", "b.example", 9094, 3)),
                ),
            ),
            Answered(other, RegisterGot(me, DISK, ErrorCode.NONE, 77)),
        ),
        "registration of a process that knows of none": (
            Asked(me, RegisterAsk(me, DISK, "localhost", 9092, None, False, None, known_epoch=0)),
            Answered(other, RegisterGot(me, DISK, ErrorCode.STALE_BROKER_EPOCH, 77)),
        ),
        "registration of a process that forgot": (
            Asked(me, RegisterAsk(me, DISK, "localhost", 9092, None, True, None, known_epoch=0)),
            Answered(other, RegisterGot(me, DISK, ErrorCode.NONE, 78)),
        ),
        "registration of a process that knows of another": (
            Asked(me, RegisterAsk(me, DISK, "localhost", 9092, None, False, None, known_epoch=1 << 40)),
            Answered(other, RegisterGot(me, DISK, ErrorCode.NONE, 78)),
        ),
        "registration of a process that knows of another and forgot": (
            Asked(me, RegisterAsk(me, DISK, "localhost", 9092, None, True, None, known_epoch=77)),
            Answered(other, RegisterGot(me, DISK, ErrorCode.NONE, 78)),
        ),
        "heartbeat": (
            Asked(me, HeartbeatAsk(me, 77, 1234)),
            Answered(other, HeartbeatGot(me, 77, ErrorCode.NONE, True)),
        ),
        "last heartbeat": (
            Asked(me, HeartbeatAsk(me, 78, 1234, True)),
            Answered(other, HeartbeatGot(me, 78, ErrorCode.NOT_CONTROLLER, False, True)),
        ),
        "in-sync set": (
            Asked(me, InSyncAsk(proposal(me, 0, (1, 2, 3)))),
            Answered(other, InSyncGot(proposal(me, 0, (1, 2, 3)), ErrorCode.INELIGIBLE_REPLICA)),
        ),
        "failed logs": (
            Asked(me, OfflineAsk(me, 77, ((DISK, 1), (TOPIC, 0), (TOPIC, 3)), True)),
            Answered(other, OfflineGot(me, 77, ((DISK, 1), (TOPIC, 0), (TOPIC, 3)), ErrorCode.NONE, True)),
        ),
        "unwritable logs": (
            Asked(me, OfflineAsk(me, 77, ((TOPIC, 3),), unwritable=True)),
            Answered(other, OfflineGot(me, 77, ((TOPIC, 3),), ErrorCode.NONE, unwritable=True)),
        ),
        "damaged logs": (
            Asked(me, OfflineAsk(me, 77, ((TOPIC, 3),))),
            Answered(other, OfflineGot(me, 77, ((TOPIC, 3),), ErrorCode.NONE)),
        ),
        "damaged logs, with epochs": (
            Asked(me, OfflineAsk(me, 77, ((DISK, 1), (TOPIC, 3)), partition_epochs=(5, 0))),
            Answered(other, OfflineGot(me, 77, ((DISK, 1), (TOPIC, 3)), ErrorCode.INVALID_UPDATE_VERSION)),
        ),
        "confirmed promises": (
            Asked(me, PromiseConfirmedAsk(me, 77, CONFIRMED)),
            Answered(other, PromiseConfirmedGot(me, 77, CONFIRMED, ErrorCode.STALE_BROKER_EPOCH)),
        ),
        "snapshot": (
            SnapshotAsk(me, METADATA, 5, DISK, SNAPSHOT, 4096, 1 << 20),
            SnapshotGot(other, METADATA, ErrorCode.NONE, 5, 2, SNAPSHOT, 10_000, 4096, b"a piece"),
        ),
        "no snapshot": (
            SnapshotAsk(me, METADATA, 5, None, SNAPSHOT, 0, 1 << 20),
            SnapshotGot(other, METADATA, ErrorCode.SNAPSHOT_NOT_FOUND, 6, 3, SNAPSHOT, 0, 0, b""),
        ),
    }


PAIRS = pairs(1, 2)


def plain(message: Any) -> Any:
    """Comparable: records as their bytes."""
    if isinstance(message, FetchGot):
        return message._replace(
            parts=[
                part if part.records is None else part._replace(records=bytes(part.records.read()))  # type: ignore[arg-type]
                for part in message.parts
            ]
        )
    if isinstance(message, SnapshotGot):
        return message._replace(data=bytes(message.data))
    return message


def answering(node: LoopbackNode, *pairs: Pair) -> None:
    """Answer each of these questions when it comes."""
    answers = {repr(ask): got for ask, got in pairs}

    def answer(message: NodeMessage) -> None:
        if repr(message) in answers:
            node.peers.send(message.sender, answers[repr(message)])

    node.on_message = answer


@pytest.mark.parametrize("name", PAIRS)
@on_loop
async def test_a_question_and_its_answer(name: str) -> None:
    ask, got = PAIRS[name]
    async with LoopbackCluster(2) as (one, two):
        answering(two, (ask, got))
        one.peers.send(2, ask)
        await until(lambda: one.received)
        assert two.received == [ask]
        assert [plain(message) for message in one.received] == [plain(got)]
        assert one.lost == two.lost == []


@on_loop
async def test_all_of_them_at_once_between_three_nodes() -> None:
    async with LoopbackCluster(3) as nodes:
        ids = [node.node_id for node in nodes]
        for node in nodes:
            others = [other for other in ids if other != node.node_id]
            answering(node, *(pair for other in others for pair in pairs(other, node.node_id).values()))
            for other in others:
                for ask, _ in pairs(node.node_id, other).values():
                    node.peers.send(other, ask)
        for node in nodes:
            wanted = [
                repr(plain(got))
                for other in ids
                if other != node.node_id
                for _, got in pairs(node.node_id, other).values()
            ]
            await until(lambda node=node, wanted=wanted: sorted(_answers(node)) == sorted(wanted))  # type: ignore[misc]


def _answers(node: LoopbackNode) -> list[str]:
    kinds = (FetchGot, VoteResponded, Answered, SnapshotGot)
    return [repr(plain(message)) for message in node.received if isinstance(message, kinds)]


@on_loop
async def test_votes_and_proposals_of_one_moment_share_a_request() -> None:
    async with LoopbackCluster(2) as (one, two):
        ask = VoteRequest(9, 1, Tail(8, 1000), True)
        for index in range(100):
            one.peers.send(2, VoteRequested(1, (TOPIC, index), ask))
            one.peers.send(2, Asked(1, InSyncAsk(proposal(1, index))))

        def answer(message: NodeMessage) -> None:
            if isinstance(message, VoteRequested):
                got = VoteResponded(2, message.key, VoteResponse(2, 9, True, -1, True))
                two.peers.send(1, got)
            elif isinstance(message, Asked) and isinstance(message.ask, InSyncAsk):
                two.peers.send(1, Answered(2, InSyncGot(message.ask.proposal, ErrorCode.NONE)))

        two.on_message = answer
        await until(lambda: len(one.received) == 200)
        assert two.server.requests == 2
        granted = [message.key for message in one.received if isinstance(message, VoteResponded)]
        assert granted == [(TOPIC, index) for index in range(100)]


@on_loop
async def test_a_new_leader_needs_no_answer() -> None:
    async with LoopbackCluster(2) as (one, two):
        began = [LeaderBegan(1, METADATA, 7), LeaderBegan(1, (TOPIC, 3), 8)]
        for message in began:
            one.peers.send(2, message)
        await until(lambda: two.received == began)
        await until(lambda: all(connection.idle for connection in two.server.connections))
        assert one.received == []


@on_loop
async def test_a_heartbeat_does_not_wait_for_a_vote() -> None:
    async with LoopbackCluster(2) as (one, two):
        vote, granted = PAIRS["pre-vote"]
        heartbeat, got = PAIRS["heartbeat"]
        answering(two, (heartbeat, got))
        one.peers.send(2, vote)
        await until(lambda: two.received == [vote])
        one.peers.send(2, heartbeat)
        await until(lambda: one.received == [got])
        two.peers.send(1, granted)
        await until(lambda: one.received == [got, granted])


@on_loop
async def test_an_older_ask_is_let_go_when_a_newer_one_comes() -> None:
    """A follower has one ask standing; whoever forgot to answer the one before leaves nothing behind."""
    async with LoopbackCluster(2) as (one, two):
        one.peers.send(2, fetch_ask(1, 5))
        await until(lambda: len(two.received) == 1)
        one.peers.send(2, fetch_ask(1, 6, 5))
        await until(lambda: one.received)
        assert one.received == [FetchGot(2, 5, ErrorCode.NONE, [])]
        two.peers.send(1, FetchGot(2, 6, ErrorCode.NONE, PARTS[1:2]))
        await until(lambda: len(one.received) == 2)


@on_loop
async def test_what_nobody_answers_is_answered_with_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidelog.runtime.peers.inbound.RESPOND_WITHIN_MS", 30)
    silent = [PAIRS[name] for name in ("pre-vote", "registration", "in-sync set")]
    async with LoopbackCluster(2) as (one, two):
        for ask, _ in silent:
            one.peers.send(2, ask)
        await until(lambda: len(one.received) == 2)
        late = {message.got.error for message in one.received if isinstance(message, Answered)}
        assert late == {ErrorCode.REQUEST_TIMED_OUT}
        # Late words find nobody, and do no harm.
        for _, got in silent:
            two.peers.send(1, got)
        answering(two, PAIRS["heartbeat"])
        one.peers.send(2, PAIRS["heartbeat"][0])
        await until(lambda: len(one.received) == 3)


@on_loop
async def test_a_node_of_another_cluster_is_refused() -> None:
    async with LoopbackCluster(2) as (one, two):
        one.cluster_id = "elsewhere"
        for name in ("fetch", "pre-vote", "registration", "snapshot"):
            one.peers.send(2, PAIRS[name][0])
        await until(lambda: one.received)
        (refused,) = one.received
        assert isinstance(refused, Answered)
        assert refused.got.error is ErrorCode.INCONSISTENT_CLUSTER_ID
        assert two.received == []


@on_loop
async def test_a_node_without_a_cluster_is_let_in() -> None:
    async with LoopbackCluster(2) as (one, two):
        one.cluster_id = ""
        known = [PAIRS[name] for name in ("fetch", "pre-vote", "registration")]
        answering(two, *known)
        for ask, _ in known:
            one.peers.send(2, ask)
        await until(lambda: len(one.received) == 3)


def test_every_message_has_a_way() -> None:
    """All that nodes can say to each other, but fetches."""
    said = {*get_args(Message), *get_args(ControllerAsk), *get_args(ControllerGot)}
    assert said - {FetchAsk, FetchGot} == {*exchanges._BY_TYPE}


@settings(max_examples=50)
@given(
    st.lists(
        st.builds(
            VoteRequested,
            st.just(1),
            st.tuples(st.sampled_from([METADATA_TOPIC_ID, TOPIC, DISK]), st.integers(0, 3)),
            st.builds(
                VoteRequest,
                st.integers(0, 1 << 30),
                st.just(1),
                st.builds(Tail, st.integers(-1, 1 << 30), st.integers(0, 1 << 60)),
                st.booleans(),
                st.none() | st.just(DISK),
                st.none() | st.just(TOPIC),
                st.integers(-1, 1 << 60),
            ),
        ),
        min_size=1,
        unique_by=lambda asked: asked.key,
    )
)
def test_any_votes_together(asks: list[VoteRequested]) -> None:
    exchange = exchange_of(asks[0])
    body = requests.encode_request(52, 1, "x", exchange.body(2, "", asks))
    found = exchange.asks(messages.decode(52, 2, memoryview(body), 16))
    assert sorted(found, key=repr) == sorted(asks, key=repr)
    gots = [
        VoteResponded(2, ask.key, VoteResponse(2, ask.request.epoch, True, -1, ask.request.pre))
        for ask in found
    ]
    frame = messages.encode(52, 2, 1, exchange.response(found, gots))
    back = list(exchange.gots(2, asks, requests.decode_response(52, memoryview(frame)[4:])))
    assert sorted(back, key=repr) == sorted(gots, key=repr)
