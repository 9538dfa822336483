"""DeleteRecords, versions 0 to 2: raises the log start offset.

The response is sent when no future leader can bring the deleted records back. That is when every replica that
may lead next has raised its own log start offset or, in quorum topics, when a record of the deletion is
committed.
"""

from collections.abc import Iterator
from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.future import Future, Gather
from tidelog.broker.partitions.partition import Partition
from tidelog.broker.requests.request import Outcome, RequestContext
from tidelog.broker.slices import respond_in_slices
from tidelog.errors import ErrorCode, TidelogError
from tidelog.protocol.messages import Fields, milliseconds

TO_HIGH_WATERMARK = -1
RECHECK_MS = 10
DELETIONS_PER_SLICE = 100  # about 3 ms, where segments go


def handle(broker: Broker, request: Any, context: RequestContext) -> Outcome:
    deadline_ms = broker.services.uptime_ms() + max(milliseconds(request.timeout), 0)
    topics: list[Fields] = []
    gather = Gather(sum(len(topic.partitions) for topic in request.topics))

    def delete_each() -> Iterator[None]:
        for topic in request.topics:
            responses: list[Fields] = []
            topics.append({"name": topic.name, "partitions": responses})
            for wanted in topic.partitions:
                responses.append(_Deletion(broker, topic.name, wanted, deadline_ms, gather).response)
                yield

    def respond() -> Future[Fields]:
        future: Future[Fields] = Future()
        gather.future.then(lambda _: future.complete({"topics": topics}))
        return future

    return respond_in_slices(broker.services, delete_each(), DELETIONS_PER_SLICE, respond)


class _Deletion:
    def __init__(self, broker: Broker, topic: str, wanted: Any, deadline_ms: int, gather: Gather) -> None:
        self._services = broker.services
        self._deadline_ms = deadline_ms
        self._gather = gather
        self.response: dict[str, Any] = {"partition_index": wanted.partition_index}
        partition, error = broker.partitions.find(topic, wanted.partition_index)
        if partition is None:
            self._done(-1, error)
            return
        try:
            last = partition.delete_records(None if wanted.offset == TO_HIGH_WATERMARK else wanted.offset)
        except TidelogError as refusal:
            self._done(-1, refusal.code)
            return
        self._look(partition, partition.log.start_offset, last, partition.replica.epoch)

    def _look(self, partition: Partition, offset: int, last: int, epoch: int) -> None:
        # After a change of epoch, the record of the deletion may have been truncated and replaced by others.
        if not partition.leads or (last and partition.replica.epoch != epoch):
            self._done(-1, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        elif self._is_permanent(partition, offset, last):
            self._done(partition.low_watermark, ErrorCode.NONE)
        elif self._services.uptime_ms() >= self._deadline_ms:
            self._done(-1, ErrorCode.REQUEST_TIMED_OUT)
        else:
            self._services.later(RECHECK_MS, lambda: self._look(partition, offset, last, epoch))

    def _is_permanent(self, partition: Partition, offset: int, last: int) -> bool:
        partition.log.keep_start()  # The disk may have refused to record it before.
        return partition.low_watermark >= offset and partition.high_watermark >= last

    def _done(self, low_watermark: int, error: ErrorCode) -> None:
        self.response["low_watermark"] = low_watermark
        self.response["error_code"] = error
        self._gather.one_done()
