"""Compacted logs of replicas that lose records: without the rule, the story that tells why it is there must
notice.
"""

import pytest

from tidelog.log.log import Log
from tidelog.sim.stories import compacted_logs
from tidelog.sim.telling import StoryFailed


def test_followers_of_an_unclean_leader_that_keep_what_compaction_has_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Log, "is_compacted", property(lambda log: False))
    with pytest.raises(StoryFailed, match=r"\['b1'\] and not"):
        compacted_logs.unclean_leader_has_older_values()
