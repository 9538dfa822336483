"""Watermarks that readers are told."""

import pytest

from tidelog.sim.checkers.violation import Violation
from tidelog.sim.checkers.watermarks import Watermarks


class TestWatermarks:
    def test_one_process_goes_forward_and_another_may_be_behind(self) -> None:
        watermarks = Watermarks("t-0", lambda: 10)
        watermarks.told("process of 1", 1, 8, 8)
        watermarks.told("process of 2", 2, 5, 3)
        watermarks.told("process of 1", 1, 10, 9)

    @pytest.mark.parametrize(("watermark", "stable"), [(7, 7), (9, 6), (9, 10), (11, 8)])
    def test_not_back_not_more_stable_than_committed_not_more_than_anybody_committed(
        self, watermark: int, stable: int
    ) -> None:
        watermarks = Watermarks("t-0", lambda: 10)
        watermarks.told("process", 1, 8, 7)
        with pytest.raises(Violation):
            watermarks.told("process", 1, watermark, stable)

    def test_what_may_have_been_given_up_does_not_bind(self) -> None:
        watermarks = Watermarks("t-0", lambda: 10)
        watermarks.told("process", 1, 8, 7, binding_end=5)
        watermarks.told("process", 1, 5, 5)
        with pytest.raises(Violation):
            watermarks.told("process", 1, 4, 4)

    def test_who_drops_damaged_records_goes_back_to_them_once(self) -> None:
        watermarks = Watermarks("t-0", lambda: 10)
        watermarks.damaged(1, 4)
        watermarks.told("process", 1, 8, 7)
        watermarks.told("process", 1, 5, 5)
        watermarks.told("process", 1, 8, 7)
        with pytest.raises(Violation):
            watermarks.told("process", 1, 5, 5)

    def test_damage_excuses_nobody_else_and_nothing_before_it(self) -> None:
        watermarks = Watermarks("t-0", lambda: 10)
        watermarks.damaged(1, 4)
        for broker, watermark in ((1, 3), (2, 5)):
            watermarks.told(f"process of {broker}", broker, 8, 7)
            with pytest.raises(Violation):
                watermarks.told(f"process of {broker}", broker, watermark, 3)
