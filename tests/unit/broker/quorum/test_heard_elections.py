"""Elections that other nodes report of partitions without a replica here."""

from typing import Any
from uuid import UUID

import pytest

from tidelog.broker.quorum import partitions
from tidelog.broker.quorum.partitions import QuorumPartitions
from tidelog.replication.messages import LeaderBegan


def test_only_so_many_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients can invent any number of partitions."""
    monkeypatch.setattr(partitions, "HEARD_MAX", 2)
    quorum: Any = QuorumPartitions.__new__(QuorumPartitions)
    quorum._voters, quorum._heard = {}, {}
    for number in range(4):
        quorum.began(LeaderBegan(7, (UUID(int=1), number), 5))
    quorum.began(LeaderBegan(8, (UUID(int=1), 3), 6))
    assert quorum._heard == {(UUID(int=1), 2): (5, 7), (UUID(int=1), 3): (6, 8)}
