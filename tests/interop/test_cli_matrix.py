"""Every command of the command line in every state of a cluster: no traceback, no false sentence, and an
answer within seconds.

The expectations are the files in ``cli_matrix/``: exit code and sentences of each command. ``--rewrite``
writes them; read the difference before you commit it. Tables are not compared: who leads depends on the order
of elections. Usually only the worst states run: two of three brokers dead, and no controller alive. All
of them take about three minutes: ``TIDELOG_TEST_MATRIX=1 ./dev test tests/interop/test_cli_matrix.py``.
"""

import io
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tidelog.cli import main
from tidelog.cli.app import command_line
from tidelog.lab.faults.breakable import BreakableCluster, breakable_cluster
from tidelog.lab.local.broker import Broker
from tidelog.lab.local.cluster import Cluster, running_cluster

HERE = Path(__file__).parent / "cli_matrix"
ON_REQUEST = "TIDELOG_TEST_MATRIX" in os.environ
# A machine that runs other tests at the same time is slow; there, only what hangs is noticed.
ANSWER_S = 3.0 if ON_REQUEST else 30.0
pytestmark = [pytest.mark.not_kafka, pytest.mark.slow]
on_request = pytest.mark.skipif(not ON_REQUEST, reason="runs with TIDELOG_TEST_MATRIX=1")
PRIMARY, OTHER, LEFT = 1, 2, 3
CONTROLLER = 4
ALL = [PRIMARY, OTHER, LEFT]
REPLICAS = {"i": ALL, "p": [PRIMARY, LEFT], "q": ALL, "made": ALL}
MODES = {"i": "isr", "p": "primary-backup", "q": "quorum", "made": "isr"}

COMMANDS: tuple[tuple[str, str], ...] = (
    ("cluster health", ""),
    ("cluster health --wait --timeout 200ms", ""),
    ("cluster status", ""),
    ("cluster describe", ""),
    ("controller list", ""),
    ("controller add 8", ""),
    ("controller remove 8", ""),
    ("controller remove 3", ""),
    ("topic list", ""),
    ("topic describe i", ""),
    ("topic describe p", ""),
    ("topic describe q", ""),
    ("topic describe absent", ""),
    ("topic create made --partitions 1 --replicas 3 --if-not-exists", ""),
    ("topic create new --partitions 1 --replicas 3", ""),
    ("topic delete new --yes", ""),
    ("topic create new --copies 4", ""),
    ("topic create new --set retention.ms=1parsec", ""),
    ("topic alter i --set retention.ms=1h", ""),
    ("topic alter i --partitions 1", ""),
    ("topic alter q --mode isr", ""),
    ("topic elect i", ""),
    ("topic elect i --unclean", ""),
    ("topic elect i --unclean --yes", ""),
    ("topic promote p --partition 0 --to 3", ""),
    ("topic recover q --partition 0 --unsafe", ""),
    ("topic reassign i", ""),
    ("topic reassign i --to 1,2,3", ""),
    ("topic reassign i --to 1,9", ""),
    ("topic reassign i --cancel", ""),
    ("topic delete absent", ""),
    ("modes --topic i", ""),
    ("plan topic i --json", ""),  # Which faults are listed depends on the leader.
    ("plan topic p", ""),
    ("plan what-if --dead 3", ""),
    ("produce absent", "x\n"),
    ("produce i --timeout 1s", "x\n"),
    ("produce p --timeout 1s", "x\n"),
    ("produce q --timeout 1s", "x\n"),
    ("consume i", ""),
    ("consume p", ""),
    ("consume q", ""),
    ("consume i --partition 9", ""),
    ("consume absent", ""),
    ("group list", ""),
    ("group describe readers", ""),
    ("group reset-offsets readers --to-earliest", ""),
    ("group reset-offsets readers --to-earliest --yes", ""),
    ("group describe absent", ""),
    ("group delete absent", ""),
    ("txn list", ""),
    ("txn describe absent", ""),
    ("txn abort absent", ""),
    ("txn abort --topic i --partition 0 --start-offset 0", ""),
    ("config show", ""),
    ("config show --broker 2", ""),
    ("config set log.retention.ms=7d", ""),
    ("config unset log.retention.ms", ""),
    ("broker drain 9", ""),
    ("broker drain 3", ""),
    ("broker drain 3 --undo", ""),
    ("broker unregister 9", ""),
    ("broker unregister 3", ""),
    ("debug bundle --output bundle.tar.gz", ""),
)

ELSEWHERE = {
    "up": "starts a cluster: test_cli_up.py, test_cli_up_cluster.py",
    "down": "stops a cluster: test_cli_up_cluster.py",
    "certs": "writes files",
    "page": "serves until Ctrl-C: tests/browser",
    "demo": "starts a cluster: tests/lab",
    "plan": "asks no cluster",
    "plan calibrate": "starts a cluster: test_plan_live.py",
    "log dump": "reads files",
    "profile add": "asks no cluster",
    "profile use": "asks no cluster",
    "profile list": "asks no cluster",
    "profile remove": "asks no cluster",
    "sim": "simulates",
    "broker": "is a broker",
    "broker init": "writes files",
    "broker stop": "works on a directory: test_cli_one_broker.py",
    "broker start": "works on a directory: test_cli_one_broker.py",
    "version": "asks no cluster",
}

# Spark; loads and faults; security, with clusters that ask for it.
GROUPS_ELSEWHERE = ("pipeline", "lab", "user", "acl")


class State(NamedTuple):
    name: str
    enter: Callable[[Any], None]
    of: str = "cluster"  # the fixture that it changes


def _no_change(cluster: BreakableCluster) -> None:
    pass


def _one_dead(cluster: BreakableCluster) -> None:
    cluster[OTHER].kill()
    cluster.wait_for(lambda: OTHER not in cluster.view().brokers, "broker 2 is not fenced")


def _disk_full(cluster: BreakableCluster) -> None:
    _mend(cluster)
    cluster.fill_disk(OTHER)
    # It notices when it has to write, which the change of a setting asks of every node.
    assert _run("config", "set", "log.retention.ms=7d", "--bootstrap", cluster.bootstrap).code == 0
    cluster.wait_for(lambda: OTHER not in cluster.view().brokers, "its broker keeps its session")
    # On a busy machine it may have lost the session for another reason, before it wrote anything.
    cluster.wait_for(lambda: bool(_says(cluster, "cannot write")), "its broker has not noticed")
    # The active controller counts it as there for two seconds.
    cluster.wait_for(lambda: "no failure" in _controllers(cluster), "its controller counts as alive")


def _primary_away(cluster: BreakableCluster) -> None:
    _mend(cluster)
    cluster[PRIMARY].kill()
    cluster.wait_for(lambda: PRIMARY not in cluster.view().brokers, "the primary is not fenced")


def _one_frozen(cluster: BreakableCluster) -> None:
    """The first one in --bootstrap, whose kernel still accepts connections."""
    _mend(cluster)
    cluster[PRIMARY].pause()
    noticed = cluster[LEFT]
    cluster.wait_for(lambda: PRIMARY not in cluster.view(of=noticed).brokers, "it is not fenced")


def _two_dead(cluster: BreakableCluster) -> None:
    """And with them the majority of the controllers."""
    if cluster[PRIMARY].is_running:
        _primary_away(cluster)
    cluster[OTHER].kill()
    everything = {"i-0", "p-0", "q-0", "made-0", "__consumer_offsets-0", "__transaction_state-0"}
    cluster.wait_for(lambda: _offline(cluster) == everything, "the last broker has not noticed")
    cluster.wait_for(lambda: not _says(cluster, "cannot be read"), "the last broker does not serve readers")


class Apart(NamedTuple):
    """Brokers, and the controllers on a machine of their own."""

    brokers: Cluster
    controller: Broker

    @property
    def bootstrap(self) -> str:
        return self.brokers.bootstrap


def _controllers_dead(apart: Apart) -> None:
    """All brokers are up."""
    apart.controller.kill()

    apart.brokers.wait_for(lambda: not _health(apart)["controllers_decide"], "the controllers still decide")


def _health(cluster: Any) -> dict[str, Any]:
    told = json.loads(_run("cluster", "health", "--json", "--bootstrap", cluster.bootstrap).out)
    return dict(told)


def _controllers(cluster: BreakableCluster) -> str:
    return _run("controller", "list", "--bootstrap", cluster.bootstrap).out


def _offline(cluster: BreakableCluster) -> set[str]:
    return set(_health(cluster)["offline"])


def _says(cluster: BreakableCluster, words: str) -> list[str]:
    return [cause for cause in _health(cluster)["causes"] if words in cause]


def _mend(cluster: BreakableCluster) -> None:
    cluster.heal()
    if cluster[PRIMARY].is_running:
        cluster[PRIMARY].resume()
    for broker in cluster:
        if not broker.is_running:
            broker.start()
    cluster.await_ready()
    cluster.await_in_sync(*REPLICAS)


STATES = (
    pytest.param(State("healthy", _no_change), marks=on_request),
    pytest.param(State("one_dead", _one_dead), marks=on_request),
    pytest.param(State("disk_full", _disk_full), marks=on_request),
    pytest.param(State("primary_away", _primary_away), marks=on_request),
    pytest.param(State("one_frozen", _one_frozen), marks=on_request),
    pytest.param(State("two_dead", _two_dead)),
    pytest.param(State("controllers_dead", _controllers_dead, "apart")),
)
NAMES = [each.values[0].name for each in STATES]  # type: ignore[union-attr]


SETTINGS = {"offsets.topic.num.partitions": 1, "transaction.state.log.num.partitions": 1}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BreakableCluster]:
    with breakable_cluster(tmp_path_factory.mktemp("matrix"), 3, SETTINGS, hooks=("disk",)) as made:
        _found(made)
        yield made
        _mend(made)


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apart]:
    directory = tmp_path_factory.mktemp("apart")
    controller = Broker(directory / "controller", {"node.id": CONTROLLER, "process.roles": "controller"})
    voters = {"controller.quorum.voters": f"{CONTROLLER}@{controller.bootstrap}"}
    secret = {"cluster.secret.file": str(directory / "cluster.secret")}  # that the cluster makes, too
    controller.settings.update(voters | secret)
    try:
        controller.start()
        with running_cluster(directory, 3, {**SETTINGS, **voters, "process.roles": "broker"}) as made:
            _found(made)
            yield Apart(made, controller)
            controller.start()
            made.await_ready()  # and so stops cleanly
    finally:
        controller.close()


def _found(cluster: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    topics = [
        NewTopic(
            topic,
            num_partitions=1,
            replica_assignment=[replicas],
            config={"replication.mode": MODES[topic]},
        )
        for topic, replicas in REPLICAS.items()
    ]
    for made in admin.create_topics(topics).values():
        made.result(20)
    cluster.await_in_sync(*REPLICAS)
    for topic in ("i", "p", "q"):
        assert _run("produce", topic, "--bootstrap", cluster.bootstrap, given="one\ntwo\n").code == 0
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "readers"})
    consumer.commit(offsets=[TopicPartition("i", 0, 1)], asynchronous=False)
    consumer.close()
    assert _run("txn", "describe", "absent", "--bootstrap", cluster.bootstrap).code == 1  # makes their topic
    cluster.await_in_sync("__consumer_offsets", "__transaction_state")


class Answer(NamedTuple):
    code: int
    out: str
    err: str
    took_s: float


class _Input(io.TextIOWrapper):
    def isatty(self) -> bool:
        return False


def _run(*words: str, given: str = "") -> Answer:
    """In this process, as a command line from a script."""
    streams = sys.stdin, sys.stdout, sys.stderr
    buffers = io.BytesIO(), io.BytesIO()
    out, err = (io.TextIOWrapper(each, encoding="utf-8", write_through=True) for each in buffers)
    start = time.monotonic()
    try:
        sys.stdin, sys.stdout, sys.stderr = _Input(io.BytesIO(given.encode())), out, err
        code = main(list(words))
    finally:
        sys.stdin, sys.stdout, sys.stderr = streams
    took_s = time.monotonic() - start
    said, complained = (bytes(buffer.getvalue()).decode() for buffer in buffers)
    return Answer(code, said, complained, took_s)


def _shown(words: str, answer: Answer) -> str:
    """Exit code and sentences, without what differs from run to run."""
    said = [line for line in answer.out.splitlines() if line.startswith("- ") or line.endswith(".")]
    lines = [f"$ tidelog {words}", f"exit {answer.code}", *said, *answer.err.splitlines()]
    # Which brokers are listed as there depends on the broker that was asked.
    text = "\n".join(line for line in lines if line and not line.startswith("Note: broker ")) + "\n"
    text = re.sub(r"127\.0\.0\.1:\d+", "ADDRESS", text)
    text = re.sub(r"(epoch|offset) \d+", r"\1 N", text)
    text = re.sub(r"\d+ partitions? moved", "N partitions moved", text)
    text = re.sub(r"got back \d+ partitions?", "got back N partitions", text)
    # Leadership returns to first replicas by itself, too.
    return re.sub(r"^\d+ (partition)s? got", r"N \1s got", text, flags=re.MULTILINE)


@pytest.mark.parametrize("state", STATES, ids=NAMES)
def test_every_command(
    state: State, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    there = request.getfixturevalue(state.of)
    state.enter(there)
    told, slow = [], []
    for words, given in COMMANDS:
        whole = [*words.split(), "--bootstrap", there.bootstrap]
        answer = _run(*whole, given=given)
        if answer.took_s > ANSWER_S:  # once more: the machine may have been busy
            answer = _run(*whole, given=given)
        if answer.took_s > ANSWER_S:
            slow.append((words, round(answer.took_s, 1)))
        assert "Traceback" not in answer.err + answer.out, answer
        told.append(_shown(words, answer))
    path = HERE / f"{state.name}.txt"
    text = "\n".join(told)
    if request.config.getoption("--rewrite"):
        path.write_text(text)
    assert text == path.read_text()
    assert not slow


def _all_commands(command: Any, words: str = "") -> Iterator[str]:
    children = getattr(command, "commands", {})
    if not children or command.invoke_without_command:
        yield words
    for name, child in children.items():
        yield from _all_commands(child, f"{words} {name}".strip())


def test_no_command_is_missing() -> None:
    """Each is in the matrix, or it is said why not. Some groups of commands have tests of their own."""
    tried = {words for words, _ in COMMANDS}
    missing = [
        name
        for name in _all_commands(command_line())
        if name
        and name not in ELSEWHERE
        and name.partition(" ")[0] not in GROUPS_ELSEWHERE
        and not any(f"{words} ".startswith(f"{name} ") for words in tried)
    ]
    assert not missing


CHANGES = (
    "topic create x",
    "topic delete i --yes",
    "topic elect i",
    "config set log.retention.ms=7d",
    "controller add 8",
)


@on_request
def test_all_disks_full(cluster: BreakableCluster) -> None:
    """The controllers are up, and none is active. Which logs have failed by then differs from run to run."""
    _mend(cluster)
    for broker in ALL:
        cluster.fill_disk(broker)
    _run("topic", "create", "full", "--bootstrap", cluster.bootstrap)  # a write of the controllers
    cluster.wait_for(lambda: not _health(cluster)["controllers_decide"], "a controller is still active")
    for words in CHANGES:
        answer = _run(*words.split(), "--bootstrap", cluster.bootstrap)
        assert answer.code == 1
        assert answer.err.startswith(
            "tidelog: Nothing can be changed now: none of the controllers 1, 2 and 3 is"
        )
        assert answer.took_s < 2 * ANSWER_S
    for words in ("cluster health", "cluster status", "cluster describe"):
        answer = _run(*words.split(), "--bootstrap", cluster.bootstrap)
        assert "None of the controllers 1, 2 and 3 is active" in answer.out
        assert "cannot write to" in answer.out
        assert not answer.err
