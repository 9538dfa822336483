"""When a record is committed and a produce is done in mode isr."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.errors import ErrorCode
from tidelog.replication.view import WAIT, YES, Refuse
from unit.replication.policies.picture import ISR, ME, Picture, followers


class TestIsrCommit:
    @pytest.mark.parametrize(
        ("end", "ends", "in_sync", "joining", "expected"),
        [
            (10, {}, (1,), (), 10),
            (10, {"b2": 7, "b3": 9}, (1, 2, 3), (), 7),
            (5, {"b2": 7}, (1, 2), (), 5),
            (10, {"b2": 7, "b3": 2}, (1, 2), (), 7),
            (10, {"b2": 7, "b3": 2}, (1, 2), (3,), 2),
            (10, {"b2": None}, (1, 2), (), 1),
            (10, {"b2": None}, (1,), (), 10),
        ],
    )
    def test_the_whole_set_must_have_it(
        self,
        end: int,
        ends: dict[str, int | None],
        in_sync: tuple[int, ...],
        joining: tuple[int, ...],
        expected: int,
    ) -> None:
        view = Picture(end, followers(**ends), in_sync, joining, high_watermark=1)
        assert ISR.committed(view) == expected

    def test_below_the_minimum_nothing_moves(self) -> None:
        view = Picture(10, followers(b2=10), (1,), high_watermark=4, min_in_sync=2)
        assert ISR.committed(view) == 4
        view.in_sync = (1, 2)
        assert ISR.committed(view) == 10

    @given(end=st.integers(0, 99), ends=st.lists(st.none() | st.integers(0, 99), max_size=4), data=st.data())
    def test_every_member_holds_what_is_newly_committed(
        self, end: int, ends: list[int | None], data: st.DataObject
    ) -> None:
        others = {f"b{number}": each for number, each in enumerate(ends, start=2)}
        members = data.draw(st.sets(st.sampled_from(range(2, 2 + len(ends))))) if ends else set()
        view = Picture(end, followers(**others), (ME, *members), high_watermark=3)
        committed = ISR.committed(view)
        if committed > 3:
            assert committed <= end
            assert all((others[f"b{member}"] or 0) >= committed for member in members)


class TestIsrAcknowledge:
    def test_all_copies_need_the_minimum_before_anything_is_written(self) -> None:
        view = Picture(in_sync=(1,), min_in_sync=2)
        assert ISR.before_append(view, -1) == Refuse(ErrorCode.NOT_ENOUGH_REPLICAS)
        assert ISR.before_append(view, 1) is None
        view.in_sync = (1, 2)
        assert ISR.before_append(view, -1) is None

    def test_one_copy_is_the_leaders(self) -> None:
        view = Picture(durable_end_offset=5, in_sync=(1, 2), high_watermark=0)
        assert ISR.acknowledged(view, 5, 1) is YES
        assert ISR.acknowledged(view, 6, 1) is WAIT

    @pytest.mark.parametrize(
        ("high_watermark", "in_sync", "expected"),
        [
            (5, (1, 2), YES),
            (4, (1, 2), WAIT),
            (5, (1,), Refuse(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)),
            (4, (1,), Refuse(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)),
        ],
    )
    def test_all_copies(self, high_watermark: int, in_sync: tuple[int, ...], expected: object) -> None:
        view = Picture(9, followers(b2=9), in_sync, high_watermark=high_watermark, min_in_sync=2)
        assert ISR.acknowledged(view, 5, -1) == expected
