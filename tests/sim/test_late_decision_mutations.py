"""An operator's decision that arrives late: without the rule, the story notices."""

import pytest

from tidelog.errors import InvariantViolation
from tidelog.replication.attachments.voter import Elected
from tidelog.sim.stories import late_decisions


def test_a_voter_that_does_not_await_the_decision_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Elected, "awaits_decision", lambda self, epoch: False)
    with pytest.raises(InvariantViolation, match="truncation below the high watermark"):
        late_decisions.complete_voter_hears_the_leader_first()
