"""A workload of real processes on real brokers, with a leader killed and a producer killed under it."""

import os
import signal
import time
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tidelog.lab.experiment.model import ConsumerSpec, LoadSpec, TopicSpec
from tidelog.lab.figures import Windows, figures_of
from tidelog.lab.history import now_us
from tidelog.lab.history_files import read_events
from tidelog.lab.local.cluster import Cluster, running_cluster
from tidelog.lab.workload import Workload, WorkloadFailed

pytestmark = [pytest.mark.interop, pytest.mark.slow]

TOPICS = (
    TopicSpec(name="records", partitions=2, settings={"min.insync.replicas": "2"}),
    TopicSpec(name="paid", settings={"min.insync.replicas": "2"}),
)
IMPATIENT = {"socket.timeout.ms": 1000, "reconnect.backoff.max.ms": 200}
LOADS = (
    LoadSpec(topic="records", producers=2, rate=400, keys=16, settings=IMPATIENT),
    LoadSpec(topic="paid", rate=200, transactional=10, settings=IMPATIENT),
)
CONSUMERS = (
    ConsumerSpec(topic="records", members=2, settings=IMPATIENT),
    ConsumerSpec(topic="paid", group="accountants", settings=IMPATIENT),
)


def create(cluster: Cluster, topics: tuple[TopicSpec, ...]) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 2})
    new = [NewTopic(one.name, one.partitions, one.replicas, config=one.settings) for one in topics]
    for created in admin.create_topics(new).values():
        created.result(30)
    cluster.await_in_sync(*(topic.name for topic in topics))


def await_more(workload: Workload, topic: str, records: int) -> None:
    """Until that many more are acknowledged."""
    before = workload.acknowledged()[topic]
    deadline = time.monotonic() + 60
    while workload.acknowledged()[topic] < before + records:
        workload.check()
        assert time.monotonic() < deadline, workload.acknowledged()
        time.sleep(0.02)


def test_a_killed_leader_and_a_killed_producer_lose_nothing(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "cluster") as cluster:
        create(cluster, TOPICS)

        def pids() -> dict[int, int]:
            return {broker.node_id: broker.pid for broker in cluster if broker.is_running}

        workload = Workload(
            cluster.bootstrap, TOPICS, LOADS, CONSUMERS, tmp_path / "round", "a run",
            {"records": "isr", "paid": "isr"}, pids=pids,
        )  # fmt: skip
        try:
            workload.start()
            workload.wait_steady(60)
            steady = now_us()
            victim = workload._producers[0]
            os.kill(victim.pid or 0, signal.SIGKILL)
            await_more(workload, "records", 200)
            leader = cluster.leader_of("records")
            fault = now_us()
            workload.mark("fault", f"kill -9 of broker {leader.node_id}")
            leader.kill()
            for topic in ("records", "paid"):
                await_more(workload, topic, 100)
            workload.sample_leader("records", cluster.leader_of("records").node_id)
            workload.mark("healed", f"kill -9 of broker {leader.node_id}")
            leader.start()
            cluster.await_in_sync("records", "paid")
            workload.mark("redundant", "")
            healed = now_us()
            await_more(workload, "paid", 50)
            windows = Windows(steady, fault, healed, now_us())
        except BaseException:
            workload.close()
            raise
        workload.finish(30)
    assert victim.job.incarnation >= 1  # started again, and its history goes on
    assert [path.name for path in (tmp_path / "round").glob("*.jsonl")] == []
    events = read_events(tmp_path / "round")
    assert {event.run for event in events} == {"a run"}
    assert {event.mode for event in events} == {"isr (records)", "isr (paid)"}
    for topic in ("records", "paid"):
        figures, time_line = figures_of(tmp_path / "round", topic, windows)
        assert figures.acknowledged > 100 and figures.received >= figures.acknowledged
        assert (figures.lost, figures.doubled, figures.disordered, figures.misplaced) == (0, 0, 0, 0)
        assert (figures.vanished, figures.torn_transactions, figures.lost_commits) == (0, 0, 0)
        assert figures.examples == ()
        assert figures.before.p50 and figures.during.p99 and figures.redundant_after_s is not None
        assert figures.broker_cpu_s > 0 and figures.broker_rss_mb > 10
        assert 0 <= figures.client_back_off_s <= figures.writes_stood_still_s
        assert sum(time_line.received) > 100 and len(time_line.faults) == 1
    kinds = {event.kind for event in events}
    assert {"plain-write", "plain-read", "committed", "found", "consumed", "usage", "leader"} <= kinds


def test_a_load_that_cannot_begin_says_why(tmp_path: Path) -> None:
    topic = TopicSpec(name="stuck", replicas=2, settings={"min.insync.replicas": "2"})
    with running_cluster(tmp_path / "cluster", 2) as cluster:
        create(cluster, (topic,))
        cluster.followers_of("stuck")[0].pause()
        workload = Workload(
            cluster.bootstrap, [topic], [LoadSpec(topic="stuck", rate=50)], [], tmp_path / "round", "r",
            {"stuck": "isr"}, plain=False,
        )  # fmt: skip
        try:
            workload.start()
            with pytest.raises(
                WorkloadFailed, match="partition 0 of stuck did not acknowledge a write within"
            ):
                workload.wait_steady(0.5)
        finally:
            workload.close()
            cluster.kill()
    assert workload.acknowledged() == {"stuck": 0}
