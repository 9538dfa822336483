"""How a pass of compaction reads segments and writes new ones: in large pieces, every byte checked.

Runs in the pass's thread. It opens files for itself and shares nothing with the log but their bytes.
"""

from collections.abc import Iterable, Iterator

from tidelog.errors import CorruptBatch, TidelogError
from tidelog.log.aborted_index import AbortedTransaction
from tidelog.log.cleaner_plan import Source
from tidelog.log.index_build import timestamp_of
from tidelog.log.scan import find_batch
from tidelog.log.segment import Segment
from tidelog.log.storage import File, Storage
from tidelog.protocol import batch as batches
from tidelog.protocol.batch import BatchHeader, Buffer

_READ_BYTES = 1 << 20
_WRITE_BYTES = 1 << 20


class CompactionAbandoned(TidelogError):
    """The log was truncated, deleted or restarted during the pass. Nothing is lost; the next pass starts
    over.
    """


def open_source(storage: Storage, source: Source) -> File:
    try:
        return storage.open(source.path)
    except FileNotFoundError:
        raise CompactionAbandoned(f"{source.path} is no longer part of the log") from None


def read_batches(
    storage: Storage, source: Source, from_offset: int = 0
) -> Iterator[tuple[memoryview, BatchHeader]]:
    """Every batch of a segment that ends after ``from_offset``, each byte checked: damage must not be copied
    and get a new CRC.
    """
    file = open_source(storage, source)
    position, next_offset = 0, source.base_offset
    dense_from = source.segment.dense_from  # Gaps after it are damage, and would look like compaction's.
    if from_offset > source.base_offset:
        place = find_batch(file, 0, source.size, from_offset, source.base_offset, dense_from=dense_from)
        position, next_offset = place.position, place.base_offset
    while position < source.size:
        chunk = _read_chunk(file, position, source)
        for at, header in batches.iterate(chunk):
            try:
                batches.check(chunk, at)
            except CorruptBatch as damage:
                raise CorruptBatch(f"{source.path}, byte {position + at}: {damage.message}") from None
            base_offset = header.base_offset
            if base_offset != next_offset and not next_offset < base_offset <= dense_from:
                message = f"offset {base_offset} where {next_offset} was expected"
                raise CorruptBatch(f"{source.path}, byte {position + at}: {message}")
            next_offset = header.next_offset
            yield chunk[at : at + header.size], header
        position += at + header.size


def _read_chunk(file: File, position: int, source: Source) -> memoryview:
    """The next piece of the file, with at least one whole batch."""
    left = source.size - position
    chunk = _read(file, position, min(_READ_BYTES, left), source)
    size = batches.parse_prefix(chunk)[1] if left >= batches.HEADER_SIZE else 0
    if not batches.HEADER_SIZE <= size <= left:
        raise CorruptBatch(f"{source.path}, byte {position}: a batch claims {size} bytes, {left} are there")
    return chunk if size <= len(chunk) else _read(file, position, size, source)


def _read(file: File, position: int, size: int, source: Source) -> memoryview:
    data = file.read_at(position, size)
    if len(data) < size:
        raise CompactionAbandoned(f"{source.path} became shorter")
    return memoryview(data)


class CleanedWriter:
    """Writes batches to a new segment beside the log, and its indexes."""

    def __init__(self, segment: Segment, index_interval_bytes: int) -> None:
        self._segment = segment
        self._index_interval_bytes = index_interval_bytes
        self._buffer = bytearray()
        self._pending: list[BatchHeader] = []  # Of the batches in the buffer.
        self.next_offset = segment.base_offset  # Exclusive end offset of what was appended.

    def append(self, batch: Buffer) -> None:
        header = batches.parse_header(batch)
        self._buffer += batch
        self._pending.append(header)
        self.next_offset = header.next_offset
        if len(self._buffer) >= _WRITE_BYTES:
            self._flush()

    def _flush(self) -> None:
        segment = self._segment
        segment.file().write_at(segment.size, self._buffer)
        for header in self._pending:
            segment.account(
                segment.size, header.size, header.last_offset, timestamp_of(header),
                self._index_interval_bytes,
            )  # fmt: skip
        self._buffer.clear()
        self._pending.clear()

    def index_aborted(self, transactions: Iterable[AbortedTransaction]) -> None:
        """The aborted transactions whose markers are here. Creates a file even if there are none, to replace
        an old one.
        """
        aborted = self._segment.aborted
        aborted.create()
        for transaction in transactions:
            aborted.append(transaction)

    def finish(self) -> Segment:
        """The segment, complete and durable, still under its ``.cleaned`` name."""
        if self._buffer:
            self._flush()
        for file in self._segment.make_inactive().open():
            file.sync()
        return self._segment

    def discard(self) -> None:
        discard(self._segment)


def discard(cleaned: Segment) -> None:
    """Delete a cleaned segment that will not be used."""
    cleaned.release_all()
    cleaned.remove()
