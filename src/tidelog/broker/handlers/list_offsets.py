"""ListOffsets, versions 1 to 11: earliest, latest, by time, of the largest timestamp, and the local log
start.

With the isolation level read_committed, nothing above the last stable offset is found. For Kafka's special
timestamps of tiered storage (-5, -6) the response is that of a log without tiers.

A new leader may not know yet how far consumers of its predecessor have read. Until it does, after a few
fetches of its followers, the response is OFFSET_NOT_AVAILABLE (LEADER_NOT_AVAILABLE before version 5): the
end offset that clients see must not decrease. For the same reason a leader that may have a successor asks its
followers first: consumers may have read more at the successor.

Look-ups by time decode a batch. A compressed or large batch is decoded in a thread.
"""

import logging
from collections.abc import Callable, Iterator
from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.future import Future, Gather
from tidelog.broker.partitions.partition import Partition
from tidelog.broker.requests.request import RequestContext
from tidelog.broker.slices import respond_in_slices
from tidelog.errors import ErrorCode, TidelogError
from tidelog.log.index_build import Unindexed
from tidelog.log.lookup import LookupResult, Opened, Unopened
from tidelog.log.verification import DamagedSegment
from tidelog.protocol.messages import Fields

logger = logging.getLogger(__name__)

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = (
    -1,
    -2,
    -3,
    -4,
    -5,
    -6,
)
OLDEST_VERSION_WITH = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}

Found = tuple[int, int, int]
"""(timestamp, offset, leader epoch)"""
NOTHING: Found = (-1, -1, -1)
FROM_THE_START = (EARLIEST, EARLIEST_LOCAL)
NOT_AVAILABLE_FROM_VERSION = 5


READ_COMMITTED = 1
LOOK_UPS_PER_SLICE = 300  # about 2 ms
ANY_REPLICA = -2  # As replica_id, as in Kafka: for tools that inspect this replica, leader or not.


def handle(broker: Broker, request: Any, context: RequestContext) -> Fields | Future[Fields]:
    if request.replica_id == ANY_REPLICA:
        return {"topics": [_ends_of(broker, topic) for topic in request.topics]}
    committed = getattr(request, "isolation_level", 0) == READ_COMMITTED
    topics = [{"name": topic.name, "partitions": [{} for _ in topic.partitions]} for topic in request.topics]
    gather = Gather(sum(len(topic.partitions) for topic in request.topics))

    def look_up_each() -> Iterator[None]:
        for topic, response in zip(request.topics, topics, strict=True):
            for place, wanted in enumerate(topic.partitions):
                look_up = LookUp(broker, topic.name, wanted, context.version, committed)
                look_up.run(_result_setter(response["partitions"], place, gather))
                yield

    return respond_in_slices(
        broker.services, look_up_each(), LOOK_UPS_PER_SLICE, lambda: gather.when_done({"topics": topics})
    )


def _result_setter(rows: list[Fields], place: int, gather: Gather) -> Callable[[Fields], None]:
    def complete(row: Fields) -> None:
        rows[place] = row
        gather.one_done()

    return complete


def _ends_of(broker: Broker, topic: Any) -> Fields:
    """Log start and log end offsets of this broker's replicas, including uncommitted records."""
    rows = []
    for wanted in topic.partitions:
        partition, error = broker.partitions.find(topic.name, wanted.partition_index)
        found = NOTHING
        if partition is not None and wanted.timestamp == LATEST:
            found = -1, partition.log.end_offset, partition.replica.last_epoch
        elif partition is not None and wanted.timestamp in FROM_THE_START:
            found = _find(partition, EARLIEST, 0)
        elif partition is not None:
            error = ErrorCode.INVALID_REQUEST
        rows.append(_fields(wanted.partition_index, error, found))
    return {"name": topic.name, "partitions": rows}


class LookUp:
    """The look-up in one partition. A batch that takes long to search is searched in a thread. Then all
    checks are repeated, because the log, its leader and the readable end may have changed.
    """

    def __init__(self, broker: Broker, topic: str, wanted: Any, version: int, committed: bool) -> None:
        self._broker = broker
        self._topic = topic
        self._wanted = wanted
        self._version = version
        self._committed = committed
        self._opened: Opened | None = None
        self._end_offset = 0  # the readable end when the first batch was passed to a thread
        self._is_confirmed = False  # No other broker led when the request arrived.

    def run(self, complete: Callable[[Fields], None]) -> None:
        index = self._wanted.partition_index
        partition, error = self._broker.partitions.find(self._topic, index)
        if partition is not None:
            error = error or self._refusal(partition)
        if partition is None or error:
            complete(_fields(index, error, NOTHING))
            return
        if self._must_confirm(partition):
            partition.when_certain(lambda certain: self._confirmed(certain, complete))
            return
        try:
            found = self._find(partition)
        except Unopened as batch:
            self._look_elsewhere(batch, complete)
            return
        except Unindexed as unindexed:
            partition.driver.build_indexes(unindexed, lambda error: self._indexed(error, complete))
            return
        except TidelogError as refusal:
            complete(_refuse(partition, index, refusal))
            return
        complete(_fields(index, ErrorCode.NONE, found))

    def _refusal(self, partition: Partition) -> ErrorCode:
        wanted, version = self._wanted, self._version
        error = partition.check_reader(getattr(wanted, "current_leader_epoch", -1))
        if error:
            return error
        oldest = OLDEST_VERSION_WITH.get(wanted.timestamp, 0)
        if version < oldest or wanted.timestamp < EARLIEST_PENDING_UPLOAD:
            return ErrorCode.UNSUPPORTED_VERSION
        if wanted.timestamp in FROM_THE_START or partition.knows_committed:
            return ErrorCode.NONE
        if version < NOT_AVAILABLE_FROM_VERSION:
            return ErrorCode.LEADER_NOT_AVAILABLE
        return ErrorCode.OFFSET_NOT_AVAILABLE

    def _must_confirm(self, partition: Partition) -> bool:
        """Whether a successor may have shown a later end to consumers. A stand-in serves what it has."""
        if self._is_confirmed or self._wanted.timestamp in FROM_THE_START:
            return False
        return partition.leads and not partition.leads_for_certain

    def _confirmed(self, certain: bool, complete: Callable[[Fields], None]) -> None:
        if certain:
            self._is_confirmed = True
            self.run(complete)
        else:
            index = self._wanted.partition_index
            complete(_fields(index, ErrorCode.NOT_LEADER_OR_FOLLOWER, NOTHING))

    def _find(self, partition: Partition) -> Found:
        log = partition.log
        if self._opened is None or self._opened.cuts != log.cuts or self._opened.log is not log:
            self._opened = Opened(log)
            self._end_offset = (
                partition.last_stable_offset if self._committed else partition.readable_end_offset
            )
        return _find(partition, self._wanted.timestamp, self._end_offset, self._opened)

    def _indexed(self, error: BaseException | None, complete: Callable[[Fields], None]) -> None:
        if error is None:
            self._broker.services.soon(lambda: self.run(complete))
        else:
            complete(_fields(self._wanted.partition_index, ErrorCode.KAFKA_STORAGE_ERROR, NOTHING))

    def _look_elsewhere(self, batch: Unopened, complete: Callable[[Fields], None]) -> None:
        def seen(found: LookupResult | BaseException) -> None:
            try:
                if isinstance(found, BaseException):
                    raise found
                if self._opened is not None:
                    self._opened.note(batch, found)
                self.run(complete)
            except Exception as error:
                # The request must get a response, whatever the error is.
                logger.exception("a look-up in %s-%d failed", self._topic, self._wanted.partition_index)
                code = error.code if isinstance(error, TidelogError) else ErrorCode.UNKNOWN_SERVER_ERROR
                complete(_fields(self._wanted.partition_index, code, NOTHING))

        self._broker.compute(batch.look, seen)


def _refuse(partition: Partition, index: int, refusal: TidelogError) -> Fields:
    if isinstance(refusal, DamagedSegment):
        partition.driver.damage.found(refusal.offset, refusal.message)
    return _fields(index, refusal.code, NOTHING)


def _find(partition: Partition, timestamp: int, end_offset: int, opened: Opened | None = None) -> Found:
    log = partition.log
    if timestamp == LATEST:
        return -1, end_offset, partition.leader_epoch
    if timestamp in FROM_THE_START:
        return -1, log.start_offset, log.epochs.epoch_at(log.start_offset)
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return NOTHING
    if timestamp == MAX_TIMESTAMP:
        return log.find_max_timestamp(end_offset, opened) or NOTHING
    return log.find_timestamp(timestamp, end_offset, opened) or NOTHING


def _fields(index: int, error: ErrorCode, found: Found) -> Fields:
    timestamp, offset, leader_epoch = found
    return {
        "partition_index": index,
        "error_code": error,
        "timestamp": timestamp,
        "offset": offset,
        "leader_epoch": leader_epoch,
    }
