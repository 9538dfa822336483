"""Which of two logs a promoted backup takes: the mutation takes the rule out, and the story notices."""

import pytest

from tidelog.replication.attachments.restorer import Restoring
from tidelog.sim.stories import last_words
from tidelog.sim.telling import StoryFailed


def test_asking_an_operator_instead_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Restoring, "_has_the_last_word", lambda *_: False)
    with pytest.raises(StoryFailed):
        last_words.unacknowledged_record()
