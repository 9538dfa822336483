"""A broker refuses the first of a producer's pipelined requests as a follower, and leads when the next ones
arrive. They wait for the first: otherwise librdkafka hears of a gap, begins a new epoch and sends duplicates.
"""

from collections.abc import Iterator

import pytest
from kio.schema.errors import ErrorCode

from tidelog.testing import Broker, Cluster, running_cluster

from . import calls
from .cluster_load import create_topic
from .records import batch, batches
from .wire import Wire

pytestmark = [pytest.mark.interop, pytest.mark.not_kafka]

TOPIC = "t"
VERSION = 12
MODES = ("isr", "quorum")  # A backup of primary-backup does not replace its primary by itself.
NOT_LEADER = ErrorCode.not_leader_or_follower


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("pipelined"), 3) as cluster:
        yield cluster


class Pipeline:
    """Requests of one producer on one connection."""

    def __init__(self, broker: Broker, topic: str) -> None:
        self._wire = Wire(broker.bootstrap)
        self._topic = topic
        self._asked: list[int] = []

    def send(self, sequence: int) -> None:
        data = bytes(batch(b"%d" % sequence, producer=(7_000_000, 0, sequence)))
        fields = calls.produce_request(self._topic, data, 0, -1)
        self._asked.append(self._wire.send("produce", VERSION, **fields))

    def answers(self) -> list[ErrorCode]:
        asked, self._asked = self._asked, []
        answers = [self._wire.receive("produce", VERSION, number) for number in asked]
        return [answer.responses[0].partition_responses[0].error_code for answer in answers]

    def close(self) -> None:
        self._wire.__exit__()


@pytest.mark.timeout(120)
@pytest.mark.parametrize("known", [True, False], ids=["known producer", "first batches"])
@pytest.mark.parametrize("mode", MODES)
def test_pipelined_batches_wait_for_a_refused_one(cluster: Cluster, mode: str, known: bool) -> None:
    topic = f"{TOPIC}-{mode}-{known}"
    create_topic(cluster.bootstrap, topic, 1, replication_mode=mode)
    cluster.await_in_sync(topic)
    leader, epoch = cluster.leader_of(topic), cluster.partition(topic).leader_epoch
    first = int(known)
    if known:
        pipeline = Pipeline(leader, topic)
        pipeline.send(0)
        assert pipeline.answers() == [ErrorCode.none]
        pipeline.close()
    pipelines = {each.node_id: Pipeline(each, topic) for each in cluster.followers_of(topic)}
    for pipeline in pipelines.values():
        pipeline.send(first)
        assert pipeline.answers() == [NOT_LEADER]
    leader.kill()
    cluster.wait_for(lambda: cluster.partition(topic).leader_epoch > epoch, "the next leader")
    new_leader = cluster.leader_of(topic)
    pipeline = pipelines[new_leader.node_id]
    for sequence in (first + 1, first + 2, first, first + 3):
        pipeline.send(sequence)
    assert pipeline.answers() == [NOT_LEADER, NOT_LEADER, ErrorCode.none, NOT_LEADER]
    for sequence in range(first, first + 5):
        pipeline.send(sequence)
    assert pipeline.answers() == [ErrorCode.none] * 5
    with Wire(new_leader.bootstrap) as wire:
        found = calls.fetch(wire, topic, 0)
    for each in pipelines.values():
        each.close()
    leader.start()
    cluster.await_in_sync(topic)
    written = [
        record.value for each in batches(found.records) if not each.is_control_batch for record in each
    ]
    assert written == [b"%d" % each for each in range(first + 5)]
