"""Distinguishes, at start, what a crash may remove from a log from what only a failing disk can have removed.

A killed process loses nothing that it has written, except the write in progress: as long as the machine stays
on, anything else that is missing was damaged. A machine that loses power loses what was not synced;
everything below the recovery point was, and is damaged if it is missing.

Damage is recorded in the log's directory before anything is truncated. The file stays until the controllers
know: without it, the next start would find a shorter log in perfect order.
"""

from collections.abc import Callable
from typing import NamedTuple

from tidelog.errors import CorruptBatch
from tidelog.log.files import read_whole, replace_whole
from tidelog.log.layout import DAMAGE_FILE
from tidelog.log.storage import File, Storage
from tidelog.protocol import batch as batches
from tidelog.protocol.batch import HEADER_SIZE, LENGTH_PREFIX_SIZE

_LENGTH_BITS = 31


class Evidence(NamedTuple):
    """What the checkpoints say of a log that is about to be opened."""

    recovery_point: int = 0  # Exclusive: everything below was synced.
    high_watermark: int = 0  # Exclusive: everything below was written.
    # Whether the machine was on all the time since, or the log was closed cleanly.
    written_survives: bool = False
    existed: bool = False  # Whether the log's directory existed.

    @property
    def end_offset_min(self) -> int:
        """Where the log must reach at least. The high watermark may be above what this replica has synced,
        even if an acknowledgement promises a sync: the other replicas' acknowledgements advance it.
        """
        return max(self.recovery_point, self.high_watermark) if self.written_survives else self.recovery_point


class DamageMark:
    """The record of a damage: a file in the log's directory."""

    __slots__ = ("_directory", "_storage", "reason")

    def __init__(self, storage: Storage, directory: str) -> None:
        self._storage = storage
        self._directory = directory
        self.reason = ""  # Empty: nothing is missing.

    def load(self) -> None:
        text = read_whole(self._storage, self._path)
        if text is not None:
            self.reason = text.decode(errors="replace").strip() or "damaged before"

    def set(self, reason: str) -> None:
        """Durable when it returns. May raise ``OSError``."""
        if not self.reason:
            replace_whole(self._storage, self._path, reason.encode() + b"\n")
            self._storage.sync_directory(self._directory)
            self.reason = reason

    def clear(self) -> None:
        """The controllers know. Durable when it returns: an operator who decides about the log as it is now
        would have to do so again if a power failure brought the file back. May raise ``OSError``.
        """
        if self.reason:
            self.reason = ""
            self._storage.remove(self._path)
            self._storage.sync_directory(self._directory)

    @property
    def _path(self) -> str:
        return f"{self._directory}/{DAMAGE_FILE}"


def is_torn(
    file: File, position: int, end: int, may_follow: Callable[[int], bool], *, preallocated: bool
) -> bool:
    """Whether ``[position, end)``, after the last whole batch, can be the beginning of a write that a kill
    interrupted: the file ends inside a batch. A batch that is complete was damaged later.

    ``may_follow``: whether a batch with this base offset may come next. One that may not was written for
    another place: the end of the file cuts it off where the disk has put it.
    """
    written = _written_end(file, position, end) if preallocated else end
    if written - position < LENGTH_PREFIX_SIZE:
        return written > position or preallocated
    prefix = file.read_at(position, LENGTH_PREFIX_SIZE)
    base_offset, size = batches.parse_prefix(prefix)
    if size < HEADER_SIZE or not may_follow(base_offset):
        return False
    if position + size > end:
        return not _has_other_length(file, position, end, size)
    # The last byte of a batch is often zero, and looks like preallocated space.
    return preallocated and position + size - written > 1


def _written_end(file: File, position: int, end: int) -> int:
    """Where the zeros at the end of the file begin."""
    while end > position:
        start = max(position, end - (1 << 20))
        data = file.read_at(start, end - start).rstrip(b"\0")
        if data:
            return start + len(data)
        end = start
    return position


def _has_other_length(file: File, position: int, end: int, size: int) -> bool:
    """Whether the batch is complete, and only its length has a wrong bit: it claims to extend beyond the
    file.
    """
    length = size - LENGTH_PREFIX_SIZE
    for bit in range(_LENGTH_BITS):
        other = length ^ 1 << bit
        if other >= length or not HEADER_SIZE <= other + LENGTH_PREFIX_SIZE <= end - position:
            continue
        data = bytearray(file.read_at(position, other + LENGTH_PREFIX_SIZE))
        data[LENGTH_PREFIX_SIZE - 4 : LENGTH_PREFIX_SIZE] = other.to_bytes(4, "big")
        try:
            batches.check(data)
        except CorruptBatch:
            continue
        return True
    return False
