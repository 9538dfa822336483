"""Numbered batches that were refused a moment ago: later ones of their producer are not appended before them.

A producer has up to five requests in flight. If the first is refused because this broker does not lead yet,
and the broker leads when the second arrives, the second must not be appended before the first was sent again.
It gets the error of the first, and the producer sends both again, in order. The rule itself is in
:meth:`tidelog.log.producers.ProducerStates.check`. It asks for refused batches only where a batch does not
continue the log, or where the log does not know the producer.

A note must last until its producer has the answer: requests that it sends after that are in order. So notes
are dropped when the batch or a later one is appended, and otherwise by a timer and not by the clock: a broker
that was frozen first reads the requests that wait in its sockets. Notes are kept by partition as the client
names it, because a partition that is not open yet refuses batches, too.

Pure: the timer comes from the services.
"""

from collections.abc import Mapping
from struct import Struct

from tidelog.controller.topics import MAX_NAME_LENGTH
from tidelog.errors import ErrorCode
from tidelog.log.producers import BATCHES_REMEMBERED, is_ahead
from tidelog.protocol.batch import HEADER_SIZE
from tidelog.protocol.produce import TopicKey
from tidelog.services import Services

NOTED_MS = 5000  # A note lasts at least so long, and at most twice as long.
PRODUCERS_MAX = 10_000  # Of notes made within NOTED_MS; more of them shorten the time.

_numbers = Struct(">43xqhi").unpack_from
"""Producer id, producer epoch and base sequence of a batch."""

_SAME = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)
"""Errors after which clients send a batch again, and which are true of a later batch as well."""

_RETRIED_AS_NOT_ENOUGH_REPLICAS = frozenset({ErrorCode.REQUEST_TIMED_OUT, ErrorCode.CORRUPT_MESSAGE})
"""Clients send these again, too. But the later batch is not damaged, and has certainly not been written."""

_Producer = tuple[TopicKey, int, int, int]
"""Topic, partition, producer id and epoch."""


class RefusedBatches:
    __slots__ = ("_noted", "_noted_before", "_services", "any")

    def __init__(self, services: Services) -> None:
        self._services = services
        self._noted: dict[_Producer, dict[int, ErrorCode]] = {}
        self._noted_before: dict[_Producer, dict[int, ErrorCode]] = {}  # dropped when the timer fires next
        self.any = False  # whether there is a note; nothing else is looked at while there is none

    def note(self, key: TopicKey, index: int, records: memoryview | None, error: ErrorCode) -> None:
        """A batch was not appended."""
        if records is None or len(records) < HEADER_SIZE or _is_no_topic(key):
            return
        producer_id, epoch, sequence = _numbers(records)
        if producer_id < 0 or sequence < 0:
            return
        if not self.any:
            self.any = True
            self._services.later(NOTED_MS, self._drop_old)
        if len(self._noted) >= PRODUCERS_MAX:
            self._noted_before, self._noted = self._noted, {}
        refused = self._noted.setdefault((key, index, producer_id, epoch), {})
        refused.pop(sequence, None)  # The oldest come first.
        if len(refused) >= BATCHES_REMEMBERED:
            del refused[next(iter(refused))]
        refused[sequence] = told_to_later_ones(error)

    def note_open(self, key: TopicKey, index: int, records: memoryview | None) -> None:
        """A batch is checked in a thread before it is appended. Its connection waits, but the coordinator may
        have been asked about later batches.
        """
        self.note(key, index, records, ErrorCode.NOT_ENOUGH_REPLICAS)

    def before(self, key: TopicKey, index: int, records: memoryview) -> Mapping[int, ErrorCode] | None:
        """The refused batches of the producer of this batch: for each base sequence the error that later
        batches get.
        """
        if len(records) < HEADER_SIZE:
            return None
        producer_id, epoch, _ = _numbers(records)
        producer = (key, index, producer_id, epoch)
        older, newer = self._noted_before.get(producer), self._noted.get(producer)
        return newer if older is None else older if newer is None else older | newer

    def appended(self, key: TopicKey, index: int, records: memoryview) -> None:
        """A batch was appended, so those before it are in the log by now. The log may forget its producer,
        and a note of them would refuse the next batches.
        """
        producer_id, epoch, appended = _numbers(records)
        producer = (key, index, producer_id, epoch)
        for noted in (self._noted, self._noted_before):
            refused = noted.get(producer)
            if refused is not None:
                for sequence in [each for each in refused if not is_ahead(each, appended)]:
                    del refused[sequence]

    def _drop_old(self) -> None:
        self._noted_before, self._noted = self._noted, {}
        self.any = bool(self._noted_before)
        if self.any:
            self._services.later(NOTED_MS, self._drop_old)


def _is_no_topic(key: TopicKey) -> bool:
    """No topic can have this name. A client may send 32 KB of it, and notes keep names."""
    return isinstance(key, str) and len(key) > MAX_NAME_LENGTH


def told_to_later_ones(error: ErrorCode) -> ErrorCode:
    """The error of a batch that follows a refused one."""
    if error in _SAME:
        return error
    if error in _RETRIED_AS_NOT_ENOUGH_REPLICAS:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER  # The first is not sent again, so a later one leaves a gap.
