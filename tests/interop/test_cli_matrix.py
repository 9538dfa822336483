"""Every command of the command line in every state of a cluster: no traceback, no false sentence, and an
answer within seconds.

The expectations are the files in ``cli_matrix/``: exit code and sentences of each command. ``--rewrite``
writes them; read the difference before you commit it. Tables are not compared: who leads depends on the order
of elections. It takes about two minutes and runs on request: ``TIDELOG_TEST_MATRIX=1 ./dev test
tests/interop/test_cli_matrix.py``.
"""

import io
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tidelog.cli import main
from tidelog.lab.faults.breakable import BreakableCluster, breakable_cluster

pytestmark = [
    pytest.mark.not_kafka,
    pytest.mark.slow,
    pytest.mark.skipif("TIDELOG_TEST_MATRIX" not in os.environ, reason="runs with TIDELOG_TEST_MATRIX=1"),
]

HERE = Path(__file__).parent / "cli_matrix"
ANSWER_S = 3.0
PRIMARY, OTHER, LEFT = 1, 2, 3
REPLICAS = {"i": [PRIMARY, OTHER, LEFT], "p": [PRIMARY, LEFT], "q": [PRIMARY, OTHER, LEFT]}
MODES = {"i": "isr", "p": "primary-backup", "q": "quorum"}

COMMANDS: tuple[tuple[str, str], ...] = (
    ("cluster health", ""),
    ("cluster status", ""),
    ("cluster describe", ""),
    ("controller list", ""),
    ("controller remove 9", ""),
    ("topic list", ""),
    ("topic describe i", ""),
    ("topic describe p", ""),
    ("topic describe q", ""),
    ("topic describe absent", ""),
    ("topic create made --partitions 1 --replicas 3 --if-not-exists", ""),
    ("topic alter i --set retention.ms=1h", ""),
    ("topic alter q --mode isr", ""),
    ("topic elect i --unclean", ""),
    ("topic promote p --partition 0 --to 3", ""),
    ("topic recover q --partition 0 --unsafe", ""),
    ("topic reassign i", ""),
    ("topic delete absent", ""),
    ("modes --topic i", ""),
    ("produce absent", "x\n"),
    ("produce q --timeout 1s", "x\n"),
    ("consume i", ""),
    ("consume p", ""),
    ("consume q", ""),
    ("consume absent", ""),
    ("group list", ""),
    ("group describe readers", ""),
    ("group reset-offsets readers --to-earliest", ""),
    ("group delete absent", ""),
    ("txn list", ""),
    ("txn describe absent", ""),
    ("txn abort absent", ""),
    ("config show", ""),
    ("config set log.retention.ms=7d", ""),
    ("config unset log.retention.ms", ""),
    ("broker drain 9", ""),
    ("broker unregister 9", ""),
)


class State(NamedTuple):
    name: str
    enter: Callable[[BreakableCluster], None]


def _no_change(cluster: BreakableCluster) -> None:
    pass


def _one_dead(cluster: BreakableCluster) -> None:
    cluster[OTHER].kill()
    cluster.wait_for(lambda: OTHER not in cluster.view().brokers, "broker 2 is not fenced")


def _disk_full(cluster: BreakableCluster) -> None:
    _mend(cluster)
    cluster.fill_disk(OTHER)
    cluster.wait_for(lambda: OTHER not in cluster.view().brokers, "its broker keeps its session")


def _primary_away(cluster: BreakableCluster) -> None:
    _mend(cluster)
    cluster[PRIMARY].kill()
    cluster.wait_for(lambda: PRIMARY not in cluster.view().brokers, "the primary is not fenced")


def _two_dead(cluster: BreakableCluster) -> None:
    """And with them the majority of the controllers."""
    cluster[OTHER].kill()
    everything = {"i-0", "p-0", "q-0", "made-0", "__consumer_offsets-0", "__transaction_state-0"}
    cluster.wait_for(lambda: _offline(cluster) == everything, "the last broker has not noticed")


def _offline(cluster: BreakableCluster) -> set[str]:
    told = json.loads(_run("cluster", "health", "--json", "--bootstrap", cluster.bootstrap).out)
    return set(told["offline"])


def _mend(cluster: BreakableCluster) -> None:
    cluster.heal()
    for broker in cluster:
        if not broker.is_running:
            broker.start()
    cluster.await_ready()
    cluster.await_in_sync(*REPLICAS)


STATES = (
    State("healthy", _no_change),
    State("one_dead", _one_dead),
    State("disk_full", _disk_full),
    State("primary_away", _primary_away),
    State("two_dead", _two_dead),
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BreakableCluster]:
    settings = {"offsets.topic.num.partitions": 1, "transaction.state.log.num.partitions": 1}
    with breakable_cluster(tmp_path_factory.mktemp("matrix"), 3, settings, hooks=("disk",)) as made:
        _found(made)
        yield made
        _mend(made)


def _found(cluster: BreakableCluster) -> None:
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
    for topic in REPLICAS:
        assert _run("produce", topic, "--bootstrap", cluster.bootstrap, given="one\ntwo\n").code == 0
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "readers"})
    consumer.commit(offsets=[TopicPartition("i", 0, 1)], asynchronous=False)
    consumer.close()


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
    return re.sub(r"(epoch|offset) \d+", r"\1 N", text)


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.name)
def test_every_command(
    state: State, cluster: BreakableCluster, request: pytest.FixtureRequest, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    state.enter(cluster)
    told, slow = [], []
    for words, given in COMMANDS:
        whole = [*words.split(), "--bootstrap", cluster.bootstrap]
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
