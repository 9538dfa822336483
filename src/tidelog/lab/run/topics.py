"""The topics of one round: made with their replicas in place, and removed after it.

Owns the admin client. Leaders are where the placement wants them before the load starts.
"""

import contextlib
import time
from collections.abc import Mapping, Sequence

from confluent_kafka import ElectionType, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tidelog.client.cluster_view import PartitionView
from tidelog.config.modes import WITHOUT_MEANING
from tidelog.lab.experiment.model import TopicSpec
from tidelog.lab.experiment.modes import terms_of
from tidelog.lab.run.placement import assignment
from tidelog.lab.targets.base import Target, TargetError

CREATE_S = 60.0
ALIGN_S = 10.0
POLL_S = 0.05
DEFAULT_MODE = "isr"


class Topics:
    def __init__(self, target: Target, specs: Sequence[TopicSpec]) -> None:
        self._target = target
        self._specs = specs
        self._names = [spec.name for spec in specs]
        self._admin = AdminClient({"bootstrap.servers": target.bootstrap, "log_level": 2})

    def create(self, order: Sequence[int]) -> None:
        """All of them with replicas in this order, in sync, led by their first replicas."""
        new = [self._new(spec, order) for spec in self._specs]
        for name, future in self._admin.create_topics(new, operation_timeout=30).items():
            try:
                future.result(CREATE_S)
            except KafkaException as error:
                raise TargetError(f"Topic {name} could not be created: {error.args[0].str()}.") from error
        self.await_in_sync(CREATE_S)
        self._align()

    def delete(self) -> None:
        """As far as that is possible; a cluster that has just been broken may not be able to."""
        with contextlib.suppress(KafkaException):
            self._admin.delete_topics(self._names, operation_timeout=5)

    def is_in_sync(self) -> bool:
        """Whether every replica of every partition is; no answer counts as no. A broker that has just ended
        may still be a member: it has to answer itself.
        """
        try:
            found = self._target.view(*self._names).topics
        except OSError:
            return False
        parts = [part for partitions in found.values() for part in partitions]
        replicas = {number for part in parts for number in part.replicas}
        return (
            len(found) == len(self._names)
            and all(part.leader >= 0 and set(part.in_sync) == set(part.replicas) for part in parts)
            and replicas <= self._target.answering()
        )

    def await_in_sync(self, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while not self.is_in_sync():
            if time.monotonic() > deadline:
                raise TargetError(
                    f"The replicas of {', '.join(self._names)} are not in sync after {timeout_s:g} s."
                )
            time.sleep(POLL_S)

    def leaders(self) -> dict[str, list[int]]:
        """By topic and partition."""
        found = self._target.view(*self._names).topics
        return {spec.name: _leaders(found.get(spec.name, []), spec.partitions) for spec in self._specs}

    def _new(self, spec: TopicSpec, order: Sequence[int]) -> NewTopic:
        return NewTopic(
            spec.name,
            num_partitions=spec.partitions,
            replica_assignment=assignment(order, spec.partitions, spec.replicas),
            config=dict(settings_of(spec)),
        )

    def _align(self) -> None:
        """Replicas of a new topic may have elected another than the first."""
        deadline = time.monotonic() + ALIGN_S
        while misled := self._misled():
            if time.monotonic() > deadline:
                return  # The fault hits one of the topics elsewhere; promises are judged by who really led.
            with contextlib.suppress(KafkaException):
                self._admin.elect_leaders(ElectionType.PREFERRED, misled).result(5)
            time.sleep(POLL_S)

    def _misled(self) -> list[TopicPartition]:
        found = self._target.view(*self._names).topics
        return [
            TopicPartition(name, number)
            for name, partitions in found.items()
            for number, part in enumerate(partitions)
            if part.leader != part.replicas[0]
        ]


def _leaders(known: Sequence[PartitionView], partitions: int) -> list[int]:
    """-1 where none is known: a broker that has just started may not know the topic yet."""
    found = [part.leader for part in known[:partitions]]
    return found + [-1] * (partitions - len(found))


def settings_of(spec: TopicSpec) -> Mapping[str, str]:
    """What is sent. The number of copies is always said: brokers have different defaults for it."""
    settings = dict(spec.settings)
    if spec.mode != DEFAULT_MODE:  # Kafka has no such setting, and only this mode.
        settings["replication.mode"] = spec.mode
    if "min.insync.replicas" not in WITHOUT_MEANING[spec.mode]:
        settings.setdefault("min.insync.replicas", str(terms_of(spec).copies))
    return settings
