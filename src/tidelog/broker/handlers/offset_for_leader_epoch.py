"""OffsetForLeaderEpoch, versions 2 to 4: the end offset of an epoch, so that consumers detect truncation.

A leader that may have a successor does not answer for later epochs than its own: see
:meth:`Partition.may_lack`.
"""

from collections.abc import Iterator
from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.requests.request import Outcome, RequestContext
from tidelog.broker.slices import respond_in_slices
from tidelog.errors import ErrorCode
from tidelog.protocol.messages import Fields

OFFSET_MAX = (1 << 63) - 1


LOOK_UPS_PER_SLICE = 500  # about 2 ms


def handle(broker: Broker, request: Any, context: RequestContext) -> Outcome:
    topics: list[Fields] = []

    def look_up_each() -> Iterator[None]:
        for topic in request.topics:
            rows: list[Fields] = []
            topics.append({"topic": topic.topic, "partitions": rows})
            for wanted in topic.partitions:
                rows.append(_look_up(broker, topic.topic, wanted))
                yield

    return respond_in_slices(broker.services, look_up_each(), LOOK_UPS_PER_SLICE, lambda: {"topics": topics})


def _look_up(broker: Broker, topic: str, wanted: Any) -> Fields:
    partition, error = broker.partitions.find(topic, wanted.partition)
    if partition is not None:
        error = partition.check_reader(wanted.current_leader_epoch)
        if not error and partition.may_lack(wanted.leader_epoch):
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    epoch, end_offset = -1, -1
    if partition is not None and not error:
        if partition.stands_in and wanted.leader_epoch >= partition.log.epochs.latest:
            # The primary may have served more records than this stand-in has. They are not truncated.
            epoch, end_offset = wanted.leader_epoch, OFFSET_MAX
        elif wanted.leader_epoch == partition.leader_epoch:
            epoch, end_offset = partition.leader_epoch, partition.log.end_offset
        else:
            epoch, end_offset = partition.log.epochs.end_offset_for(
                wanted.leader_epoch, partition.log.end_offset
            )
    return {
        "error_code": error,
        "partition": wanted.partition,
        "leader_epoch": epoch,
        "end_offset": end_offset,
    }
