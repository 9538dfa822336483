"""A damaged index of aborted transactions is replaced as a whole: if its entries are written one after the
other in the old file instead, the story of a disk that fails meanwhile must notice.
"""

from collections.abc import Sequence

import pytest

from tidelog.log.aborted_index import AbortedIndex, AbortedTransaction
from tidelog.sim.checkers import Violation
from tidelog.sim.stories import rebuilt_entries
from tidelog.sim.telling import StoryFailed


def test_an_index_that_is_written_again_in_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    def replace(self: AbortedIndex, transactions: Sequence[AbortedTransaction]) -> None:
        self._cut(0)
        for aborted in transactions:
            self.append(aborted)

    monkeypatch.setattr(AbortedIndex, "replace", replace)
    with pytest.raises((StoryFailed, Violation)):
        rebuilt_entries.rebuilding_that_failed()
