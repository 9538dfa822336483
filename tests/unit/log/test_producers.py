"""The sequence rules: by example, and any order of batches against the model."""

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.errors import ErrorCode, TidelogError
from tidelog.log.producers import ProducerStates, Refused
from tidelog.protocol.batch import TIMESTAMP_TYPE_MASK, parse_header
from tidelog.protocol.markers import Marker, encode_marker
from unit.log.producer_model import SEQUENCES, Sent, expected_of, header_of, judge, known_to

NOW_MS = 1_000_000
DAY_MS = 86_400_000


@pytest.fixture
def states() -> ProducerStates:
    return ProducerStates("t-0")


def note(states: ProducerStates, *sent: Sent, now_ms: int = NOW_MS) -> None:
    for each in sent:
        states.note(header_of(each), now_ms)


def verdict(
    states: ProducerStates, sent: Sent, now_ms: int = NOW_MS, refused: Refused | None = None
) -> int | ErrorCode | None:
    """What :func:`producer_model.judge` says, said by the code."""
    try:
        original = states.check(header_of(sent), now_ms, refused)
    except TidelogError as refusal:
        return refusal.code
    return None if original is None else original.base_offset


def test_the_next_batch_continues_the_sequence(states: ProducerStates) -> None:
    note(states, Sent(7, 0, 0, 3, 100))
    assert verdict(states, Sent(7, 0, 3, 1)) is None


@pytest.mark.parametrize("sequence", [4, 2, 1 << 30])
def test_a_gap_is_refused(states: ProducerStates, sequence: int) -> None:
    note(states, Sent(7, 0, 0, 3, 100))
    assert verdict(states, Sent(7, 0, sequence, 1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_the_last_five_batches_are_recognised(states: ProducerStates) -> None:
    note(states, *(Sent(7, 0, n * 2, 2, 100 + n * 2) for n in range(6)))
    answers = [verdict(states, Sent(7, 0, n * 2, 2)) for n in range(6)]
    assert answers == [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 102, 104, 106, 108, 110]


def test_the_same_sequence_with_another_count_is_no_duplicate(states: ProducerStates) -> None:
    note(states, Sent(7, 0, 0, 2, 100))
    assert verdict(states, Sent(7, 0, 0, 1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_duplicate_tells_the_original_append_time(states: ProducerStates) -> None:
    stamped, unstamped = Sent(7, 0, 0, 1, 100), Sent(8, 0, 0, 1, 101)
    states.note(header_of(stamped, attributes=TIMESTAMP_TYPE_MASK, timestamp=4711), NOW_MS)
    states.note(header_of(unstamped, timestamp=4711), NOW_MS)
    original = states.check(header_of(stamped), NOW_MS)
    assert original is not None
    assert original.append_time_ms == 4711
    original = states.check(header_of(unstamped), NOW_MS)
    assert original is not None
    assert original.append_time_ms == -1


def test_an_unknown_producer_may_begin_anywhere(states: ProducerStates) -> None:
    assert verdict(states, Sent(7, 3, 12345, 1)) is None


def test_a_new_epoch_begins_at_zero(states: ProducerStates) -> None:
    note(states, Sent(7, 0, 0, 3, 100))
    assert verdict(states, Sent(7, 1, 3, 1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert verdict(states, Sent(7, 1, 0, 1)) is None
    note(states, Sent(7, 1, 0, 1, 103))
    assert verdict(states, Sent(7, 0, 3, 1)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert verdict(states, Sent(7, 0, 0, 3)) is ErrorCode.INVALID_PRODUCER_EPOCH  # even a duplicate


def test_sequences_go_on_at_zero_behind_the_largest(states: ProducerStates) -> None:
    across = Sent(7, 0, SEQUENCES - 2, 5, 100)  # the last is 2
    note(states, across)
    assert verdict(states, across) == 100
    assert verdict(states, Sent(7, 0, 3, 1)) is None
    note(states, Sent(8, 0, SEQUENCES - 1, 1, 105))
    assert verdict(states, Sent(8, 0, 0, 1)) is None


@pytest.mark.parametrize("sent", [Sent(7, 0, -1, 1), Sent(7, -1, 0, 1)])
def test_a_producer_needs_epoch_and_sequence(states: ProducerStates, sent: Sent) -> None:
    assert verdict(states, sent) is ErrorCode.INVALID_RECORD


def test_a_refusal_changes_nothing(states: ProducerStates) -> None:
    note(states, Sent(7, 1, 0, 3, 100))
    before = known_to(states)
    for sent in (Sent(7, 0, 0, 1), Sent(7, 1, 9, 1), Sent(7, 2, 9, 1), Sent(9, -1, 0, 1)):
        assert isinstance(verdict(states, sent), ErrorCode)
    assert known_to(states) == before


def test_the_end_of_a_transaction_raises_the_epoch_only(states: ProducerStates) -> None:
    note(states, Sent(7, 0, 0, 3, 100))
    marker = encode_marker(Marker(True, 0), 7, 1, offset=103, now_ms=NOW_MS)
    states.note_marker(parse_header(marker), marker, NOW_MS)
    assert verdict(states, Sent(7, 0, 3, 1)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert verdict(states, Sent(7, 1, 3, 1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert verdict(states, Sent(7, 1, 0, 1)) is None


class TestForgetting:
    def test_a_silent_producer_expires(self, states: ProducerStates) -> None:
        note(states, Sent(7, 5, 0, 3, 100))
        assert verdict(states, Sent(7, 4, 9, 1), NOW_MS + DAY_MS - 1) is ErrorCode.INVALID_PRODUCER_EPOCH
        assert verdict(states, Sent(7, 4, 9, 1), NOW_MS + DAY_MS) is None
        states.expire(NOW_MS + DAY_MS - 1)
        assert len(states) == 1
        states.expire(NOW_MS + DAY_MS)
        assert len(states) == 0

    def test_writing_keeps_it_alive(self, states: ProducerStates) -> None:
        note(states, Sent(7, 0, 0, 1, 100))
        note(states, Sent(7, 0, 1, 1, 101), now_ms=NOW_MS + DAY_MS - 1)
        assert verdict(states, Sent(7, 0, 5, 1), NOW_MS + DAY_MS) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    def test_the_time_is_a_setting(self, states: ProducerStates) -> None:
        states.expiration_ms = 50
        note(states, Sent(7, 0, 0, 1, 100))
        assert verdict(states, Sent(7, 0, 5, 1), NOW_MS + 50) is None

    def test_of_too_many_the_longest_idle_go(
        self, states: ProducerStates, caplog: pytest.LogCaptureFixture
    ) -> None:
        states.producers_max = 100
        for n in range(100):
            note(states, Sent(n, 0, 0, 1, n), now_ms=NOW_MS + n)
        note(states, Sent(0, 0, 1, 1, 100), now_ms=NOW_MS + 100)
        with caplog.at_level(logging.WARNING):
            note(states, Sent(100, 0, 0, 1, 101), now_ms=NOW_MS + 101)
        assert set(known_to(states)) == {0, *range(12, 101)}
        assert "t-0: more than 100 producers" in caplog.text

    def test_there_are_never_more_than_the_limit(self, states: ProducerStates) -> None:
        states.producers_max = 3
        for n in range(50):
            note(states, Sent(n, 0, 0, 1, n), now_ms=NOW_MS + n)
            assert len(states) <= 3
            assert states.get(n) is not None


sent_batches = st.builds(
    Sent,
    producer_id=st.integers(0, 2),
    epoch=st.integers(0, 3),
    sequence=st.one_of(st.integers(0, 12), st.integers(SEQUENCES - 6, SEQUENCES - 1)),
    records=st.integers(1, 4),
    base_offset=st.just(-1),
)


@given(st.lists(st.tuples(sent_batches, st.booleans(), st.integers(0, 6)), max_size=60))
def test_any_order_of_batches(attempts: list[tuple[Sent, bool, int]]) -> None:
    """Random batches, mixed with ones that continue or repeat what is there."""
    states = ProducerStates("t-0")
    history: list[Sent] = []
    for sent, follows, back in attempts:
        own = [each for each in history if each.producer_id == sent.producer_id]
        if own and follows:
            sent = sent._replace(epoch=own[-1].epoch, sequence=own[-1].next_sequence)
        elif own and back:
            sent = own[-min(back, len(own))]
        wanted = judge(history, sent)
        assert verdict(states, sent) == wanted
        if wanted is None:
            placed = sent._replace(base_offset=history[-1].last_offset + 1 if history else 0)
            history.append(placed)
            note(states, placed)
        assert known_to(states) == expected_of(history)


class TestAfterARefusedBatch:
    """Producers send the next batches before they know that one was refused."""

    NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER

    @pytest.mark.parametrize(
        ("refused", "sequence", "told"),
        [
            (0, 3, NOT_LEADER),
            (0, 0, None),
            (5, 3, None),  # sent before the refused one
            (SEQUENCES - 2, 1, NOT_LEADER),
            (1, SEQUENCES - 2, None),
            (SEQUENCES - 2, SEQUENCES - 2, None),
        ],
    )
    def test_an_unknown_producer_does_not_begin_with_a_later_one(
        self, states: ProducerStates, refused: int, sequence: int, told: ErrorCode | None
    ) -> None:
        assert verdict(states, Sent(7, 0, sequence, 1), refused={refused: self.NOT_LEADER}) is told

    def test_an_expired_producer_neither(self, states: ProducerStates) -> None:
        note(states, Sent(7, 0, 0, 3, 100))
        later = NOW_MS + DAY_MS
        assert verdict(states, Sent(7, 0, 5, 1), later, {3: self.NOT_LEADER}) is self.NOT_LEADER
        assert verdict(states, Sent(7, 0, 3, 2), later, {3: self.NOT_LEADER}) is None

    @pytest.mark.parametrize(
        ("refused", "told"),
        [
            ({3: NOT_LEADER}, NOT_LEADER),
            ({3: NOT_LEADER, 5: ErrorCode.NOT_ENOUGH_REPLICAS}, NOT_LEADER),
            ({3: ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER}, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
            ({5: NOT_LEADER}, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),  # Sequence 3 was lost.
            ({}, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        ],
    )
    def test_a_gap_has_the_error_of_the_missing_batch(
        self, states: ProducerStates, refused: Refused, told: ErrorCode
    ) -> None:
        note(states, Sent(7, 0, 0, 3, 100))
        assert verdict(states, Sent(7, 0, 7, 1), refused=refused) is told

    def test_a_gap_at_the_wrap(self, states: ProducerStates) -> None:
        note(states, Sent(7, 0, SEQUENCES - 3, 3, 100))
        assert verdict(states, Sent(7, 0, 2, 1), refused={0: self.NOT_LEADER}) is self.NOT_LEADER

    def test_what_continues_the_log_is_accepted_whatever_was_refused(self, states: ProducerStates) -> None:
        note(states, Sent(7, 0, 0, 3, 100))
        refused = {0: self.NOT_LEADER, 1: self.NOT_LEADER, 2: self.NOT_LEADER}
        assert verdict(states, Sent(7, 0, 3, 1), refused=refused) is None
        assert verdict(states, Sent(7, 0, 0, 3), refused=refused) == 100

    def test_a_new_epoch_begins_with_its_first_batch(self, states: ProducerStates) -> None:
        note(states, Sent(7, 0, 0, 3, 100))
        refused = {0: self.NOT_LEADER}
        assert verdict(states, Sent(7, 1, 2, 1), refused=refused) is self.NOT_LEADER
        assert verdict(states, Sent(7, 1, 0, 2), refused=refused) is None
