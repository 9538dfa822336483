"""A controller that forgets that its machine was on votes without what it acknowledged, and the checkers
notice.
"""

import pytest

from tidelog.sim.checkers import Violation
from tidelog.sim.cluster import BrokerMachine
from tidelog.sim.stories import damaged_controllers


def test_a_boot_that_is_never_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if only registered brokers noted it: the damage counts as the end of a write that the power failure
    interrupted.
    """
    monkeypatch.setattr(BrokerMachine, "_metadata_checked", lambda machine: None)
    with pytest.raises(Violation, match=r"metadata offset \d+: .* for committed, before it was"):
        damaged_controllers.acknowledged_after_a_power_failure()
