"""The replication mode of a topic changes under load: nothing lost, nothing twice, order kept.

Writers and a reader of confluent-kafka run through all of it. Every ordered pair of modes is gone through
once; then changes are interrupted by the death of a leader, and by that of the active controller. ``-s``
shows how long each change took and how long writes stood still.
"""

import json
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from tidelog.cli import main
from tidelog.testing import Broker, Cluster, running_cluster

from . import calls
from .clients import CLIENTS, ConfluentClient, Message
from .cluster_load import ADMIN_TIMEOUT_S, Load, admin_client, create_topic
from .replicas import assert_identical
from .test_java import CONSUMER, JARS, java
from .wire import Wire

pytestmark = [pytest.mark.interop, pytest.mark.not_kafka]

TOPIC = "t"
PARTITIONS = 3
Run = Callable[..., tuple[str, str]]
EVERY_PAIR = ("isr", "quorum", "primary-backup", "isr", "primary-backup", "quorum", "isr")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("modes"), 3) as cluster:
        yield cluster


def change_mode(admin: AdminClient, mode: str) -> None:
    entry = ConfigEntry("replication.mode", mode, incremental_operation=AlterConfigOpType.SET)
    topic = ConfigResource(ResourceType.TOPIC, TOPIC, incremental_configs=[entry])
    for future in admin.incremental_alter_configs([topic]).values():
        future.result(ADMIN_TIMEOUT_S)


def left_to_do(admin: AdminClient, mode: str) -> list[dict[str, Any]] | None:
    """Partitions that have not come to the mode yet; None: the broker has not heard of the wish."""
    (future,) = admin.describe_configs([ConfigResource(ResourceType.TOPIC, TOPIC)]).values()
    settings = {name: entry.value for name, entry in future.result(ADMIN_TIMEOUT_S).items()}
    if settings["replication.mode"] != mode:
        return None
    left: list[dict[str, Any]] = json.loads(settings.get("replication.mode.change", "[]"))
    return left


def await_mode(admin: AdminClient, mode: str) -> None:
    calls.eventually(lambda: left_to_do(admin, mode) == [], f"all partitions come to mode {mode}")


def leader(cluster: Cluster) -> Broker:
    leaders = [part.leader for part in cluster.view(TOPIC).topics[TOPIC]]
    return cluster[max((each for each in leaders if each >= 0), key=leaders.count)]


@pytest.fixture
def tidelog(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> Run:
    """The command line, in this process: what it printed, once its exit code is the expected one."""

    def run(*words: str, code: int = 0) -> tuple[str, str]:
        ended = main([*words, "--bootstrap", cluster.bootstrap])
        said = capsys.readouterr()
        assert ended == code, said
        return said.out, said.err

    return run


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--mode", "quorum", "--replicas", "2"), "refused for 2 replicas: writes need a majority"),
        (("--mode", "quorum", "--copies", "2"), "min.insync.replicas has no meaning in mode quorum"),
        (("--mode", "primary-backup", "--replicas", "2", "--copies", "3"), "at most the number of the topic"),
        (
            ("--mode", "primary-backup", "--set", "unclean.leader.election.enable=true"),
            "no leader election",
        ),
        (("--mode", "magic"), "replication.mode=magic is refused"),
    ],
)
def test_bad_input_is_refused_with_the_reason(tidelog: Run, words: tuple[str, ...], reason: str) -> None:
    said, complaint = tidelog("topic", "create", "refused", *words, code=1)
    assert said == ""
    assert reason in complaint
    assert "INVALID_CONFIG" in complaint


def test_a_topic_goes_through_the_modes_by_hand(tidelog: Run) -> None:
    tidelog("topic", "create", "by-hand", "--mode", "primary-backup", "--copies", "1", "--replicas", "3")
    (promise,) = json.loads(tidelog("modes", "--topic", "by-hand", "--json")[0])
    assert (promise["mode"], promise["copies"], promise["survives_writing"]) == ("primary-backup", 1, 0)
    _, complaint = tidelog("topic", "alter", "by-hand", "--mode", "quorum", code=1)
    assert "min.insync.replicas has no meaning in mode quorum" in complaint
    assert "add --unset min.insync.replicas, or --yes" in complaint
    _, complaint = tidelog("topic", "alter", "by-hand", "--mode", "quorum", "--copies", "2", "--yes", code=1)
    assert "INVALID_CONFIG" in complaint
    words = ("--unset", "min.insync.replicas", "--set", "flush.messages=100")
    said, note = tidelog("topic", "alter", "by-hand", "--mode", "quorum", *words)
    assert said.endswith("Changed topic by-hand.\n")
    assert "Note: flush.messages=100 in mode quorum" in note
    (promise,) = json.loads(tidelog("modes", "--topic", "by-hand", "--json")[0])
    assert (promise["mode"], promise["copies"], promise["survives_writing"]) == ("quorum", 2, 1)
    said, complaint = tidelog("topic", "alter", "by-hand", "--mode", "isr", "--copies", "3", code=1)
    assert "failures tolerated for writes: 1 before, 0 after" in complaint
    assert "mode quorum" in tidelog("topic", "describe", "by-hand")[0]
    said, note = tidelog("topic", "alter", "by-hand", "--mode", "isr", "--copies", "3", "--yes")
    assert "writes with acks=all stop when one of them is down" in note
    assert "mode isr" in tidelog("topic", "describe", "by-hand")[0]
    tidelog("topic", "alter", "by-hand", "--mode", "quorum", "--yes")
    told = json.loads(tidelog("topic", "describe", "by-hand", "--json")[0])
    own = {each["name"]: each["value"] for each in told["settings"] if each["set_by"] == "topic"}
    assert own == {"replication.mode": "quorum", "flush.messages": "100"}


def test_no_client_sees_what_leaders_write_for_themselves(tidelog: Run, cluster: Cluster) -> None:
    """Seals, leader changes and sets of voters lie between the records."""
    tidelog("topic", "create", "seen", "--partitions", "1", "--replicas", "3")
    sent = []
    for mode in ("quorum", "isr", "quorum", "primary-backup"):
        tidelog("topic", "alter", "seen", "--mode", mode, "--yes")
        sent.append(f"by {mode}".encode())
        (last,) = ConfluentClient().produce(cluster.bootstrap, "seen", [Message(None, sent[-1])])
    assert last >= len(sent) + 3
    for client in CLIENTS:
        found = client.consume(cluster.bootstrap, "seen", last + 1)
        assert [record.value for record in found] == sent, client.name
    if JARS is not None:
        place = ("--bootstrap-server", cluster.bootstrap, "--topic", "seen", "--partition", "0")
        limits = ("--offset", "earliest", "--max-messages", str(len(sent)), "--timeout-ms", "60000")
        found_by_java = java(CONSUMER, *place, *limits, "--isolation-level", "read_committed")
        assert found_by_java.encode().splitlines() == sent


def test_a_change_that_has_to_wait_says_why(tidelog: Run, cluster: Cluster) -> None:
    tidelog("topic", "create", "waits", "--mode", "primary-backup", "--partitions", "1", "--replicas", "2")
    primary = cluster.leader_of("waits")
    primary.kill()
    reason = f"broker {primary.node_id}, the primary: it may hold records that no other replica has"
    calls.eventually(lambda: cluster.partition("waits").in_sync != (), "the primary is given up")
    _, complaint = tidelog("topic", "alter", "waits", "--mode", "isr", "--timeout", "0.5", code=1)
    assert f"Partition 0 (primary-backup) waits for {reason}" in complaint
    told = tidelog("topic", "describe", "waits")[0]
    assert "Changing to mode isr" in told
    assert reason in told
    assert "Changing to mode isr" in tidelog("modes", "--topic", "waits")[0]
    primary.start()
    tidelog("topic", "alter", "waits", "--mode", "isr")


def test_every_pair_of_modes_under_load_and_deaths_on_the_way(cluster: Cluster) -> None:
    admin = admin_client(cluster.bootstrap)
    create_topic(cluster.bootstrap, TOPIC, PARTITIONS, replication_mode=EVERY_PAIR[0])
    load = Load(cluster.bootstrap, TOPIC, PARTITIONS, gaps=True)
    load.start()
    for before, after in pairwise(EVERY_PAIR):
        begun = time.monotonic()
        change_mode(admin, after)
        await_mode(admin, after)
        changed = time.monotonic()
        load.await_writes(changed)
        quiet_s = load.longest_gap_s(begun)
        print(  # noqa: T201
            f"{before} to {after}: {changed - begun:.2f} s, {quiet_s:.2f} s without writes"
        )
    for mode, victim in (("quorum", leader), ("primary-backup", Cluster.controller), ("isr", leader)):
        broker = victim(cluster)
        change_mode(admin, mode)
        broker.kill()
        broker.start()
        await_mode(admin, mode)
        load.await_writes(time.monotonic())
    load.finish()
    print(load.check())  # noqa: T201
    check_replicas(cluster)


def check_replicas(cluster: Cluster) -> None:
    """Below the high watermark all replicas are the same, byte for byte."""
    cluster.await_in_sync(TOPIC)
    ends = []
    for partition in range(PARTITIONS):
        with Wire(cluster.leader_of(TOPIC, partition).bootstrap) as wire:
            ends.append(calls.end_offset(wire, TOPIC, partition))
    cluster.stop()
    for partition, end in enumerate(ends):
        assert_identical(cluster, TOPIC, partition, end)
