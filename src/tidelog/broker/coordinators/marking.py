"""Writes transaction markers to partitions that this broker leads."""

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
"""The coordinator whose state is stored in this topic; None for any other topic."""


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
    """Write a marker. Calls ``done`` with NONE when it is committed, otherwise with the error."""
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
        # A late copy of a marker does not apply to the offset commits that are pending now.
        partition.when_acknowledged(end_offset, ACKS_ALL, TIMEOUT_MS, done)
        return

    def acknowledged(error: ErrorCode) -> None:
        if not error:
            # Offsets that were committed in the transaction become visible.
            coordinator.marker(name.partition, producer_id, epoch, marker.commits)
        else:
            # The marker is in the log and may still be committed. A retry of it is not new, so the machine
            # would never see it.
            coordinator.load_again(name.partition)
        done(error)

    partition.when_acknowledged(end_offset, ACKS_ALL, TIMEOUT_MS, acknowledged)
