"""Entries of the index of aborted transactions that a disk does not take: without them in memory, the story
that tells why they are there must notice.
"""

import pytest

from tidelog.log.aborted_index import AbortedIndex, AbortedTransaction
from tidelog.sim.checkers import Violation
from tidelog.sim.stories import unwritten_entries
from tidelog.sim.telling import StoryFailed


def test_readers_of_entries_that_were_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    original = AbortedIndex.append

    def append(self: AbortedIndex, aborted: AbortedTransaction) -> None:
        try:
            original(self, aborted)
        finally:
            self._unwritten.clear()

    monkeypatch.setattr(AbortedIndex, "append", append)
    with pytest.raises((StoryFailed, Violation)):
        unwritten_entries.aborted_records_stay_hidden()
