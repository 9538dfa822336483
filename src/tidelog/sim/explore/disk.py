"""The disk of a small node: one log of a few batches, and small files. Everything written is durable.

Modelled, because the real log's segments and indexes would make every state a hundred times as large, and
have their own tests: it has the interface of :class:`tidelog.log.log.Log`. Every batch holds one record, so
an offset is an index into the list.
"""

from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import cast
from uuid import UUID

import msgspec

from tidelog.config import TopicConfig
from tidelog.errors import CorruptBatch, OffsetOutOfRange, StorageError
from tidelog.log.epochs import EpochCache
from tidelog.log.log import Log
from tidelog.log.storage import Buffer, Storage
from tidelog.protocol import batch as batches
from tidelog.replication.ballot_book import FILE_NAME as BALLOTS
from tidelog.types import TopicPartition

PATH = "data"


class Region:
    """Some batches of a log, read."""

    position = 0

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.size = len(data)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Region) and other._data == self._data

    def __hash__(self) -> int:
        return hash(self._data)

    @property
    def file(self) -> "Region":
        return self

    def read(self) -> bytes:
        return self._data

    def read_at(self, position: int, size: int) -> bytes:
        return self._data[position : position + size]


class _Producers:
    """There are no idempotent producers here."""

    expiration_ms = 0
    producers_max = 0


class SmallLog:
    """The part of a log that replication needs."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.rows: tuple[bytes, ...] = ()
        self.start_offset = 0
        self.start_is_kept = True
        self.epochs = EpochCache()
        self.failure: StorageError | None = None
        self.sync_failed = False  # Nor does any sync fail.
        self.damage = ""  # No damage is found at start here.
        self.is_compacted = False
        self.closed = False
        self.config: TopicConfig | None = None
        self.producers = _Producers()

    def fingerprint(self) -> Hashable:
        return self.rows, self.start_offset, tuple(self.epochs.entries), self.closed

    @property
    def end_offset(self) -> int:
        return len(self.rows)

    @property
    def kept_start_offset(self) -> int:
        return self.start_offset

    def keep_start(self) -> bool:
        return True

    @property
    def synced_end_offset(self) -> int:
        return len(self.rows)

    @property
    def size_bytes(self) -> int:
        return sum(map(len, self.rows))

    def sync_due(self, now_ms: int) -> bool:
        return False

    def append(self, batch: Buffer, last_offset: int, max_timestamp: int, epoch: int, now_ms: int) -> None:
        self.epochs.assign(epoch, self.end_offset)
        self.rows = (*self.rows, bytes(batch))

    def append_batches(self, data: memoryview, now_ms: int) -> int:
        for position, header in batches.iterate_checked(data):
            if header.base_offset != self.end_offset or header.leader_epoch < self._last_epoch:
                raise CorruptBatch(f"offset {header.base_offset} cannot follow {self.end_offset - 1}")
            if header.leader_epoch != self.epochs.latest:
                # An epoch in which this replica led without writing is not part of the leader's history.
                self.epochs.truncate_from(self.end_offset)
                self.epochs.assign(header.leader_epoch, header.base_offset)
            self.rows = (*self.rows, bytes(data[position : position + header.size]))
        return self.end_offset

    @property
    def _last_epoch(self) -> int:
        return self.epochs.epoch_at(self.end_offset - 1)

    def whole_to(self, offset: int) -> int:
        return offset

    def truncate_to(self, end_offset: int) -> None:
        self.rows = self.rows[:end_offset]
        self.epochs.truncate_from(end_offset)

    def read(
        self, offset: int, max_bytes: int, end_offset: int, *, at_least_one_batch: bool, unread: object = None
    ) -> Region:
        if not 0 <= offset <= self.end_offset:
            raise OffsetOutOfRange(f"offset {offset} is not in a log of {self.end_offset}")
        return Region(b"".join(self.rows[offset:end_offset]))

    def last_stable_offset(self, high_watermark: int) -> int:
        return high_watermark


class _File:
    def __init__(self, files: dict[str, bytes], path: str) -> None:
        self._files = files
        self._path = path

    def size(self) -> int:
        return len(self._files[self._path])

    def read_at(self, position: int, size: int) -> bytes:
        return self._files[self._path][position : position + size]

    def write_at(self, position: int, data: Buffer) -> None:
        before = self._files[self._path]
        self._files[self._path] = before[:position] + bytes(data) + before[position + len(data) :]

    def truncate(self, size: int) -> None:
        self._files[self._path] = self._files[self._path][:size]

    def sync(self) -> None: ...


@lru_cache(maxsize=10_000)
def _meaning(path: str, text: bytes) -> Hashable:
    """The content of a file. Of the ballots the last one of each partition counts, not the number of the
    write.
    """
    if not path.endswith(BALLOTS):
        return text
    last = {}
    for line in text.splitlines():
        _, topic, partition, *ballot = msgspec.json.decode(line[9:])
        last[topic, partition] = tuple(ballot)
    return tuple(last.items())


class _Files:
    """Small whole files."""

    def __init__(self) -> None:
        self.contents: dict[str, bytes] = {}

    def fingerprint(self) -> Hashable:
        return tuple(sorted((path, _meaning(path, text)) for path, text in self.contents.items()))

    def open(self, path: str, *, create: bool = False) -> _File:
        if path not in self.contents:
            if not create:
                raise FileNotFoundError(path)
            self.contents[path] = b""
        return _File(self.contents, path)

    def exists(self, path: str) -> bool:
        return path in self.contents

    def remove(self, path: str) -> None:
        self.contents.pop(path, None)

    def rename(self, old: str, new: str) -> None:
        self.contents[new] = self.contents.pop(old)

    def sync_directory(self, path: str) -> None: ...


class Disk:
    """What a killed process leaves behind."""

    def __init__(self, identity: UUID) -> None:
        self.identity = identity  # A replaced disk has another one.
        self.log: SmallLog | None = None
        self.high_watermark = 0  # As of the last checkpoint.
        self.was_log_confirmed = False  # Whether its log was confirmed in the last process.
        self.files = _Files()

    @property
    def storage(self) -> Storage:
        return cast(Storage, self.files)

    @property
    def rows(self) -> tuple[bytes, ...]:
        return () if self.log is None else self.log.rows

    def remove_log(self) -> None:
        """The directory of the partition is gone."""
        if self.log is not None:
            for path in [path for path in self.files.contents if path.startswith(self.log.directory + "/")]:
                self.files.remove(path)
        self.log = None


class SmallLogs:
    """The data directory of a node, with one partition in it."""

    path = PATH
    written_survives = True  # Losses are applied to the disk itself.

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self.is_log_confirmed: Callable[[TopicPartition], bool] = lambda name: False

    def open_log(self, name: TopicPartition, topic_id: UUID, config: TopicConfig, now_ms: int) -> Log:
        if self._disk.log is None:
            self._disk.log = SmallLog(f"{PATH}/{name.topic}-{name.partition}")
        self._disk.log.config = config
        return cast(Log, self._disk.log)

    def has_log(self, name: TopicPartition, topic_id: UUID) -> bool:
        return self._disk.log is not None

    def remove_log(self, name: TopicPartition, now_ms: int) -> None:
        self._disk.remove_log()

    def high_watermark(self, name: TopicPartition) -> int:
        return self._disk.high_watermark

    def was_log_confirmed(self, name: TopicPartition) -> bool:
        return self._disk.was_log_confirmed

    def lower_claims(self, name: TopicPartition, offset: int) -> None:
        self._disk.high_watermark = min(self._disk.high_watermark, offset)

    def usage(self) -> tuple[int, int]:
        return 1 << 40, 1 << 40
