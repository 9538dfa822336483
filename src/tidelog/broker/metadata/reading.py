"""Committed metadata, read back from the log a few records at a time.

A decision is one batch, and may have thousands of records. Reading goes on where it stopped, also in the
middle of a batch; the image is handed out only where a batch ends, so that no reader sees half a decision.
"""

from collections.abc import Iterator
from typing import NamedTuple

from tidelog.controller import records
from tidelog.controller.image import ClusterImage, ImageDraft
from tidelog.log.log import Log
from tidelog.protocol.batch import iterate
from tidelog.protocol.records import decode_batch

READ_AT_ONCE_BYTES = 1 << 20


class Read(NamedTuple):
    """What was read, up to the end of a decision."""

    image: ClusterImage
    records: int
    size: int  # of their batches, in bytes
    end_offset: int  # exclusive


class CommittedReader:
    """Begins with the image of everything before ``offset``. An error ends it: what cannot be read must not
    take what came before it along.
    """

    def __init__(self, log: Log, image: ClusterImage, offset: int) -> None:
        self._log = log
        self._draft = ImageDraft(image)
        self._offset = offset
        self._size = self._count = 0
        self._steps: Iterator[bool] = iter(())

    def read(self, high_watermark: int, limit: int) -> Read | None:
        """``limit`` records more, and the decision that goes beyond. None if even that is too much: then it
        has to go on later, within the decision.
        """
        left = limit
        while True:
            for is_whole in self._steps:
                left -= 1
                if left <= 0 and is_whole:
                    return self._result()
                if left <= -limit:
                    return None
            if self._offset >= high_watermark:
                return self._result()
            self._steps = self._read_some(high_watermark)

    def _result(self) -> Read:
        return Read(self._draft.finish(), self._count, self._size, self._offset)

    def _read_some(self, high_watermark: int) -> Iterator[bool]:
        """After each record or empty batch: whether its batch ends there."""
        region = self._log.read(self._offset, READ_AT_ONCE_BYTES, high_watermark, at_least_one_batch=True)
        view = memoryview(region.read())
        for position, header in iterate(view):
            found = None
            if not header.is_control:
                for record in decode_batch(view[position : position + header.size]):
                    if found is not None:
                        yield False
                    found = record
                    self._draft.apply(records.decode(record.value or b""))
                    self._count += 1
            self._size += header.size
            self._offset = header.next_offset
            yield True


def size_between(log: Log, offset: int, end_offset: int) -> int:
    """Bytes of the batches from ``offset`` on, which are usually none."""
    size = 0
    while offset < end_offset:
        region = log.read(offset, READ_AT_ONCE_BYTES, end_offset, at_least_one_batch=True)
        for _, header in iterate(memoryview(region.read())):
            size += header.size
            offset = header.next_offset
    return size
