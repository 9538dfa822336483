"""Requests for the active controller, sent to another broker; and requests between brokers."""

import asyncio
import socket
import struct
from collections.abc import Callable
from typing import Any

import pytest

from interop.wire import API_KEYS, Wire, request_bytes
from tidelog.broker.links import to_controller
from tidelog.broker.links.to_controller import RELAYED, ask_controller, create_topic
from tidelog.controller.topics import NewTopic
from tidelog.errors import ErrorCode, TidelogError
from tidelog.protocol import messages
from tidelog.protocol.kio_import import api_key_map
from tidelog.runtime.peers.links import WireLinks
from tidelog.runtime.receiver import PLAIN_BYTES_MAX
from unit.runtime.peers.loopback import LoopbackCluster, LoopbackNode, on_loop, until

TOPIC = {"name": "orders", "num_partitions": 2, "replication_factor": 1}


async def call(node: LoopbackNode, api: str, version: int, **values: Any) -> Any:
    def ask() -> Any:
        with Wire(node.bootstrap) as wire:
            return wire.call(api, version, **values)

    return await asyncio.to_thread(ask)


def follow(*nodes: LoopbackNode) -> None:
    """From now on these nodes learn what is decided a moment later."""

    def look() -> None:
        for node in nodes:
            node.store.catch_up()
        asyncio.get_running_loop().call_later(0.02, look)

    look()


def _of_size(size: int) -> dict[str, Any]:
    """A CreateTopics request of so many bytes, filled with settings that do not exist."""

    def values(lengths: list[int]) -> dict[str, Any]:
        configs = [{"name": f"no.{number}", "value": "x" * length} for number, length in enumerate(lengths)]
        return {"topics": [{**TOPIC, "configs": configs}], "timeout": 60_000}

    lengths = [30_000] * (size // 30_020 - 1)
    missing = size - len(request_bytes("create_topics", 4, 1, "wire", values([*lengths, 0, 0])))
    lengths += [missing // 2, missing - missing // 2]
    return values(lengths)


class TestRelay:
    @pytest.mark.parametrize("version", range(2, 8))
    @on_loop
    async def test_a_topic_made_through_another_broker_is_there_when_it_answers(self, version: int) -> None:
        async with LoopbackCluster(2, controller=1) as (one, two):
            follow(two)
            answer = await call(two, "create_topics", version, topics=[TOPIC], timeout=10_000)
            assert [topic.error_code for topic in answer.topics] == [0]
            assert "orders" in two.store.image.topics
            assert one.server.requests == 1

    @pytest.mark.parametrize("size", [PLAIN_BYTES_MAX, PLAIN_BYTES_MAX - 20, PLAIN_BYTES_MAX - 1000])
    @on_loop
    async def test_as_large_a_request_as_a_broker_takes(self, size: int) -> None:
        """The envelope around it is larger than that."""
        async with LoopbackCluster(2, controller=1) as (one, two):
            follow(two)
            answer = await call(two, "create_topics", 4, **_of_size(size))
            assert [topic.error_code for topic in answer.topics] == [ErrorCode.INVALID_CONFIG]
            assert one.server.requests == 1

    @on_loop
    async def test_the_controller_itself_passes_nothing_on(self) -> None:
        async with LoopbackCluster(2, controller=1) as (one, two):
            answer = await call(one, "create_topics", 7, topics=[TOPIC], timeout=10_000)
            assert answer.topics[0].error_code == 0
            assert two.server.requests == 0

    @on_loop
    async def test_refusals_come_back_as_they_are(self) -> None:
        async with LoopbackCluster(2, controller=1) as (_, two):
            follow(two)
            answer = await call(two, "create_topics", 7, topics=[{**TOPIC, "name": "no/name"}], timeout=9000)
            assert answer.topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
            assert answer.topics[0].error_message

    @on_loop
    async def test_waits_for_the_next_controller(self) -> None:
        async with LoopbackCluster(3, controller=1) as (one, two, three):
            follow(two, three)
            one.cluster.appoint(-1)
            asked = asyncio.create_task(call(three, "create_topics", 7, topics=[TOPIC], timeout=20_000))
            await until(lambda: three.server.requests)
            three.store.leader = 2  # It only looks like one.
            await until(lambda: two.server.requests)
            one.cluster.appoint(1)
            answer = await asked
            assert answer.topics[0].error_code == 0

    @on_loop
    async def test_goes_to_the_next_controller_when_the_first_dies(self) -> None:
        async with LoopbackCluster(3, controller=1) as (one, two, three):
            follow(two, three)
            one.relay.open = lambda *_: None
            asked = asyncio.create_task(call(three, "create_topics", 7, topics=[TOPIC], timeout=20_000))
            await until(lambda: one.server.requests)
            await one.die()
            one.cluster.appoint(2)
            answer = await asked
            assert answer.topics[0].error_code == 0

    @pytest.mark.parametrize("asked", [0, 2])
    @on_loop
    async def test_a_controller_that_is_replaced_before_it_has_decided(self, asked: int) -> None:
        """Its own client's request is forwarded, and a forwarded one goes to the next controller."""
        async with LoopbackCluster(3, controller=1) as nodes:
            one = nodes[0]
            follow(*nodes)
            submitted = []

            def replaced(decide: Any, done: Callable[[TidelogError], None]) -> None:
                submitted.append(decide)
                one.cluster.appoint(2)
                done(TidelogError("the active controller has changed", ErrorCode.NOT_CONTROLLER))

            one.store.submit = replaced  # type: ignore[method-assign]
            answer = await call(nodes[asked], "create_topics", 7, topics=[TOPIC], timeout=20_000)
            assert answer.topics[0].error_code == 0
            assert len(submitted) == 1

    @on_loop
    async def test_a_replaced_controller_keeps_to_the_clients_timeout(self) -> None:
        async with LoopbackCluster(2, controller=1) as (one, _):
            refusal = TidelogError("the active controller has changed", ErrorCode.NOT_CONTROLLER)
            one.store.submit = lambda decide, done: done(refusal)  # type: ignore[method-assign]
            answer = await call(one, "create_topics", 7, topics=[TOPIC], timeout=200)
            assert answer.topics[0].error_code == ErrorCode.REQUEST_TIMED_OUT

    @on_loop
    async def test_who_becomes_the_controller_meanwhile_does_it_itself(self) -> None:
        async with LoopbackCluster(2, controller=1) as (one, two):
            one.cluster.appoint(-1)
            asked = asyncio.create_task(call(two, "create_topics", 7, topics=[TOPIC], timeout=20_000))
            await until(lambda: two.server.requests)
            one.cluster.appoint(2)
            answer = await asked
            assert answer.topics[0].error_code == 0
            assert one.server.requests == 0

    @on_loop
    async def test_brokers_that_take_each_other_for_the_controller_do_not_play_ball(self) -> None:
        async with LoopbackCluster(2, controller=1) as (one, two):
            one.store.active = False
            one.store.leader = 2
            answer = await call(two, "create_topics", 7, topics=[TOPIC], timeout=300)
            assert answer.topics[0].error_code == ErrorCode.REQUEST_TIMED_OUT
            assert 2 <= one.server.requests < 40

    @on_loop
    async def test_answers_leave_in_the_order_of_the_requests(self) -> None:
        async with LoopbackCluster(2, controller=1) as (one, two):
            follow(two)
            one.cluster.appoint(-1)

            def ask() -> list[bytes]:
                with Wire(two.bootstrap) as wire:
                    first = wire.send("create_topics", 7, topics=[TOPIC], timeout=20_000)
                    second = wire.send("metadata", 12, topics=[])
                    wire.receive("create_topics", 7, first)
                    wire.receive("metadata", 12, second)
                return []

            asked = asyncio.create_task(asyncio.to_thread(ask))
            await until(lambda: two.server.requests == 1)
            one.cluster.appoint(1)
            await asked

    @on_loop
    async def test_who_hangs_up_is_forgotten(self) -> None:
        async with LoopbackCluster(1, controller=1) as (one,):
            one.cluster.appoint(-1)
            wire = await asyncio.to_thread(Wire, one.bootstrap)
            await asyncio.to_thread(lambda: wire.send("create_topics", 7, topics=[TOPIC], timeout=60_000))
            await until(lambda: one.server.requests)
            # Reset, not only closed: who closes its side may still read.
            wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            wire.socket.close()
            await until(lambda: not one.server.connections)
            one.cluster.appoint(1)
            await asyncio.sleep(0.1)
            assert "orders" not in one.store.image.topics


SAMPLES: dict[int, dict[str, Any]] = {
    19: {"topics": [TOPIC], "timeout": 0},
    20: {"topics": [{"name": "a"}, {"name": "b"}], "topic_names": ["a", "b"], "timeout": 0},
    33: {"resources": [{"resource_type": 2, "resource_name": "a", "configs": []}]},
    37: {"topics": [{"name": "a", "count": 3}], "timeout": 0},
    30: {
        "creations": [
            {
                "resource_type": 2,
                "resource_name": "a",
                "resource_pattern_type": 3,
                "principal": "User:a",
                "host": "*",
                "operation": 3,
                "permission_type": 3,
            }
        ]
    },
    31: {
        "filters": [
            {
                "resource_type_filter": 2,
                "resource_name_filter": "a",
                "pattern_type_filter": 3,
                "principal_filter": None,
                "host_filter": None,
                "operation": 1,
                "permission_type": 1,
            }
        ]
    },
    49: {
        "entries": [
            {
                "entity": [{"entity_type": "user", "entity_name": None}],
                "ops": [{"key": "request_percentage", "value": 1.0, "remove": False}],
            }
        ],
        "validate_only": False,
    },
    51: {"deletions": [{"name": "a", "mechanism": 1}], "upsertions": []},
    43: {"election_type": 0, "topic_partitions": None, "timeout": 0},
    44: {"resources": [{"resource_type": 2, "resource_name": "a", "configs": []}]},
    45: {"topics": [], "timeout": 0},
    46: {"topics": None, "timeout": 0},
    55: {"topics": []},
    57: {"feature_updates": [], "timeout": 0},
    64: {"broker_id": 9},
    67: {"broker_id": 1},
    80: {"cluster_id": "c", "timeout": 0, "voter_id": 9},
    81: {"cluster_id": "c", "voter_id": 9},
}


class TestRefusals:
    def test_each_has_a_sample(self) -> None:
        assert SAMPLES.keys() == RELAYED.keys()

    @pytest.mark.parametrize(
        ("api_key", "version"),
        [
            (key, version)
            for key in RELAYED
            for version in range(messages.known_versions(key)[0], messages.known_versions(key)[1] + 1)
        ],
    )
    def test_of_every_kind_say_that_time_is_up(self, api_key: int, version: int) -> None:
        body = request_bytes(api_key_map[api_key], version, 7, None, SAMPLES[api_key])
        start = 11 if messages.is_flexible(api_key, version) else 10
        request = messages.decode(api_key, version, memoryview(body), start)
        fields = RELAYED[api_key](request, ErrorCode.REQUEST_TIMED_OUT, "too late")
        codes = list(_codes(fields))
        assert codes and set(codes) == {ErrorCode.REQUEST_TIMED_OUT}
        assert messages.encode(api_key, version, 7, fields)
        timeout_ms = to_controller.timeout_ms_of(request)
        assert timeout_ms == (0 if "timeout" in SAMPLES[api_key] else to_controller.TIMEOUT_MS)


def _codes(fields: Any) -> Any:
    if isinstance(fields, dict):
        if "error_code" in fields:
            yield fields["error_code"]
        for value in fields.values():
            yield from _codes(value)
    elif isinstance(fields, list):
        for value in fields:
            yield from _codes(value)


def ask(work: Callable[[Callable[[Any], None]], None]) -> "asyncio.Future[Any]":
    answer = asyncio.get_running_loop().create_future()
    work(answer.set_result)
    assert not answer.done(), "called back before it returned"
    return answer


METADATA = API_KEYS["metadata"]


class TestLinks:
    @pytest.mark.parametrize("to", [1, 2])
    @on_loop
    async def test_to_another_and_to_itself_are_alike(self, to: int) -> None:
        async with LoopbackCluster(2, controller=1) as (one, _):
            answer = await ask(lambda done: one.broker.links.request(to, METADATA, {"topics": []}, done))
            assert [broker.node_id for broker in answer.brokers] == [1, 2]
            assert answer.cluster_id == "loopback"

    @on_loop
    async def test_to_nobody(self) -> None:
        async with LoopbackCluster(2, controller=1) as (one, two):
            await two.die()
            answer = await ask(lambda done: one.broker.links.request(2, METADATA, {"topics": []}, done))
            assert isinstance(answer, TidelogError)
            assert answer.code is ErrorCode.BROKER_NOT_AVAILABLE
            answer = await ask(lambda done: one.broker.links.request(9, METADATA, {"topics": []}, done))
            assert answer.code is ErrorCode.BROKER_NOT_AVAILABLE

    @on_loop
    async def test_that_break(self) -> None:
        async with LoopbackCluster(2, controller=1) as (one, two):
            two.server.gate.take = lambda *_: None  # type: ignore[union-attr, method-assign]
            asked = ask(lambda done: one.broker.links.request(2, API_KEYS["vote"], {"topics": []}, done))
            await until(lambda: two.server.requests)
            await two.die()
            answer = await asked
            assert answer.code is ErrorCode.NETWORK_EXCEPTION

    @on_loop
    async def test_that_take_too_long(self) -> None:
        async with LoopbackCluster(2, controller=1) as (one, two):
            two.server.gate.take = lambda *_: None  # type: ignore[union-attr, method-assign]
            links = WireLinks(one.broker, one.peers, lambda: 1, timeout_ms=20)
            answer = await ask(lambda done: links.request(2, API_KEYS["vote"], {"topics": []}, done))
            assert answer.code is ErrorCode.REQUEST_TIMED_OUT


class TestAskingTheController:
    @pytest.mark.parametrize("controller", [1, 2])
    @on_loop
    async def test_producer_ids_come_from_it(self, controller: int) -> None:
        async with LoopbackCluster(2, controller=controller) as (one, two):
            blocks = []
            for node in (one, two, one):
                answer = await ask(
                    lambda done, node=node: ask_controller(  # type: ignore[misc]
                        node.broker, 67, {"broker_id": node.node_id}, done
                    )
                )
                blocks.append((answer.producer_id_start, answer.producer_id_len))
            assert blocks == [(0, 1000), (1000, 1000), (2000, 1000)]

    @on_loop
    async def test_two_brokers_give_out_different_ids(self) -> None:
        async with LoopbackCluster(2, controller=1) as (one, two):
            grants = [
                await ask(lambda done, node=node: node.broker.producer_ids.next().then(done))  # type: ignore[misc]
                for node in (one, two)
            ]
            assert grants == [0, 1000]

    @on_loop
    async def test_again_until_there_is_one(self) -> None:
        async with LoopbackCluster(2, controller=1) as (one, two):
            one.cluster.appoint(-1)
            two.store.leader = 1
            asked = ask(lambda done: ask_controller(two.broker, 67, {"broker_id": 2}, done))
            await until(lambda: one.server.requests >= 2)
            one.cluster.appoint(1)
            answer = await asked
            assert answer.error_code == 0

    @on_loop
    async def test_but_not_for_ever(self) -> None:
        async with LoopbackCluster(2, controller=1) as (one, two):
            one.cluster.appoint(-1)
            answer = await ask(lambda done: ask_controller(two.broker, 67, {"broker_id": 2}, done, 100))
            assert isinstance(answer, TidelogError)
            assert answer.code is ErrorCode.REQUEST_TIMED_OUT

    @on_loop
    async def test_an_unknown_broker_gets_no_ids(self) -> None:
        async with LoopbackCluster(2, controller=1) as (_, two):
            answer = await ask(lambda done: ask_controller(two.broker, 67, {"broker_id": 9}, done))
            assert answer.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED

    @on_loop
    async def test_a_topic_is_known_here_when_it_is_created(self) -> None:
        async with LoopbackCluster(2, controller=1) as (_, two):
            follow(two)
            new = NewTopic("made", 3, 1, configs={"cleanup.policy": "compact"})
            assert await ask(lambda done: create_topic(two.broker, new, done)) is None
            made = two.store.image.topics["made"]
            assert (len(made.partitions), made.configs) == (3, {"cleanup.policy": "compact"})
            assert await ask(lambda done: create_topic(two.broker, new, done)) is None
            refused = await ask(lambda done: create_topic(two.broker, NewTopic("no/name"), done))
            assert refused.code is ErrorCode.INVALID_TOPIC_EXCEPTION
