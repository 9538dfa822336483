"""The ballots of all voting replicas of a broker, in one file: ``ballots`` in the data directory.

When a broker dies, the replicas of hundreds of partitions vote at the same moment, and each vote waits for
the disk. With one file, one sync covers all of them. With one file per partition, the syncs would add up.

Each save appends lines that are synced together: checksum, number of the write, ballot. A crash may tear the
last write, and nothing was sent yet that depends on it. A power failure may leave any part of that write. A
kill can only cut off its end, because the kernel still holds everything that was written. Any other
unreadable content means that votes may be lost, and then this broker must not vote. A file that has grown too
long is rewritten.

A replica that has a ballot here has had a log, too. If the log is missing anyway (its directory was removed),
that is recorded here before a new log is created. The same is recorded before a log drops damaged records.
Otherwise the next start would take the remaining log for a complete one. The record contains the partition
epoch in which the loss was found: a readmission for a later loss number, in the log, came after this loss.

The id under which this broker votes on partitions is stored here as well, with the first ballot. The
controllers' ballot file has an id, too, but that one changes when the metadata log is damaged. No partition
has lost data then, and the leaders would not know that they have to admit a voter with a new id.
"""

import logging
from collections.abc import Callable
from uuid import UUID
from zlib import crc32

import msgspec

from tidelog.errors import StorageError
from tidelog.log.files import parent_of, read_whole, replace_whole
from tidelog.log.storage import File, Storage
from tidelog.replication.votes import Ballot
from tidelog.services import Services

FILE_NAME = "ballots"
# Takes the place of the partition number: the line holds the broker's id, in the place of the topic id.
_NAME = -1
REWRITE_BYTES = 1 << 20  # A shorter file is never rewritten.

_logger = logging.getLogger(__name__)

Key = tuple[UUID, int]
Saved = Callable[[object], None]
"""Receives None, or the error."""


class _Line(msgspec.Struct, array_like=True):
    write: int  # number of the write that it belongs to
    topic: UUID
    partition: int
    epoch: int
    voted_for: int
    # Its log was missing or dropped records, and the controllers have not recorded it yet.
    lost: bool = False
    # The partition epoch in which that was found; -1: unknown, an earlier version has written it.
    since: int = -1


class BallotBook:
    def __init__(
        self,
        storage: Storage,
        directory: str,
        services: Services,
        name: UUID | None = None,
        *,
        written_survives: bool = False,
    ) -> None:
        """``name``: the id under which this broker votes, used if the file has none yet.
        ``written_survives``: the machine has not lost power since the last write. Raises StorageError when
        earlier votes cannot be determined.
        """
        self._written_survives = written_survives
        self._storage = storage
        self._path = f"{directory}/{FILE_NAME}"
        self._services = services
        self._ballots: dict[Key, Ballot] = {}
        self._lost: dict[Key, int] = {}  # the partition epoch in which the loss was found; -1: unknown
        self._logs_are_new = False  # Directories were created whose entries may not be synced.
        self._pending: list[tuple[Key, Ballot, Saved]] = []
        self._writing = False
        self._write = 0  # number of the last write
        self._size = 0
        self.name = name
        self._is_named = name is None
        try:
            self._load()
        except OSError as error:
            raise StorageError(f"cannot read {self._path}: {error}") from error

    def of(self, key: Key) -> Ballot | None:
        return self._ballots.get(key)

    def forget(self, key: Key) -> None:
        """The partition is removed. Its lines disappear with the next rewrite of the file."""
        self._ballots.pop(key, None)
        self._lost.pop(key, None)

    def log_begun(self) -> None:
        """A replica without a ballot has a new log. Its directory entry is synced before its first ballot."""
        self._logs_are_new = True

    def is_lost(self, key: Key) -> bool:
        return key in self._lost

    def lost_since(self, key: Key) -> int:
        """The partition epoch in which its latest loss was found; -1: unknown."""
        return self._lost.get(key, -1)

    def note_lost(self, key: Key, since: int, saved: Saved) -> None:
        """The log of a replica is missing, or is about to drop records that it had acknowledged. ``since``:
        the partition epoch in which that was found.
        """
        self._lost[key] = since
        self.save(key, self._newest(key), saved)

    def confessed(self, key: Key) -> None:
        """The controllers have recorded the loss."""
        if key in self._lost:
            del self._lost[key]
            self.save(key, self._newest(key), lambda result: None)

    def _newest(self, key: Key) -> Ballot:
        """Includes ballots that are not written yet: a later line replaces an earlier one."""
        pending = (ballot for each, ballot, _ in reversed(self._pending) if each == key)
        return next(pending, self._ballots.get(key, Ballot()))

    # --- reading --------------------------------------------------------------------------------------------

    def _load(self) -> None:
        text = read_whole(self._storage, self._path) or b""
        torn_at = -1
        position = 0
        for raw in text.splitlines(keepends=True):
            line = _parsed(raw)
            if line is None:
                torn_at = position if torn_at < 0 else torn_at
                is_cut_short = position + len(raw) == len(text) and _may_be_cut_short(raw)
                if self._written_survives and not is_cut_short:
                    raise self._damaged(torn_at)
            elif torn_at < 0:
                self._take(line)
            elif line.write > self._write + 1:
                raise self._damaged(torn_at)
            position += len(raw)
        self._size = len(text) if torn_at < 0 else torn_at
        if torn_at >= 0:
            _logger.warning("%s: truncated %d bytes after the last ballot", self._path, len(text) - torn_at)
            self._storage.open(self._path).truncate(torn_at)

    def _take(self, line: _Line) -> None:
        self._write = line.write
        if line.partition == _NAME:
            self.name, self._is_named = line.topic, True
            return
        key = line.topic, line.partition
        self._ballots[key] = Ballot(line.epoch, line.voted_for)
        self._lost.pop(key, None)
        if line.lost:
            self._lost[key] = line.since

    def _damaged(self, position: int) -> StorageError:
        return StorageError(
            f"{self._path} is damaged at byte {position}: votes may be lost. Move the file away and "
            "start the broker again: its replicas of quorum topics then vote when their leaders have "
            "readmitted them. Do so on one broker at a time"
        )

    # --- writing --------------------------------------------------------------------------------------------

    def save(self, key: Key, ballot: Ballot, saved: Saved) -> None:
        """Write and sync it, together with all other ballots that arrive before the disk is free."""
        self._pending.append((key, ballot, saved))
        if not self._writing:
            self._writing = True
            self._services.soon(self._begin)

    def _begin(self) -> None:
        batch, self._pending = self._pending, []
        for key, ballot, _ in batch:
            self._ballots[key] = ballot
        self._write += 1
        if self._size > max(REWRITE_BYTES, 4 * len(self._ballots) * _LINE_BYTES):
            lines = b"".join(self._line(key, ballot) for key, ballot in self._ballots.items())
            work = self._rewriting(self._name_line() + lines)
        else:
            lines = b"".join(self._line(key, ballot) for key, ballot, _ in batch)
            work = self._appending(self._size, lines if self._is_named else self._name_line() + lines)
        if self._logs_are_new:
            self._logs_are_new = False
            work = self._after_the_names(work)
        self._services.offload(work, lambda result: self._done(batch, result))

    def _appending(self, position: int, lines: bytes) -> Callable[[], int]:
        def append() -> int:
            file: File = self._storage.open(self._path, create=True)
            if file.size() > position:
                file.truncate(position)  # A failed write may have left more bytes than this one overwrites.
            file.write_at(position, lines)
            file.sync()
            if position == 0:
                self._storage.sync_directory(parent_of(self._path))
            return position + len(lines)

        return append

    def _after_the_names(self, work: Callable[[], int]) -> Callable[[], int]:
        def both() -> int:
            self._storage.sync_directory(parent_of(self._path))
            return work()

        return both

    def _name_line(self) -> bytes:
        return b"" if self.name is None else self._line((self.name, _NAME), Ballot())

    def _line(self, key: Key, ballot: Ballot) -> bytes:
        line = _Line(
            self._write, key[0], key[1], ballot.epoch, ballot.voted_for, key in self._lost,
            self.lost_since(key),
        )  # fmt: skip
        body = msgspec.json.encode(line)
        return b"%08x %b\n" % (crc32(body), body)

    def _rewriting(self, lines: bytes) -> Callable[[], int]:
        def rewrite() -> int:
            replace_whole(self._storage, self._path, lines)
            self._storage.sync_directory(parent_of(self._path))
            return len(lines)

        return rewrite

    def _done(self, batch: list[tuple[Key, Ballot, Saved]], result: int | BaseException) -> None:
        failed = isinstance(result, BaseException)
        if not isinstance(result, BaseException):
            self._size = result
            self._is_named = True
        for _, _, saved in batch:
            saved(result if failed else None)
        if self._pending:
            self._services.soon(self._begin)
        else:
            self._writing = False


class PartitionBallots:
    """The ballots of one partition."""

    def __init__(self, book: BallotBook, key: Key) -> None:
        self._book = book
        self._key = key

    def save(self, ballot: Ballot, saved: Saved) -> None:
        self._book.save(self._key, ballot, saved)


_LINE_BYTES = 80


def _may_be_cut_short(raw: bytes) -> bool:
    """Whether a process that was killed during a write can have left this: a line without its end."""
    return not raw.endswith((b"\n", b"\r")) and not _is_checked(raw[:-1])


def _is_checked(line: bytes) -> bool:
    """``line``: without its line end."""
    return line[:9] == b"%08x " % crc32(line[9:])


def _parsed(raw: bytes) -> _Line | None:
    if not raw.endswith(b"\n") or not _is_checked(raw[:-1]):
        return None
    try:
        return msgspec.json.decode(raw[9:-1], type=_Line)
    except msgspec.DecodeError:
        return None
