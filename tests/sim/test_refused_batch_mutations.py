"""Batches behind a refused one: without the rule, the stories and the simulated producers notice."""

import pytest

from tidelog.broker.partitions.refused_batches import RefusedBatches
from tidelog.errors import ErrorCode
from tidelog.log import producers
from tidelog.sim.stories import refused_batches
from tidelog.sim.telling import StoryFailed


@pytest.mark.parametrize("tell", refused_batches.STORIES)
def test_refusals_that_are_not_noted_are_noticed(tell: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RefusedBatches, "note", lambda *_: None)
    with pytest.raises(StoryFailed):
        tell()  # type: ignore[operator]


def test_an_unknown_producer_that_begins_anywhere_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producers, "_check_follows_none", lambda *_: None)
    with pytest.raises(StoryFailed):
        refused_batches.first_batches()


def test_a_note_of_the_first_refused_batch_only_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The retry of the first arrives before the last of those that were under way."""
    note = RefusedBatches.note

    def note_first(self: RefusedBatches, key: str, index: int, records: memoryview, error: ErrorCode) -> None:
        if not self.any:
            note(self, key, index, records, error)

    monkeypatch.setattr(RefusedBatches, "note", note_first)
    with pytest.raises(StoryFailed):
        refused_batches.retry_overtakes()
