"""All producers and consumers of one round, and the account of what they did.

Owns the processes, the order in which they begin and end, and the parent's own events: faults, leaders,
usage, and what is read back at the end.

================ ===========================================================================================
call             effect
================ ===========================================================================================
``start``        producers, consumers and the plain clients run
``wait_steady``  every partition with a load has acknowledged writes, and every group has read from it
``mark``         a fault, its end, or full redundancy, into the history of every topic
``finish``       producers end, consumers catch up and end, all is read back; histories become Parquet
``close``        whatever still runs is ended: for the way out after an error
================ ===========================================================================================
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import Message

from tidelog.lab.experiment.model import ConsumerSpec, LoadSpec, TopicSpec
from tidelog.lab.history import HistoryWriter, clock_offset_ns, now_us
from tidelog.lab.history_files import to_parquet
from tidelog.lab.load import record_of
from tidelog.lab.read_back import end_offsets, read_back
from tidelog.lab.workload.children import Child
from tidelog.lab.workload.jobs import CONSUME, PLAIN, PLAIN_PRODUCER, PRODUCE, Job
from tidelog.lab.workload.usage import Pids, UsageSampler, Used

POLL_S = 0.02
END_OFFSETS_S = 20.0
STOP_S = 40.0  # a producer flushes first
CATCH_UP_S = 5.0  # of consumers, without anything new
MISSING_S = 3.0  # at the end of a partition, for an acknowledged record that is not there


class WorkloadFailed(Exception):
    """One sentence: why there is no load."""


class Workload:
    def __init__(
        self,
        bootstrap: str,
        topics: Sequence[TopicSpec],
        loads: Sequence[LoadSpec],
        consumers: Sequence[ConsumerSpec],
        directory: Path,
        run: str,
        mode_by_topic: Mapping[str, str],
        *,
        pids: Pids | None = None,
        plain: bool = True,
    ) -> None:
        """``pids``: the brokers' processes, if their CPU and memory are to be measured. ``plain``: with the
        clients that tell a client's back-off from the cluster's unavailability.
        """
        self._bootstrap, self._directory, self._run = bootstrap, Path(directory), run
        self._partitions = {topic.name: topic.partitions for topic in topics}
        self._loads, self._groups = list(loads), list(consumers)
        self._labels = _labels(self._partitions, mode_by_topic)
        self._plain = plain
        self._directory.mkdir(parents=True, exist_ok=True)
        self._histories = {topic: self._history(topic) for topic in self._partitions}
        self._starts: dict[str, list[int]] = {}
        self._producers: list[Child] = []
        self._consumers: list[Child] = []
        self._plains: list[Child] = []
        self._usage = UsageSampler(pids, self._used) if pids is not None else None
        self._is_closed = False
        self._history_error: OSError | None = None  # events are missing: figures would be wrong

    def start(self) -> None:
        for topic, partitions in self._partitions.items():
            self._starts[topic] = end_offsets(self._bootstrap, topic, partitions, END_OFFSETS_S)
        self._producers = [Child(job) for job in self._producing()]
        self._consumers = [Child(job) for job in self._consuming()]
        self._plains = [Child(job) for job in self._plain_jobs()] if self._plain else []
        for child in self._children:
            child.start()
        if self._usage is not None:
            self._usage.start()

    def wait_steady(self, timeout_s: float) -> None:
        """WorkloadFailed if it does not become so."""
        deadline = time.monotonic() + timeout_s
        while missing := self._not_steady():
            self.check()
            if time.monotonic() > deadline:
                raise WorkloadFailed(f"{missing} within {timeout_s:g} s")
            time.sleep(POLL_S)

    def mark(self, kind: str, name: str) -> None:
        """``fault``, ``healed`` or ``redundant``."""
        now = now_us()
        for history in self._histories.values():
            history.add(kind, now, name=name)

    def acknowledged(self) -> dict[str, int]:
        """How many records so far, by topic."""
        found = dict.fromkeys(self._partitions, 0)
        for child in self._producers:
            found[child.job.topic] += sum(child.counts)
        return found

    def acknowledged_by_partition(self) -> dict[str, dict[int, int]]:
        """The same by topic and partition, of those that have a load."""
        found = {}
        for topic, partitions in self._partitions.items():
            loads = [load for load in self._loads if load.topic == topic]
            sums = _sums([child for child in self._producers if child.job.topic == topic], partitions)
            if loads:
                found[topic] = {number: sums[number] for number in _partitions_with_load(loads, partitions)}
        return found

    def failed(self) -> dict[str, int]:
        """How many records the clients gave up so far, by topic."""
        found = dict.fromkeys(self._partitions, 0)
        for child in self._producers:
            found[child.job.topic] += child.progress.failed
        return found

    def consumed(self) -> dict[str, int]:
        """How many records so far, by topic, all groups together."""
        found = dict.fromkeys(self._partitions, 0)
        for child in self._consumers:
            found[child.job.topic] += sum(child.counts)
        return found

    def sample_leader(self, topic: str, leader: int) -> None:
        """Of partition 0; -1: none."""
        self._histories[topic].add("leader", now_us(), partition=0, broker=leader)

    @property
    def pids(self) -> list[int]:
        """Of the processes that run."""
        return [child.pid for child in self._children if child.pid is not None]

    def check(self) -> None:
        """WorkloadFailed if a process gave up."""
        for child in self._children:
            if child.failure is not None:
                raise WorkloadFailed(child.failure)

    def finish(self, timeout_s: float) -> None:
        """``timeout_s``: for reading back, without anything new."""
        try:
            self._stop(self._plains)
            self._stop(self._producers)
            self._await_consumers()
            self._stop(self._consumers)
            for topic in self._partitions:
                self._read_back(topic, timeout_s)
        finally:
            self.close()
        self.check()
        if self._history_error is not None:
            raise self._history_error
        to_parquet(self._directory)

    def close(self) -> None:
        """Ends what still runs; more than once is fine."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._usage is not None:
            self._usage.stop()
        for child in self._children:
            child.ask_to_stop()
            child.kill()
        for child in self._children:
            child.await_end(STOP_S)
        for history in self._histories.values():
            try:
                history.close()
            except OSError as error:
                self._history_error = error

    # --- jobs ---------------------------------------------------------------------------------------------

    @property
    def _children(self) -> list[Child]:
        return [*self._producers, *self._consumers, *self._plains]

    def _history(self, topic: str) -> HistoryWriter:
        path = self._directory / f"{topic}.lab.jsonl"
        return HistoryWriter(path, run=self._run, mode=self._labels[topic], topic=topic)

    def _job(self, role: str, name: str, topic: str, **more: Any) -> Job:
        return Job(
            role=role,
            name=name,
            bootstrap=self._bootstrap,
            topic=topic,
            partitions=self._partitions[topic],
            run=self._run,
            mode=self._labels[topic],
            clock_offset_ns=clock_offset_ns(),
            directory=str(self._directory),
            starts=tuple(self._starts[topic]),
            **more,
        )

    def _producing(self) -> Iterator[Job]:
        for place, load in enumerate(self._loads, 1):
            for number in range(load.producers):
                name = f"producer-{place}-{number + 1}"
                yield self._job(PRODUCE, name, load.topic, number=number, load=load)

    def _consuming(self) -> Iterator[Job]:
        for place, group in enumerate(self._groups, 1):
            for number in range(group.members):
                name = f"consumer-{place}-{number + 1}"
                yield self._job(CONSUME, name, group.topic, number=number, group=group)

    def _plain_jobs(self) -> Iterator[Job]:
        first = {load.topic: load for load in reversed(self._loads)}
        for topic, load in first.items():
            yield self._job(PLAIN, "plain", topic, load=load)

    # --- the course of a round ----------------------------------------------------------------------------

    def _not_steady(self) -> str | None:
        """What is still missing, in words."""
        for topic, partitions in self._partitions.items():
            if not any(load.topic == topic for load in self._loads):
                continue
            written = _sums([child for child in self._producers if child.job.topic == topic], partitions)
            wanted = _partitions_with_load([load for load in self._loads if load.topic == topic], partitions)
            if silent := [number for number in wanted if not written[number]]:
                return f"partition {silent[0]} of {topic} did not acknowledge a write"
            for group in [group for group in self._groups if group.topic == topic]:
                members = [child for child in self._consumers if child.job.group == group]
                read = _sums(members, partitions)
                if silent := [number for number in wanted if not read[number]]:
                    return f"group {group.group} did not read partition {silent[0]} of {topic}"
        return None

    def _stop(self, children: Sequence[Child]) -> None:
        for child in children:
            child.ask_to_stop()
        for child in children:
            child.await_end(STOP_S)

    def _await_consumers(self) -> None:
        """Until each group has read what was acknowledged; one that gets nothing for a while does not."""
        before = -1
        deadline = time.monotonic() + CATCH_UP_S
        while time.monotonic() < deadline and not self._caught_up():
            now = sum(self.consumed().values())
            if now != before:
                before, deadline = now, time.monotonic() + CATCH_UP_S
            time.sleep(POLL_S)

    def _caught_up(self) -> bool:
        for group in self._groups:
            ends = self._acknowledged_ends(group.topic)
            members = [child for child in self._consumers if child.job.group == group]
            read = [max(ends) for ends in zip(*(child.ends for child in members), strict=True)]
            if any(at < ends[number] for number, at in enumerate(read)):
                return False
        return True

    def _acknowledged_ends(self, topic: str) -> dict[int, int]:
        mine = [child.ends for child in self._producers if child.job.topic == topic]
        return {
            number: max((ends[number] for ends in mine), default=0)
            for number in range(self._partitions[topic])
        }

    def _read_back(self, topic: str, timeout_s: float) -> None:
        history = self._histories[topic]

        def received(message: Message) -> None:
            record = record_of(message.value())
            if record is not None and record[0] != PLAIN_PRODUCER:
                history.add(
                    "received", now_us(), producer=record[0], sequence=record[1],
                    partition=message.partition(), offset=message.offset(),
                )  # fmt: skip

        read_back(
            self._bootstrap, topic, dict(enumerate(self._starts[topic])), self._acknowledged_ends(topic),
            received, timeout_s=timeout_s, missing_s=MISSING_S,
        )  # fmt: skip

    def _used(self, broker: int, pid: int, used: Used) -> None:
        now = now_us()
        for history in self._histories.values():
            history.add("usage", now, broker=broker, name=str(pid), cpu_us=used.cpu_us, bytes=used.rss_bytes)


def _labels(topics: Mapping[str, int], mode_by_topic: Mapping[str, str]) -> dict[str, str]:
    """One for each topic, because figures are by run and mode."""
    labels = {topic: mode_by_topic.get(topic, topic) for topic in topics}
    counts = list(labels.values())
    return {
        topic: label if counts.count(label) == 1 else f"{label} ({topic})" for topic, label in labels.items()
    }


def _sums(children: Sequence[Child], partitions: int) -> list[int]:
    return [sum(child.counts[number] for child in children) for number in range(partitions)]


def _partitions_with_load(loads: Sequence[LoadSpec], partitions: int) -> list[int]:
    """With few keys, some get nothing."""
    from tidelog.lab.workload.jobs import partition_of

    if any(not load.keys for load in loads):
        return list(range(partitions))
    keys = {f"key-{number}".encode() for load in loads for number in range(load.keys)}
    return sorted({partition_of(key, partitions) for key in keys})
