"""Who votes on a partition, beside its log: the file ``voters`` in the partition's directory.

The log says who votes, but nobody wants to read all of it to find out, and its beginning is deleted in time.
The file is written before the log is: what it says of an offset behind the log's end was never appended. No
file: nothing has changed since the replicas began to vote. A partition may have been replicated in other ways
in between: what an earlier time of votes left behind says nothing.
"""

from collections.abc import Sequence

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
    since_epoch: int  # With this leader epoch the replicas began to vote.
    sets: list[_Set]


class VoterFile:
    def __init__(self, storage: Storage, directory: str, since_epoch: int = 0) -> None:
        self._since_epoch = since_epoch
        self._storage = storage
        self._directory = directory
        self._path = f"{directory}/{FILE_NAME}"

    def load(self) -> VoterHistory | None:
        """Raises StorageError."""
        try:
            text = read_whole(self._storage, self._path)
            if text is None:
                return None
            contents = msgspec.json.decode(text, type=_Contents)
        except (OSError, msgspec.DecodeError) as error:
            raise StorageError(f"cannot read {self._path}: {error}") from error
        if contents.since_epoch != self._since_epoch:
            return None
        sets = contents.sets
        if not sets:
            raise StorageError(f"{self._path} names nobody")
        return VoterHistory.of((each.offset, VoterSet(each.voters, each.returning)) for each in sets)

    def save(self, entries: Sequence[tuple[int, VoterSet]]) -> None:
        """At once: this happens when voters change, and nothing may go on before. Raises StorageError."""
        (_, first), *later = entries
        sets = [_Set(NO_OFFSET, list(first), list(first.returning))]
        sets += [_Set(offset, list(voters), list(voters.returning)) for offset, voters in later]
        try:
            contents = msgspec.json.encode(_Contents(self._since_epoch, sets))
            replace_whole(self._storage, self._path, contents)
            self._storage.sync_directory(self._directory)
        except OSError as error:
            raise StorageError(f"cannot write {self._path}: {error}") from error

    def remove(self) -> None:
        """The partition is replicated in another way now."""
        try:
            self._storage.remove(self._path)
        except OSError as error:
            raise StorageError(f"cannot remove {self._path}: {error}") from error
