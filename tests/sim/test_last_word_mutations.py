"""Which of two logs a primary takes: each mutation takes a rule out, and its story notices."""

import pytest

from tidelog.replication.attachments.restorer import Restoring
from tidelog.sim.stories import last_words
from tidelog.sim.telling import StoryFailed


def test_asking_an_operator_instead_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Restoring, "_has_the_last_word", lambda *_: False)
    with pytest.raises(StoryFailed):
        last_words.unacknowledged_record()


def test_asking_an_operator_about_a_superseded_log_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Restoring, "_is_superseded", lambda *_: False)
    with pytest.raises(StoryFailed):
        last_words.superseded_record()
