"""Replicas of the internal topics: as many as their settings say, as soon as there are enough brokers.

An internal topic is created when it is first needed, with as many replicas as there are brokers then. The
active controller's broker adds the missing ones when more brokers have joined, by a reassignment like an
operator's, and then raises ``min.insync.replicas`` to what a new topic would get. Both are logged. It does
nothing while a partition of the topic is being moved, and uses no broker that is drained or stops: an
operator may be about to remove that one.
"""

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from tidelog.broker.broker import Broker
from tidelog.broker.coordinators.internal_topics import CONSUMER_OFFSETS, MINIMUM, TRANSACTION_STATE, shape_of
from tidelog.controller import configs, reassignment, topics
from tidelog.controller.availability import is_drained
from tidelog.controller.image import ClusterImage, TopicImage
from tidelog.controller.records import MetadataRecord
from tidelog.controller.rules import Rulebook
from tidelog.controller.store import Decide
from tidelog.errors import TidelogError

logger = logging.getLogger(__name__)

Replicas = tuple[int, ...]


class InternalReplicas:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._raised: set[str] = set()  # topics that got replicas, whose minimum may follow
        self._deciding = False

    def look(self) -> None:
        broker = self._broker
        if broker.store.leader != broker.broker_id:
            self._raised.clear()
            return
        for name in (CONSUMER_OFFSETS, TRANSACTION_STATE):
            topic = broker.image.topics.get(name)
            if topic is None or self._deciding or any(each.is_moving for each in topic.partitions):
                continue
            wanted = shape_of(name, broker.config).replicas
            if missing := more_replicas(broker.image, topic, wanted):
                self._raise(name, missing)
            elif name in self._raised:
                self._raise_minimum(topic, name)

    def _raise(self, name: str, missing: Mapping[int, Replicas]) -> None:
        rules = Rulebook(self._broker.config)

        def decide(image: ClusterImage) -> Sequence[MetadataRecord]:
            rules_of = rules.at(image)
            return [
                record
                for index, replicas in missing.items()
                for record in reassignment.begin(image, name, index, replicas, rules_of)
            ]

        most = max(len(replicas) for replicas in missing.values())
        self._raised.add(name)
        self._submit(
            decide, f"{name}: {len(missing)} partitions get {most} replicas, because brokers have joined"
        )

    def _raise_minimum(self, topic: TopicImage, name: str) -> None:
        self._raised.discard(name)
        shape = shape_of(name, self._broker.config)
        wanted = shape.minimum(min(len(each.replicas) for each in topic.partitions))
        if int(topic.configs.get(MINIMUM, "0")) >= wanted:
            return
        rules = Rulebook(self._broker.config)

        def decide(image: ClusterImage) -> Sequence[MetadataRecord]:
            overrides = dict(topics.require(image, name).configs)
            return configs.change_topic(image, name, {**overrides, MINIMUM: str(wanted)}, rules)

        self._submit(decide, f"{name}: {MINIMUM} is {wanted} now, because it has more replicas")

    def _submit(self, decide: Decide, said: str) -> None:
        def done(refusal: TidelogError | None) -> None:
            self._deciding = False
            if refusal is None:
                logger.info("%s", said)
            else:
                logger.warning("%s: refused, tried again later: %s", said, refusal.message)

        self._deciding = True
        self._broker.store.submit(decide, done)


def more_replicas(image: ClusterImage, topic: TopicImage, wanted: int) -> dict[int, Replicas]:
    """The replicas of the partitions that have fewer than there could be: those that they have, and more."""
    able = [
        broker.broker_id
        for broker in image.brokers.values()
        if not broker.fenced and not broker.leaving and not is_drained(image, broker.broker_id)
    ]
    held = Counter(replica for partition in topic.partitions for replica in partition.replicas)
    found = {}
    for index, partition in enumerate(topic.partitions):
        replicas = partition.replicas
        for broker in _candidates(image, able, replicas, held, wanted):
            replicas = (*replicas, broker)
            held[broker] += 1
        if replicas != partition.replicas:
            found[index] = replicas
    return found


def _candidates(
    image: ClusterImage, able: Sequence[int], present: Replicas, held: Mapping[int, int], wanted: int
) -> Iterator[int]:
    """Other racks first, then the brokers with the fewest replicas of the topic."""
    racks = Counter(image.brokers[each].rack for each in present if each in image.brokers)
    left = [broker for broker in able if broker not in present]
    for _ in range(wanted - len(present)):
        if not left:
            return
        best = min(left, key=lambda broker: (racks[image.brokers[broker].rack], held[broker], broker))
        left.remove(best)
        racks[image.brokers[best].rack] += 1
        yield best
