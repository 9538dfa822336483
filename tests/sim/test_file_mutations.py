"""Stories about files beside the records can fail: each mutation takes one check out, and the story that
tells why it is there notices.
"""

from collections.abc import Callable
from typing import Any

import pytest

from tidelog.broker.quorum.partitions import QuorumPartitions
from tidelog.errors import CorruptBatch, InvariantViolation, StorageError
from tidelog.log import epochs, layout, opening, scan, segment
from tidelog.log.epochs import EpochCache
from tidelog.log.files import read_whole
from tidelog.log.scan import ANY
from tidelog.replication.ballot_book import BallotBook
from tidelog.replication.voter_file import VoterFile
from tidelog.sim.checkers import Violation
from tidelog.sim.stories import tell
from tidelog.sim.telling import StoryFailed

Patch = Callable[[pytest.MonkeyPatch], None]


def believe_index_entries(patch: pytest.MonkeyPatch) -> None:
    """Wherever an entry points to, a batch begins there, and it is the right one."""
    original = scan.find_batch

    def find_batch(file: Any, position: int, end: int, offset: int, first: int, *_: Any) -> Any:
        return original(file, position, end, offset, first, ANY)

    patch.setattr(segment, "find_batch", find_batch)


def believe_histories(patch: pytest.MonkeyPatch) -> None:
    """As it was: a history whose numbers rise is one."""
    patch.setattr(epochs, "_checksum", lambda rows: " ")


def read_histories_as_if_logs_were_whole(patch: pytest.MonkeyPatch) -> None:
    """As it was: a torn write ends the opening of a log whose history is damaged."""

    def load_epochs(self: Any) -> None:
        text = read_whole(self._storage, f"{self._directory}/{layout.EPOCHS_FILE}")
        try:
            self._epochs = EpochCache.decode(text or b"")
        except CorruptBatch:
            for each in self._segments:
                each.learn_epochs(self._epochs)

    patch.setattr(opening.Opening, "_load_epochs", load_epochs)


def guess_who_votes(patch: pytest.MonkeyPatch) -> None:
    """The metadata knows who has replicas, and that is taken for who votes."""
    patch.setattr(QuorumPartitions, "_replace_damaged", lambda *args: None)


def leave_damaged_voters_alone(patch: pytest.MonkeyPatch) -> None:
    """As it was: the replica is out of service for good."""
    original = VoterFile.load

    def load(self: VoterFile) -> Any:
        try:
            return original(self)
        except Exception as error:
            raise StorageError(str(error)) from error

    patch.setattr(VoterFile, "load", load)


def take_damaged_votes_for_torn_ones(patch: pytest.MonkeyPatch) -> None:
    """As it was: nobody was told of the last line, whatever is wrong with it."""
    original = BallotBook.__init__

    def init(self: Any, *args: Any, written_survives: bool) -> None:
        original(self, *args, written_survives=False)

    patch.setattr(BallotBook, "__init__", init)


MUTATIONS: list[tuple[Patch, str]] = [
    (believe_index_entries, "file_index_entry_that_skips_a_record"),
    (believe_index_entries, "file_index_entry_that_blames_records"),
    (believe_histories, "file_history_with_a_wrong_digit"),
    (read_histories_as_if_logs_were_whole, "file_history_damaged_beside_a_torn_write"),
    (guess_who_votes, "file_voters_damaged"),
    (leave_damaged_voters_alone, "file_voters_damaged"),
    (take_damaged_votes_for_torn_ones, "file_votes_damaged"),
]


@pytest.mark.parametrize(
    ("mutation", "story"), MUTATIONS, ids=[f"{each[0].__name__}-{each[1]}" for each in MUTATIONS]
)
def test_a_story_notices(mutation: Patch, story: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tell(story)
    mutation(monkeypatch)
    with pytest.raises((StoryFailed, Violation, InvariantViolation, CorruptBatch)):
        tell(story)
