"""Members of consumer groups, through confluent-kafka: how soon many share a topic, and what commits cost.

``rebalance`` starts ``count`` members of one group and times from the last one's subscription until all
partitions of the topic are read by exactly one of them, evenly. ``commits`` sends commits of offsets at a
steady rate, from several groups without members, as consumers with their own assignment do.
"""

import itertools
import threading
import time
import uuid
from functools import partial
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition

from bench.load.job import Job, Meter, Outcome
from bench.process import BenchError

COMMITS_PER_SECOND = 1_000
COMMITTING_GROUPS = 20
REBALANCE_SECONDS_MAX = 60.0
TICK_SECONDS = 0.01


def _consumer(job: Job, group: str, **more: Any) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": job.bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "latest",
            "log_level": 2,
            **more,
        }
    )


class _Members:
    """The members of one group, each polled by a thread of its own."""

    def __init__(self, job: Job) -> None:
        group = f"bench-{uuid.uuid4().hex[:12]}"
        self._consumers = [_consumer(job, group) for _ in range(job.count)]
        self._topic = job.topic
        self._partitions = job.partitions
        self._assigned: dict[int, set[int]] = {number: set() for number in range(job.count)}
        self._changed = threading.Condition()
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._poll, args=(number,), daemon=True) for number in range(job.count)
        ]

    def subscribe(self) -> None:
        for number, consumer in enumerate(self._consumers):
            has, has_not = partial(self._told, number, True), partial(self._told, number, False)
            consumer.subscribe([self._topic], on_assign=has, on_revoke=has_not, on_lost=has_not)
            self._threads[number].start()

    def _poll(self, number: int) -> None:
        while not self._stopping.is_set():
            self._consumers[number].poll(0.1)
        self._consumers[number].close()

    def _told(self, number: int, has: bool, _: Consumer, places: list[TopicPartition]) -> None:
        with self._changed:
            self._assigned[number] = {place.partition for place in places} if has else set()
            self._changed.notify_all()

    def _shared(self) -> bool:
        shares = self._assigned.values()
        everything = list(itertools.chain.from_iterable(shares))
        return (
            len(everything) == len(set(everything)) == self._partitions
            and max(map(len, shares)) - min(map(len, shares)) <= 1
        )

    def await_shares(self) -> None:
        with self._changed:
            if not self._changed.wait_for(self._shared, REBALANCE_SECONDS_MAX):
                raise BenchError(f"{len(self._consumers)} members never came to share the topic")

    def stop(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(30)


def rebalance(job: Job) -> Outcome:
    members = _Members(job)
    try:
        members.subscribe()
        meter = Meter(job.broker_pids)
        members.await_shares()
        meter.stop()
    finally:
        members.stop()
    return meter.outcome(job.count)


def commits(job: Job) -> Outcome:
    acknowledged = 0
    failed: list[KafkaError] = []

    def committed(error: KafkaError | None, _: list[TopicPartition]) -> None:
        nonlocal acknowledged
        if error is None:
            acknowledged += 1
        else:
            failed.append(error)

    names = [f"bench-{uuid.uuid4().hex[:12]}" for _ in range(COMMITTING_GROUPS)]
    consumers = [_consumer(job, name, on_commit=committed) for name in names]
    for consumer in consumers:
        consumer.assign([TopicPartition(job.topic, 0)])
        consumer.pause([TopicPartition(job.topic, 0)])
    turn = itertools.cycle(consumers)
    _send(turn, consumers, job, time.perf_counter() + max(1.0, job.ramp_seconds))
    before = acknowledged
    meter = Meter(job.broker_pids)
    _send(turn, consumers, job, time.perf_counter() + job.seconds)
    meter.stop()
    done = acknowledged - before
    for consumer in consumers:
        consumer.close()
    if failed:
        raise BenchError(f"{len(failed)} commits failed, the first with {failed[0].name()}")
    return meter.outcome(done)


def _send(turn: "itertools.cycle[Consumer]", consumers: list[Consumer], job: Job, until: float) -> None:
    """Commits at a steady rate, whatever the broker does."""
    began = time.perf_counter()
    sent = 0
    while (now := time.perf_counter()) < until:
        due = int((now - began) * COMMITS_PER_SECOND)
        for number in range(sent, due):
            next(turn).commit(offsets=[TopicPartition(job.topic, 0, number)], asynchronous=True)
        sent = due
        for consumer in consumers:
            consumer.poll(0)
        time.sleep(TICK_SECONDS)
