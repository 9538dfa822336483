"""Records that a primary copies back: the mutation takes the rule out, and a story notices."""

import pytest

from tidelog.replication.attachments.restorer import Restoring
from tidelog.sim.checkers import Violation
from tidelog.sim.stories import copied_back


def propose_unsynced(self: Restoring) -> None:
    """Whoever has copied everything is complete, synced or not."""
    driver, mandate = self._driver, self.mandate
    replica = driver.replica
    if replica.proposals.pending is None or replica.partition_epoch != mandate.partition_epoch:
        self._follow_none()
        driver.run(replica.propose_itself())


def test_mutation_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Restoring, "_propose", propose_unsynced)
    with pytest.raises(Violation):
        copied_back.power_fails_after_copying()
