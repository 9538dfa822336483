"""What the metadata log says has happened, for ``tidelog page``: committed decisions with their times.

Only records about brokers, topics and partitions are passed on. The metadata may hold secrets,
so a new kind of record is left out until it is named here.

One answer has as many decisions as fit; the next one begins where it ended. The newest are what people look
at: a reader that begins at -1 gets the last :data:`RECORDS_MAX` records at most.
"""

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID

import msgspec

from tidelog.broker.node.node import Node
from tidelog.controller import records
from tidelog.controller.records import MetadataRecord
from tidelog.protocol.batch import iterate
from tidelog.protocol.records import decode_batch

RECORDS_MAX = 5000
AT_ONCE_BYTES = 1 << 16  # Read and decoded before other tasks have their turn: a few milliseconds.

TOLD = (
    records.BrokerRegistered,
    records.BrokerFencingChanged,
    records.BrokerUnregistered,
    records.TopicCreated,
    records.PartitionsAdded,
    records.PartitionChanged,
    records.TopicDeleted,
    records.TopicConfigChanged,
)
OF_PARTITION = ("leader", "leader_epoch", "in_sync", "eligible", "replicas", "unclean", "mode")


async def past(node: Node, begin: int) -> dict[str, Any]:
    """From the offset ``begin`` on: ``decisions`` as (offset, time in ms, controller's epoch, records), and
    the offset where the next answer has to begin. ``whole``: the log has not forgotten anything before.
    """
    log = node.metadata.driver.log
    end = node.metadata.committed_offset
    offset = max(begin if begin >= 0 else end - RECORDS_MAX, log.start_offset)
    whole = offset == 0
    names: dict[UUID, str] = dict(node.metadata.image.topic_names)
    decisions: list[Any] = []
    count = 0
    while offset < end and count < RECORDS_MAX:
        region = log.read(offset, AT_ONCE_BYTES, end, at_least_one_batch=True)
        view = memoryview(region.read())
        before = offset
        for position, header in iterate(view):
            offset = header.next_offset
            if header.is_control:
                continue
            batch = view[position : position + header.size]
            found = [records.decode(each.value or b"") for each in decode_batch(batch)]
            count += len(found)
            told = list(_told(found, names))
            if told:
                decisions.append([header.base_offset, header.max_timestamp, header.leader_epoch, told])
        if offset == before:
            break  # The rest of a batch that was cut.
        await asyncio.sleep(0)
        end = min(end, node.metadata.committed_offset)
    return {"decisions": decisions, "next": offset, "whole": whole}


def _told(found: list[MetadataRecord], names: dict[UUID, str]) -> Iterator[dict[str, Any]]:
    for record in found:
        if not isinstance(record, TOLD):
            continue
        if isinstance(record, records.TopicCreated):
            names[record.topic_id] = record.name
        fields = msgspec.to_builtins(record)
        if isinstance(record, records.PartitionChanged):
            fields = _of_partition(fields)
        topic_id = getattr(record, "topic_id", None)
        if topic_id is not None:
            fields["topic"] = names.get(topic_id, "")  # empty: deleted long ago
            fields.pop("topic_id", None)
        yield fields


def _of_partition(fields: Mapping[str, Any]) -> dict[str, Any]:
    shown = {name: fields[name] for name in OF_PARTITION if name in fields}
    return {"type": fields["type"], "partition": fields["partition"], **shown}


def given_up(node: Node) -> dict[str, int]:
    """Records that replicas on this broker have given up since it started, by partition."""
    return {
        f"{partition.name.topic}-{partition.name.partition}": partition.driver.given_up
        for partition in node.partitions
        if partition.driver.given_up
    }
