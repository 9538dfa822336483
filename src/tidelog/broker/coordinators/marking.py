"""The end of a transaction in one partition that this broker leads."""

from collections.abc import Callable
from typing import Any

from tidelog.broker.coordinators.coordinator import Coordinator
from tidelog.broker.links.ports import BrokerPorts
from tidelog.broker.partitions.partition import ACKS_ALL
from tidelog.errors import ErrorCode, TidelogError
from tidelog.protocol.markers import Marker
from tidelog.types import TopicPartition

TIMEOUT_MS = 10_000

CoordinatorOf = Callable[[str], Coordinator[Any] | None]
"""The coordinator whose state an internal topic holds; None for any other topic."""


def write_marker(
    broker: BrokerPorts,
    coordinator_of: CoordinatorOf,
    name: TopicPartition,
    producer_id: int,
    epoch: int,
    marker: Marker,
    client_version: int,
    done: Callable[[ErrorCode], None],
) -> None:
    """Write a marker; ``done`` hears when it is committed, or why it is not."""
    partition, error = broker.partitions.find(*name)
    if partition is None:
        done(error)
        return
    try:
        end_offset, is_new = partition.append_marker(
            producer_id, epoch, marker, broker.services.now_ms(), client_version
        )
    except TidelogError as refusal:
        done(refusal.code)
        return
    coordinator = coordinator_of(name.topic)
    if coordinator is None or not is_new:
        # A copy that comes late says nothing about the offsets that are pending by now.
        partition.when_acknowledged(end_offset, ACKS_ALL, TIMEOUT_MS, done)
        return

    def acknowledged(error: ErrorCode) -> None:
        if not error:
            # Offsets that were committed in the transaction count from here on.
            coordinator.marker(name.partition, producer_id, epoch, marker.commits)
        else:
            # It is in the log, and may be committed yet; a copy of it would not tell the machine.
            coordinator.load_again(name.partition)
        done(error)

    partition.when_acknowledged(end_offset, ACKS_ALL, TIMEOUT_MS, acknowledged)
