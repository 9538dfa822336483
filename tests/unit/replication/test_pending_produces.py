"""Produces that wait, and those whose time is over."""

from tidelog.errors import ErrorCode
from tidelog.replication.effects import CompleteProduce
from tidelog.replication.pending_produces import PendingProduces

LATE = ErrorCode.REQUEST_TIMED_OUT


class Offset(int):
    """Counts how often one is compared with another."""

    compared = 0
    __hash__ = int.__hash__

    def __eq__(self, other: object) -> bool:
        Offset.compared += 1
        return int(self) == other


def test_those_whose_time_is_over_are_completed_and_the_others_keep_their_order() -> None:
    pending = PendingProduces()
    for token, deadline_ms in enumerate((300, 100, 200, 50, 400)):
        pending.add(token + 1, -1, deadline_ms, token)
    pending.add(6, 1, 100, 5)
    assert pending.expire(10, LATE) == []
    assert pending.expire(200, LATE) == [CompleteProduce(token, LATE) for token in (1, 2, 3, 5)]
    assert [each.token for each in pending.queues[-1]] == [0, 4]
    assert not pending.queues[1]


def test_they_end_at_the_same_cost_wherever_they_are_in_the_queue() -> None:
    """Producers choose their timeouts: a thousand with short ones may wait behind as many with long ones."""
    pending = PendingProduces()
    for number in range(1000):
        pending.add(Offset(number), -1, 10_000 if number < 500 else 100, number)
    Offset.compared = 0
    assert len(pending.expire(200, LATE)) == 500
    assert Offset.compared < 1000
