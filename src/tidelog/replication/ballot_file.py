"""A voter's ballot on disk: the file ``quorum-state`` beside its log, in Kafka's format.

The id of the voter's disk is in the same file (Kafka stores it elsewhere). A voter that loses its ballots
therefore loses its id, too. It comes back under a new id and is not counted as the voter that it was. A wrong
digit in a ballot could make a voter vote twice, so the file has a CRC. A file without a CRC is accepted.
"""

from collections.abc import Callable
from uuid import UUID
from zlib import crc32

import msgspec

from tidelog.errors import StorageError
from tidelog.log.files import read_whole, replace_whole
from tidelog.log.storage import Storage
from tidelog.replication.votes import Ballot
from tidelog.services import Services
from tidelog.types import NO_BROKER

FILE_NAME = "quorum-state"
_VERSION = 1


class _State(msgspec.Struct, rename="camel"):
    leader_epoch: int = 0
    voted_id: int = NO_BROKER
    directory_id: UUID | None = None
    data_version: int = _VERSION
    crc: int | None = None  # of the state without this field


class BallotFile:
    def __init__(self, storage: Storage, directory: str, services: Services) -> None:
        self._storage = storage
        self._services = services
        self._directory = directory
        self._path = f"{directory}/{FILE_NAME}"
        self._directory_id: UUID | None = None

    def open(self, new_id: Callable[[], UUID]) -> tuple[Ballot, UUID]:
        """The newest ballot, and the id of this disk. A missing id is generated. Raises StorageError."""
        try:
            state = self._load()
            if state.directory_id is None:
                state.directory_id = new_id()
                self._write(state)
        except OSError as error:
            raise StorageError(f"cannot read or write {self._path}: {error}") from error
        self._directory_id = state.directory_id
        return Ballot(state.leader_epoch, state.voted_id), state.directory_id

    def forget_who_voted(self, new_id: Callable[[], UUID]) -> UUID:
        """Give this disk a new id, because it lacks records that it acknowledged. It counts as a voter again
        when the other voters have readmitted it under the new id. Raises StorageError.
        """
        try:
            state = self._load()
            state.directory_id = self._directory_id = new_id()
            self._write(state)
        except OSError as error:
            raise StorageError(f"cannot read or write {self._path}: {error}") from error
        return self._directory_id

    def _load(self) -> _State:
        text = read_whole(self._storage, self._path)
        if text is None:
            return _State()
        # The file is written under another name and then renamed, so damage is not a torn write. A voter that
        # does not know how it voted must not vote.
        try:
            state = msgspec.json.decode(text, type=_State)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._damaged(str(error)) from error
        if state.crc not in (None, _crc_of(state)):
            raise self._damaged("its checksum does not match")
        return state

    def _damaged(self, reason: str) -> StorageError:
        return StorageError(
            f"{self._path} is damaged: {reason}. Move the file away and start the node again: the other"
            " controllers readmit it. If they have no majority without it, restore the file from a copy."
        )

    def load(self) -> Ballot:
        """The newest ballot; an empty one if there is none yet."""
        state = self._load()
        return Ballot(state.leader_epoch, state.voted_id)

    def save(self, ballot: Ballot, saved: Callable[[object], None]) -> None:
        """Write and sync it. ``saved`` receives None, or the error."""
        state = _State(ballot.epoch, ballot.voted_for, self._directory_id)
        self._services.offload(lambda: self._write(state), saved)

    def _write(self, state: _State) -> None:
        state.crc = _crc_of(state)
        replace_whole(self._storage, self._path, msgspec.json.encode(state))
        self._storage.sync_directory(self._directory)


def _crc_of(state: _State) -> int:
    return crc32(msgspec.json.encode(msgspec.structs.replace(state, crc=None)))
