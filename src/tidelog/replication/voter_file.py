"""The voter sets of a partition, beside its log: the file ``voters`` in the partition's directory.

The log contains the voter sets, but reading all of it to find them would take too long, and retention deletes
its beginning. The file is written before the log: an entry for an offset at or after the log end was never
appended. If there is no file, nothing has changed since the replicas began to vote. A partition may have had
other modes in between: entries from an earlier period of voting are ignored.

One wrong digit could give a majority to the wrong voters, so the contents have a CRC. A file without one,
from an earlier version, is accepted.
"""

from collections.abc import Sequence
from zlib import crc32

import msgspec

from tidelog.errors import StorageError
from tidelog.log.files import read_whole, replace_whole
from tidelog.log.storage import Storage
from tidelog.replication.voters import NO_OFFSET, Voter, VoterHistory, VoterSet

FILE_NAME = "voters"


class _Set(msgspec.Struct):
    offset: int
    voters: list[Voter]
    returning: list[Voter] = []


class _Contents(msgspec.Struct):
    since_epoch: int  # leader epoch in which the replicas began to vote
    sets: list[_Set]
    crc: int | None = None  # of the contents without this field


class DamagedVoters(StorageError):
    """The contents of the file differ from what was written."""


class VoterFile:
    def __init__(self, storage: Storage, directory: str, since_epoch: int = 0) -> None:
        self._since_epoch = since_epoch
        self._storage = storage
        self._directory = directory
        self._path = f"{directory}/{FILE_NAME}"
        self.is_held = False  # Do not write: the damaged file is still needed as evidence.

    def load(self) -> VoterHistory | None:
        """Raises DamagedVoters, or StorageError."""
        try:
            text = read_whole(self._storage, self._path)
        except OSError as error:
            raise StorageError(f"cannot read {self._path}: {error}") from error
        if text is None:
            return None
        try:
            contents = msgspec.json.decode(text, type=_Contents)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise DamagedVoters(f"{self._path} is damaged: {error}") from None
        if contents.crc not in (None, _crc_of(contents)) or not contents.sets:
            raise DamagedVoters(f"{self._path} is damaged")
        if contents.since_epoch != self._since_epoch:
            return None
        sets = contents.sets
        return VoterHistory.of((each.offset, VoterSet(each.voters, each.returning)) for each in sets)

    def save(self, entries: Sequence[tuple[int, VoterSet]]) -> None:
        """Blocks: this happens when voters change, and nothing may continue before it is done. Raises
        StorageError.
        """
        if self.is_held:
            return
        (_, first), *later = entries
        sets = [_Set(NO_OFFSET, list(first), list(first.returning))]
        sets += [_Set(offset, list(voters), list(voters.returning)) for offset, voters in later]
        try:
            contents = _Contents(self._since_epoch, sets)
            contents.crc = _crc_of(contents)
            replace_whole(self._storage, self._path, msgspec.json.encode(contents))
            self._storage.sync_directory(self._directory)
        except OSError as error:
            raise StorageError(f"cannot write {self._path}: {error}") from error

    def remove(self) -> None:
        """The partition has another mode now."""
        try:
            self._storage.remove(self._path)
        except OSError as error:
            raise StorageError(f"cannot remove {self._path}: {error}") from error


def _crc_of(contents: _Contents) -> int:
    return crc32(msgspec.json.encode(msgspec.structs.replace(contents, crc=None)))
