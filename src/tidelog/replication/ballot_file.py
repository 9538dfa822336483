"""A voter's ballot on disk: the file ``quorum-state`` beside its log, in the form Kafka gives it."""

from collections.abc import Callable

import msgspec

from tidelog.errors import StorageError
from tidelog.log.files import read_whole, replace_whole
from tidelog.log.storage import Storage
from tidelog.replication.election import Ballot
from tidelog.types import NO_BROKER

FILE_NAME = "quorum-state"
_VERSION = 1


class _State(msgspec.Struct, rename="camel"):
    leader_epoch: int
    voted_id: int = NO_BROKER
    data_version: int = _VERSION


class BallotFile:
    def __init__(self, storage: Storage, directory: str) -> None:
        self._storage = storage
        self._directory = directory
        self._path = f"{directory}/{FILE_NAME}"

    def load(self) -> Ballot:
        """The newest ballot; a fresh one where none was cast yet."""
        text = read_whole(self._storage, self._path)
        if text is None:
            return Ballot()
        try:
            state = msgspec.json.decode(text, type=_State)
        except msgspec.DecodeError as error:
            # It was written beside and renamed: a damaged one is no torn write. Whoever cannot know how it
            # voted must not vote.
            raise StorageError(f"{self._path} is damaged: {error}") from error
        return Ballot(state.leader_epoch, state.voted_id)

    def save(self, ballot: Ballot) -> Callable[[], None]:
        text = msgspec.json.encode(_State(ballot.epoch, ballot.voted_for))

        def write() -> None:
            replace_whole(self._storage, self._path, text)
            self._storage.sync_directory(self._directory)

        return write
