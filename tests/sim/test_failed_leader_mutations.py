"""A leader whose disk fails forgets its proposal: a story notices."""

import pytest

from tidelog.errors import ErrorCode
from tidelog.replication.effects import Effects
from tidelog.replication.replica import Replica
from tidelog.sim.checkers.violation import Violation
from tidelog.sim.stories import failed_leaders


def test_a_failed_leader_that_drops_its_proposal_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Replica.cannot_write

    def cannot_write(self: Replica, error: ErrorCode) -> Effects:
        self.proposals.drop()
        return original(self, error)

    monkeypatch.setattr(Replica, "cannot_write", cannot_write)
    with pytest.raises(Violation, match="takes all before 2 for committed, but node 3"):
        failed_leaders.proposal_under_way()
