"""Fetches from the follower's side: what is asked for again, how long a response is waited for, and which
responses count.
"""

import pytest

from tidelog.errors import ErrorCode
from tidelog.protocol.records import Record, encode_batch
from tidelog.replication.driver import ReplicaDriver
from tidelog.replication.fetch_server import COMMIT_WITHIN_MS
from tidelog.replication.fetching import MAX_WAIT_MS, TIMEOUT_MS
from tidelog.replication.messages import FetchGot, FetchPart
from tidelog.replication.voting import TICK_MS
from unit.replication.replica_pair import FOLLOWER, LEADER, NOW_MS, Pair


def test_records_reach_the_follower_and_are_committed() -> None:
    pair = Pair(3)
    for index in (0, 1, 1):
        pair.append(index)
    pair.clock.settle()
    pair.clock.advance(COMMIT_WITHIN_MS)
    assert pair.ends() == [(1, 1), (2, 2), (0, 0)]
    for key, watermark in zip(pair.keys, (1, 2, 0), strict=True):
        assert pair.at(LEADER, key).replica.high_watermark == watermark
        assert pair.at(FOLLOWER, key).replica.high_watermark == watermark


def test_only_what_is_new_travels() -> None:
    pair = Pair(50)
    assert [len(ask.items) for ask in pair.asks()] == [50]
    pair.said.clear()
    pair.append(7)
    pair.clock.settle()
    assert all(len(ask.items) == 1 and ask.since for ask in pair.asks())
    assert {part.key for response in pair.responses() for part in response.parts} == {("t", 7)}


def test_a_lost_response_is_asked_for_again() -> None:
    pair = Pair(2)
    pair.deaf = True
    pair.append(0)
    pair.append(1)
    pair.clock.settle()
    pair.deaf = False
    assert pair.ends() == [(1, 0), (1, 0)]
    pair.clock.advance(TIMEOUT_MS + 2 * TICK_MS)
    assert pair.ends() == [(1, 1), (1, 1)]


@pytest.mark.parametrize("round_trip_ms", [300, 600, 900, 2000, 4000])
def test_however_far_away_the_leader_is_its_follower_catches_up(round_trip_ms: int) -> None:
    pair = Pair(2)
    pair.one_way_ms = round_trip_ms // 2
    pair.append(0)
    pair.append(1)
    pair.clock.advance(4 * round_trip_ms + 2 * TIMEOUT_MS)
    assert pair.ends() == [(1, 1), (1, 1)]
    for _ in range(3):
        # From now on it knows how long the way is.
        pair.append(0)
        pair.clock.advance(2 * round_trip_ms + MAX_WAIT_MS + 2 * TICK_MS)
        assert pair.ends()[0][0] == pair.ends()[0][1]


def test_patience_ends_with_the_long_way() -> None:
    pair = Pair()
    pair.one_way_ms = 1000
    pair.append()
    pair.clock.advance(10_000)
    assert pair.ends() == [(1, 1)]
    pair.one_way_ms = 0
    pair.append()
    pair.clock.advance(3000)
    pair.deaf = True
    pair.append()
    pair.clock.settle()
    pair.deaf = False
    pair.clock.advance(TIMEOUT_MS + 2 * TICK_MS)
    assert pair.ends() == [(3, 3)]


def test_over_a_thin_line_less_is_asked_for_at_a_time() -> None:
    """What one answer may carry would take longer than anybody waits."""
    pair = Pair()
    pair.deaf = True
    for _ in range(20):
        pair.append(value=bytes(1 << 20))
    pair.clock.settle()
    pair.deaf = False
    pair.bytes_per_ms = 1000
    pair.clock.advance(60_000)
    assert pair.ends() == [(20, 20)]


def test_a_leader_that_has_forgotten_is_asked_completely() -> None:
    pair = Pair(3)
    pair.hosts[LEADER].fetch_server.stop()
    pair.said.clear()
    pair.append(2)
    pair.clock.advance(TIMEOUT_MS + 2 * TICK_MS)
    assert pair.ends()[2] == (1, 1)
    assert any(ask.since == 0 and len(ask.items) == 3 for ask in pair.asks())


def test_a_response_counts_once() -> None:
    """The same answer again, when the follower's log ends again where it did then, changes nothing."""
    pair = Pair()
    pair.append()
    pair.clock.settle()
    first = next(response for response in pair.responses() if response.parts)
    follower = pair.at(FOLLOWER, pair.keys[0])
    before = follower.log.end_offset
    pair.deliver(FOLLOWER, first)
    pair.deliver(FOLLOWER, first)
    pair.clock.settle()
    assert follower.log.end_offset == before


def test_what_only_a_second_response_answers_is_asked_for_again() -> None:
    """The leader believes that the partition is answered, and would wait for the next request for it."""
    pair = Pair()
    pair.said.clear()
    pair.clock.advance(2 * MAX_WAIT_MS)  # The request that names the partition is answered, without a part.
    (key,) = pair.keys
    asked = pair.hosts[FOLLOWER]._loops[LEADER]._asked[pair.at(FOLLOWER, key)]
    part = FetchPart(key, 0, epoch=0, high_watermark=0, log_start_offset=0)
    pair.hosts[FOLLOWER].receive(FetchGot(LEADER, asked, ErrorCode.NONE, [part]))
    pair.said.clear()
    pair.clock.settle()
    assert [item.key for ask in pair.asks() for item in ask.items] == [key]


def test_a_later_epoch_of_the_same_leader_begins_afresh() -> None:
    pair = Pair(2)
    pair.append(0)
    pair.clock.settle()
    pair.begin_epoch(1)
    pair.append(0)
    pair.append(1)
    pair.clock.advance(200)
    assert pair.ends() == [(2, 2), (1, 1)]
    assert pair.at(FOLLOWER, pair.keys[0]).replica.high_watermark == 2


def test_a_response_to_an_earlier_run_of_the_follower_is_not_taken() -> None:
    """That run held a committed record where this one, after a power failure, holds another."""
    pair = Pair()
    pair.deaf = True
    key = pair.keys[0]
    follower = pair.at(FOLLOWER, key)
    follower.log.append_batches(memoryview(encode_batch([Record(0, NOW_MS, None, b"old", ())])), NOW_MS)
    generation = pair.asks()[-1].generation + 1000  # They begin anywhere.
    part = FetchPart(key, follower.log.end_offset, epoch=0, high_watermark=1, log_start_offset=0)
    pair.hosts[FOLLOWER].receive(FetchGot(LEADER, generation, ErrorCode.NONE, [part]))
    assert follower.replica.high_watermark == 0


def test_a_large_backlog_comes_in_several_responses() -> None:
    pair = Pair(2)
    pair.deaf = True
    for _ in range(30):
        pair.append(0, b"x" * 400_000)
    pair.append(1)
    pair.deaf = False
    pair.clock.advance(2 * TIMEOUT_MS)
    assert pair.ends() == [(30, 30), (1, 1)]
    sizes = [
        sum(part.records.size for part in response.parts if part.records) for response in pair.responses()
    ]
    assert max(sizes) <= 12 << 20


def forget_confirmation(pair: Pair) -> ReplicaDriver:
    """As after a power failure."""
    follower = pair.at(FOLLOWER, pair.keys[0])
    follower.replica.watermark.log_confirmed = False
    assert follower.replica.readable_end_offset == 0
    return follower


def test_a_complete_follower_is_confirmed_when_its_request_is_pending() -> None:
    pair = Pair(2)
    pair.append()
    pair.clock.settle()
    follower = forget_confirmation(pair)
    pair.begin_epoch(1)
    pair.clock.advance(MAX_WAIT_MS + 2 * TICK_MS)
    assert follower.replica.watermark.log_confirmed
    assert follower.replica.readable_end_offset == 1


def test_a_response_to_another_request_confirms_nothing() -> None:
    """The one to its own ask may have said where the logs part, and be lost."""
    pair = Pair(2)
    pair.append()
    pair.clock.settle()
    follower = forget_confirmation(pair)
    pair.begin_epoch(1)
    [loop] = pair.hosts[FOLLOWER]._loops.values()
    asked = loop._asked[follower]
    loop._agree(asked + 1)
    assert not follower.replica.watermark.log_confirmed
    loop._agree(asked)
    assert follower.replica.watermark.log_confirmed


def test_a_follower_begins_where_its_leader_does_before_it_commits() -> None:
    pair = Pair()
    for _ in range(3):
        pair.append()
    pair.clock.settle()
    pair.clock.advance(COMMIT_WITHIN_MS)
    leader, follower = pair.at(LEADER, pair.keys[0]), pair.at(FOLLOWER, pair.keys[0])
    pair.begins.clear()
    leader.log.advance_start(2)
    pair.append()
    pair.clock.settle()
    pair.clock.advance(COMMIT_WITHIN_MS)
    assert follower.replica.high_watermark == 4
    assert pair.begins == [2]
