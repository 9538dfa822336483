"""OffsetForLeaderEpoch, versions 2 to 4: the end offset of an epoch, so that consumers detect truncation.

A leader that may have a successor does not answer for later epochs than its own: see
:meth:`Partition.check_later_epoch`. Nor does any other before its followers have confirmed that they follow.
"""

from collections.abc import Iterator
from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.future import Gather
from tidelog.broker.partitions.partition import MustConfirm
from tidelog.broker.requests.request import Outcome, RequestContext
from tidelog.broker.slices import respond_in_slices
from tidelog.errors import ErrorCode, TidelogError
from tidelog.protocol.messages import Fields

OFFSET_MAX = (1 << 63) - 1


LOOK_UPS_PER_SLICE = 500  # about 2 ms


def handle(broker: Broker, request: Any, context: RequestContext) -> Outcome:
    topics = [
        {"topic": topic.topic, "partitions": [{} for _ in topic.partitions]} for topic in request.topics
    ]
    gather = Gather(sum(len(topic.partitions) for topic in request.topics))

    def look_up_each() -> Iterator[None]:
        for topic, response in zip(request.topics, topics, strict=True):
            for place, wanted in enumerate(topic.partitions):
                _look_up_in_turn(broker, topic.topic, wanted, response["partitions"], place, gather)
                yield

    return respond_in_slices(
        broker.services, look_up_each(), LOOK_UPS_PER_SLICE, lambda: gather.when_done({"topics": topics})
    )


def _look_up_in_turn(
    broker: Broker, topic: str, wanted: Any, rows: list[Fields], place: int, gather: Gather
) -> None:
    """Puts the result into ``rows``, perhaps only after the followers have confirmed that they follow."""

    def complete(*, confirmed: bool | None) -> None:
        rows[place] = _look_up(broker, topic, wanted, confirmed=confirmed)
        gather.one_done()

    partition, _ = broker.partitions.find(topic, wanted.partition)
    try:
        complete(confirmed=None)
    except MustConfirm:
        if partition is None:
            raise
        partition.when_followed(lambda certain: complete(confirmed=certain))


def _look_up(broker: Broker, topic: str, wanted: Any, *, confirmed: bool | None) -> Fields:
    """``confirmed``: whether the followers still follow; None: they were not asked. Raises MustConfirm."""
    partition, error = broker.partitions.find(topic, wanted.partition)
    if partition is not None:
        error = partition.check_reader(wanted.current_leader_epoch)
    if partition is not None and not error:
        try:
            partition.check_later_epoch(wanted.leader_epoch, confirmed=confirmed is True)
        except TidelogError as refusal:
            error = refusal.code
        except MustConfirm:
            if confirmed is None:
                raise
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
