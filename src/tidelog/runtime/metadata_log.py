"""The metadata log of a lone broker: its own log, synced before anything it says counts.

Wishes that arrive while the disk is syncing are decided at once, on top of what is being written, and share
the next sync. When the disk fails, nothing more can be changed; what is known stays readable.
"""

import logging
from collections.abc import Callable, Sequence

from tidelog.controller import records
from tidelog.controller.image import ClusterImage
from tidelog.controller.records import MetadataRecord
from tidelog.controller.store import Decide, Done
from tidelog.errors import ErrorCode, StorageError, TidelogError
from tidelog.log.log import Log
from tidelog.log.sync import SyncTicket
from tidelog.protocol.records import Record, decode_batch, encode_batch
from tidelog.services import Services

logger = logging.getLogger(__name__)

READ_AT_ONCE_BYTES = 1 << 20
EPOCH = 0  # a lone broker is its own controller for ever


class LocalMetadataLog:
    def __init__(self, log: Log, services: Services) -> None:
        self._log = log
        self._services = services
        self._image = self._decided = _replay(log)
        self._waiting: list[tuple[Sequence[MetadataRecord], Done]] = []
        self._syncing = False
        self.on_change: Callable[[ClusterImage], None] = lambda image: None

    @property
    def image(self) -> ClusterImage:
        return self._image

    @property
    def committed_offset(self) -> int:
        return self._log.synced_end_offset

    def submit(self, decide: Decide, done: Done) -> None:
        try:
            if self._log.failure is not None:
                raise self._log.failure
            decided = decide(self._decided)
            self._write(decided)
        except TidelogError as refusal:
            done(refusal)
            return
        self._decided = self._decided.apply(decided)
        self._waiting.append((decided, done))
        self._sync()

    def _write(self, decided: Sequence[MetadataRecord]) -> None:
        """One batch per decision: a crash keeps all of it or nothing."""
        if not decided:
            return
        now_ms = self._services.now_ms()
        first = self._log.end_offset
        batch = encode_batch(
            [
                Record(first + place, now_ms, None, records.encode(record), ())
                for place, record in enumerate(decided)
            ],
            leader_epoch=EPOCH,
        )
        self._log.append(memoryview(batch), first + len(decided) - 1, now_ms, EPOCH, now_ms)

    def _sync(self) -> None:
        if self._syncing or not self._waiting:
            return
        self._syncing = True
        batch, self._waiting = self._waiting, []
        ticket = self._log.begin_sync()
        self._services.offload(ticket.run, lambda _: self._synced(ticket, batch))

    def _synced(self, ticket: SyncTicket, batch: list[tuple[Sequence[MetadataRecord], Done]]) -> None:
        self._syncing = False
        try:
            self._log.finish_sync(ticket, self._services.now_ms())
        except StorageError as error:
            logger.error("the metadata log cannot be written any more: %s", error.message)
            waiting, self._waiting = self._waiting, []
            for _, done in batch + waiting:
                done(error)
            return
        self._image = self._image.apply(record for decided, _ in batch for record in decided)
        self.on_change(self._image)
        for _, done in batch:
            done(None)
        self._sync()

    def close(self) -> None:
        self._log.close()


def _replay(log: Log) -> ClusterImage:
    """The image after everything in the log."""
    found: list[MetadataRecord] = []
    offset = log.start_offset
    while offset < log.end_offset:
        data = log.read(offset, READ_AT_ONCE_BYTES, log.end_offset, at_least_one_batch=True).read()
        for record in _decode(data):
            found.append(records.decode(record.value or b""))
            offset = record.offset + 1
    try:
        return ClusterImage().apply(found)
    except TidelogError as error:
        raise StorageError(
            f"the metadata log makes no sense: {error.message}", ErrorCode.KAFKA_STORAGE_ERROR
        ) from error


def _decode(data: bytes) -> list[Record]:
    from tidelog.protocol.batch import iterate

    found: list[Record] = []
    view = memoryview(data)
    for position, header in iterate(view):
        found.extend(decode_batch(view[position : position + header.size]))
    return found
