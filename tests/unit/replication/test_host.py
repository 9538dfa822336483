"""The clock of a host: which replicas are ticked, and what silence means."""

from typing import Any

import pytest

from tidelog.replication.replica import Replica
from tidelog.replication.voting import TICK_MS
from unit.replication.replica_pair import LEADER, Pair


def test_quiet_partitions_cost_the_clock_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = Pair(20)
    for index in range(20):
        pair.append(index)
    pair.clock.advance(10 * TICK_MS)
    ticked: list[int] = []
    original = Replica.tick

    def tick(self: Replica, now_ms: int) -> Any:
        ticked.append(self.me)
        return original(self, now_ms)

    monkeypatch.setattr(Replica, "tick", tick)
    pair.clock.advance(50 * TICK_MS)
    assert ticked == []


def test_a_member_that_was_quiet_for_long_is_not_late_with_the_first_record() -> None:
    pair = Pair()
    pair.append()
    pair.clock.advance(60_000)
    pair.deaf = True
    pair.append()
    pair.clock.advance(5 * TICK_MS)
    assert pair.at(LEADER, pair.keys[0]).replica.proposals.pending is None
