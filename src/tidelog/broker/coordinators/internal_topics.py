"""The internal topics: their settings, and their creation when a client first needs them."""

from collections.abc import Callable
from typing import NamedTuple

from tidelog.broker.links.ports import BrokerPorts
from tidelog.broker.links.to_controller import create_topic
from tidelog.config import BrokerConfig
from tidelog.controller.topics import NewTopic
from tidelog.errors import TidelogError

MINIMUM = "min.insync.replicas"
CONSUMER_OFFSETS = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"

Created = Callable[[TidelogError | None], None]


class _Shape(NamedTuple):
    partitions: int
    replicas: int  # an upper bound: fewer if there are fewer brokers
    min_in_sync: int
    segment_bytes: int

    def minimum(self, replicas: int) -> int:
        """With two replicas, a minimum of two would make all groups unavailable when one broker stops."""
        return min(self.min_in_sync, max(1, replicas - 1))


def shape_of(name: str, config: BrokerConfig) -> _Shape:
    if name == CONSUMER_OFFSETS:
        return _Shape(
            config.offsets_topic_num_partitions,
            config.offsets_topic_replication_factor,
            2,
            config.offsets_topic_segment_bytes,
        )
    return _Shape(
        config.transaction_state_log_num_partitions,
        config.transaction_state_log_replication_factor,
        config.transaction_state_log_min_isr,
        config.transaction_state_log_segment_bytes,
    )


class InternalTopics:
    """Creates each internal topic once, even if many clients ask for it at the same time."""

    def __init__(self, broker: BrokerPorts) -> None:
        self._broker = broker
        self._pending: dict[str, list[Created]] = {}

    def ensure(self, name: str, done: Created) -> None:
        """Create the topic if needed. Calls ``done`` when its partitions are open, or with the error."""
        if name in self._broker.image.topics:
            done(None)
            return
        pending = self._pending.setdefault(name, [])
        pending.append(done)
        if len(pending) == 1:
            self._create(name)

    def _create(self, name: str) -> None:
        broker = self._broker
        new = _new_topic(name, broker.config, len(broker.image.brokers))
        create_topic(broker, new, lambda error: self._created(name, error))

    def _created(self, name: str, error: TidelogError | None) -> None:
        for done in self._pending.pop(name, []):
            done(error)


def _new_topic(name: str, config: BrokerConfig, brokers: int) -> NewTopic:
    shape = shape_of(name, config)
    replicas = min(shape.replicas, max(1, brokers))
    configs = {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": str(shape.segment_bytes),
        MINIMUM: str(shape.minimum(replicas)),
    }
    return NewTopic(name, shape.partitions, replicas, configs=configs)
