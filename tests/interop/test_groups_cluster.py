"""Groups in a cluster of three: whoever leads their partition coordinates them, and its death is survived."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tidelog.broker.coordinators.keys import partition_of
from tidelog.testing import Broker, Cluster, running_cluster

from . import calls
from .cluster_load import create_topic
from .members import Member, await_shares, members
from .test_groups import SETTINGS, commit, produce
from .wire import Wire

pytestmark = [pytest.mark.interop, pytest.mark.not_kafka]

OFFSETS = "__consumer_offsets"
PARTITIONS = int(SETTINGS["offsets.topic.num.partitions"])


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    settings = {**SETTINGS, "offsets.topic.replication.factor": 3}
    with running_cluster(tmp_path, settings=settings) as cluster:
        yield cluster


def coordinator(cluster: Cluster, group: str) -> Broker:
    """Who a client is told to ask, by whichever broker; the same as who leads the group's partition."""
    found: list[int] = []

    def told() -> bool:
        with Wire(cluster.running[0].bootstrap) as wire:
            answer = wire.call("find_coordinator", 4, key_type=0, coordinator_keys=[group]).coordinators[0]
        found.append(answer.node_id)
        return answer.error_code is ErrorCode.none and cluster[answer.node_id].is_running

    cluster.wait_for(told, f"nobody coordinates {group}")
    return cluster[found[-1]]


def committed(cluster: Cluster, group: str) -> dict[int, int]:
    answers: list[Any] = []

    def answered() -> bool:
        with Wire(coordinator(cluster, group).bootstrap) as wire:
            answers.append(wire.call("offset_fetch", 7, group_id=group, topics=None, require_stable=True))
        return answers[-1].error_code is ErrorCode.none

    cluster.wait_for(answered, "the coordinator tells no offsets")
    return {
        each.partition_index: each.committed_offset
        for topic in answers[-1].topics
        for each in topic.partitions
    }


def describe(cluster: Cluster, group: str) -> Any:
    answers: list[Any] = []

    def answered() -> bool:
        with Wire(coordinator(cluster, group).bootstrap) as wire:
            answers.append(wire.call("describe_groups", 5, groups=[group]).groups[0])
        return answers[-1].error_code is ErrorCode.none

    cluster.wait_for(answered, "the coordinator tells nothing of the group")
    return answers[-1]


def test_the_coordinator_dies(cluster: Cluster) -> None:
    """kill -9, then a clean stop: members go on in their generation, and offsets are kept."""
    create_topic(cluster.bootstrap, "t", 4)
    options = {"bootstrap": cluster.bootstrap, "group": "g", "topic": "t", "session_ms": 30_000}
    for partition in range(4):
        produce(cluster.bootstrap, "t", partition, 5)
    with members() as started:
        started += [Member("confluent", **options), Member("confluent", **options)]
        await_shares(started, 4)
        calls.eventually(lambda: committed(cluster, "g") == dict.fromkeys(range(4), 5), "all is read")
        before = describe(cluster, "g")
        assert before.group_state == "Stable"
        assigned = [member.count("assigned") for member in started]
        end = 5
        for strike in (Broker.kill, Broker.stop):
            victim = coordinator(cluster, "g")
            strike(victim)
            cluster.wait_for(
                partial(lambda dead: coordinator(cluster, "g") is not dead, victim), "nobody took over"
            )
            assert committed(cluster, "g") == dict.fromkeys(range(4), end)
            for partition in range(4):
                produce(cluster.bootstrap, "t", partition, 5)
            end += 5
            calls.eventually(
                partial(lambda offset: committed(cluster, "g") == dict.fromkeys(range(4), offset), end),
                "members read on",
            )
            victim.start()
            cluster.await_ready()
            cluster.await_in_sync(OFFSETS, "t")
        after = describe(cluster, "g")
        assert {each.member_id for each in after.members} == {each.member_id for each in before.members}
        assert [member.count("assigned") for member in started] == assigned


def test_all_die(cluster: Cluster) -> None:
    create_topic(cluster.bootstrap, "t", 1)
    with Wire(coordinator(cluster, "g").bootstrap) as wire:
        commit(wire, "g", "t", 7)
    cluster.kill()
    cluster.start()
    assert committed(cluster, "g") == {0: 7}


def test_every_broker_coordinates_some(cluster: Cluster) -> None:
    groups = [f"group-{number}" for number in range(30)]
    leaders = {}
    for group in groups:
        leaders[group] = coordinator(cluster, group).node_id
    view = cluster.view(OFFSETS).topics[OFFSETS]
    assert {part.leader for part in view} == {1, 2, 3}
    assert {len(part.replicas) for part in view} == {3}
    for group in groups:
        assert leaders[group] == view[partition_of(group, PARTITIONS)].leader
    # Asked of somebody else, a request is sent to the one who knows.
    group = groups[0]
    other = next(broker for broker in cluster if broker.node_id != leaders[group])
    with Wire(other.bootstrap) as wire:
        answer = wire.call("offset_fetch", 7, group_id=group, topics=None, require_stable=True)
    assert answer.error_code is ErrorCode.not_coordinator


def test_a_list_of_all_groups(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    """Each broker knows its own; clients ask all of them."""
    from tidelog.cli import main

    create_topic(cluster.bootstrap, "t", 1)
    groups = [f"group-{number}" for number in range(10)]
    for group in groups:
        with Wire(coordinator(cluster, group).bootstrap) as wire:
            commit(wire, group, "t", 1)
    assert main(["group", "list", "--json", "--bootstrap", cluster.bootstrap]) == 0
    assert {row["group"] for row in json.loads(capsys.readouterr().out)} == set(groups)


def test_offsets_of_a_topic_that_was_deleted_while_nobody_coordinated(tmp_path: Path) -> None:
    """They must not apply to the next topic of the same name."""
    with running_cluster(tmp_path, settings={**SETTINGS, "offsets.topic.replication.factor": 1}) as cluster:
        create_topic(cluster.bootstrap, "orders", 1)
        coordinates = coordinator(cluster, "g")
        with Wire(coordinates.bootstrap) as wire:
            commit(wire, "g", "orders", 7)
        assert committed(cluster, "g") == {0: 7}
        coordinates.kill()
        with Wire(cluster.running[0].bootstrap) as wire:
            answer = wire.call("delete_topics", 5, topic_names=["orders"], timeout=30_000)
            assert [each.error_code for each in answer.responses] == [ErrorCode.none]
        coordinates.start()
        cluster.await_ready()
        calls.eventually(lambda: committed(cluster, "g") == {}, "the offsets are gone")
        create_topic(cluster.bootstrap, "orders", 1)
        assert committed(cluster, "g") == {}


def test_the_internal_topic_gets_replicas_when_brokers_join(tmp_path: Path) -> None:
    """Otherwise the groups of a cluster that has grown end with its first broker."""
    with running_cluster(tmp_path, 1, {**SETTINGS, "offsets.topic.replication.factor": 3}) as cluster:
        with Wire(coordinator(cluster, "g").bootstrap) as wire:
            orders = {"name": "orders", "num_partitions": 1, "replication_factor": 1}
            wire.call("create_topics", 6, topics=[orders], timeout=30_000)
            commit(wire, "g", "orders", 7)
        assert len(cluster.partition("__consumer_offsets").replicas) == 1
        for _ in range(2):
            cluster.add_broker().start()

        def is_raised() -> bool:
            view = cluster.view("__consumer_offsets").topics["__consumer_offsets"]
            return all(len(each.replicas) == len(each.in_sync) == 3 for each in view)

        cluster.wait_for(is_raised, "__consumer_offsets keeps its one replica")

        def minimum() -> str:
            named = {"resource_type": 2, "resource_name": "__consumer_offsets"}
            resource = {**named, "configuration_keys": ["min.insync.replicas"]}
            with Wire(cluster.bootstrap.split(",")[0]) as wire:
                (found,) = wire.call("describe_configs", 4, resources=[resource]).results
            return str(found.configs[0].value)

        calls.eventually(lambda: minimum() == "2", "the minimum follows")
        assert committed(cluster, "g") == {0: 7}
        assert "get 3 replicas, because brokers have joined" in cluster[1].log_text()
