"""What a process has acknowledged must be on its disk when it ends, unless it was dropped since."""

from types import SimpleNamespace

from tidelog.replication.messages import FetchItem
from tidelog.sim.acknowledged import Acknowledged, Holder

KEY = "orders"


def _replica(start_offset: int, end_offset: int, cuts: int = 0) -> Holder:
    replica: Holder = SimpleNamespace(
        log=SimpleNamespace(start_offset=start_offset, end_offset=end_offset, cuts=cuts)
    )
    return replica


def _held(before: Holder, after: Holder) -> dict[object, int]:
    acknowledged = Acknowledged()
    item = FetchItem(KEY, 1, before.log.end_offset, 1, before.log.start_offset, 0)
    acknowledged.sent([item], {KEY: before})
    return acknowledged.held({KEY: after})


def test_everything_before_the_offset_of_the_newest_fetch() -> None:
    assert _held(_replica(0, 10), _replica(0, 12)) == {KEY: 10}


def test_not_what_was_truncated_since() -> None:
    assert _held(_replica(0, 10), _replica(0, 6, cuts=1)) == {KEY: 6}


def test_nothing_if_the_leader_has_deleted_it_since() -> None:
    assert _held(_replica(0, 10), _replica(15, 15, cuts=1)) == {}


def test_nothing_if_it_was_dropped_with_damage_before_the_log_start() -> None:
    assert _held(_replica(6, 10), _replica(6, 6, cuts=1)) == {}


def test_the_end_of_a_log_whose_records_have_all_expired() -> None:
    """Nothing was cut: offsets that were used must not be used again."""
    assert _held(_replica(0, 10), _replica(10, 10)) == {KEY: 10}


def test_not_the_fetches_from_before_a_cut_if_there_are_newer_ones() -> None:
    acknowledged = Acknowledged()
    acknowledged.sent([FetchItem(KEY, 1, 10, 1, 6, 0)], {KEY: _replica(6, 10)})
    restarted = _replica(6, 6, cuts=1)
    acknowledged.sent([FetchItem(KEY, 1, 6, 1, 6, 0)], {KEY: restarted})
    assert acknowledged.held({KEY: restarted}) == {KEY: 6}
