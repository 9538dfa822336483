"""The metrics of consumer groups that this broker coordinates, in Prometheus' text format."""

import asyncio
from collections.abc import AsyncIterator

from tidelog.broker.broker import Broker
from tidelog.runtime.metric_text import about, escaped

LINES_PER_SLICE = 2000

OFFSET = "tidelog_group_committed_offset"
LAG = "tidelog_group_lag_records"


async def of_groups(broker: Broker) -> AsyncIterator[str]:
    """The event loop runs other tasks in between. Offsets that are committed meanwhile may be missed."""
    lags: list[str] = []
    yield about(OFFSET, "gauge", "Offset that a group has committed, from its coordinator.")
    written = 0
    for machine in broker.coordinators.groups.machines():
        offsets = machine.groups.offsets
        for group in offsets.group_ids():
            labels_of_group = f'group="{escaped(group)}"'
            for topic, index, committed in list(offsets.of_group(group)):
                labels = f'{{{labels_of_group},partition="{index}",topic="{topic}"}}'
                yield f"{OFFSET}{labels} {float(committed.offset)}\n"
                end_offset = _end_offset(broker, topic, index)
                if end_offset is not None:
                    lags.append(f"{LAG}{labels} {float(max(end_offset - committed.offset, 0))}\n")
                written += 1
                if written % LINES_PER_SLICE == 0:
                    await asyncio.sleep(0)
    yield about(LAG, "gauge", "Records after it, where the coordinator has a replica of the partition.")
    for line in lags:
        yield line


def _end_offset(broker: Broker, topic: str, index: int) -> int | None:
    partition, _ = broker.partitions.find(topic, index)
    return partition.high_watermark if partition is not None else None
