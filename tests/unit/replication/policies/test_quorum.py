"""When a record is committed and a produce is done in mode quorum."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.replication.view import WAIT, YES
from unit.replication.policies.picture import QUORUM, Picture, followers


class TestQuorum:
    @pytest.mark.parametrize(
        ("end", "ends", "expected"),
        [
            (10, {}, 10),
            (10, {"b2": 0, "b3": 0}, 1),
            (10, {"b2": 7, "b3": 0}, 7),
            (10, {"b2": 7, "b3": 9}, 9),
            (5, {"b2": 7, "b3": 9}, 7),
            (10, {"b2": 8, "b3": 6, "b4": 4, "b5": None}, 6),
            (10, {"b2": 8}, 8),
            (10, {"b2": None, "b3": None}, 1),
        ],
    )
    def test_a_majority_must_have_it(self, end: int, ends: dict[str, int | None], expected: int) -> None:
        assert QUORUM.committed(Picture(end, followers(**ends), high_watermark=1)) == expected

    def test_what_an_earlier_leader_wrote_needs_a_record_of_the_new_one_behind_it(self) -> None:
        view = Picture(10, followers(b2=8, b3=8), high_watermark=3, epoch_start_offset=8)
        assert QUORUM.committed(view) == 3
        view.progress = followers(b2=9, b3=8)
        assert QUORUM.committed(view) == 9

    @given(end=st.integers(1, 99), ends=st.lists(st.none() | st.integers(0, 99), max_size=6))
    def test_more_than_half_hold_what_is_newly_committed(self, end: int, ends: list[int | None]) -> None:
        others = {f"b{number}": each for number, each in enumerate(ends, start=2)}
        committed = QUORUM.committed(Picture(end, followers(**others), high_watermark=3))
        if committed > 3:
            holders = [each for each in (end, *ends) if each is not None and each >= committed]
            assert len(holders) > (1 + len(ends)) / 2

    @pytest.mark.parametrize("acks", [1, -1])
    def test_only_a_majority_makes_an_ok(self, acks: int) -> None:
        view = Picture(durable_end_offset=9, high_watermark=5)
        assert QUORUM.before_append(view, acks) is None
        assert QUORUM.acknowledged(view, 5, acks) is YES
        assert QUORUM.acknowledged(view, 6, acks) is WAIT
