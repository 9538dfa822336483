"""When a record is committed and a produce is done, by mode; a plain object stands in for the replica."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.config import modes as settings
from tidelog.errors import ErrorCode
from tidelog.replication.limits import Limits
from tidelog.replication.modes import MODES, Leaders
from tidelog.replication.policies.isr import IsrPolicy
from tidelog.replication.policies.quorum import QuorumPolicy
from tidelog.replication.progress import Progress
from tidelog.replication.view import WAIT, YES, Refuse

ME = 1
ISR, QUORUM = IsrPolicy(), QuorumPolicy()


@dataclass
class Picture:
    """A partition as broker 1, its leader, sees it."""

    durable_end_offset: int = 0
    progress: Mapping[int, Progress] = field(default_factory=dict)
    in_sync: tuple[int, ...] = (ME,)
    joining: tuple[int, ...] = ()
    high_watermark: int = 0
    min_in_sync: int = 1
    epoch_start_offset: int = 0
    me: int = ME
    uncounted: frozenset[int] = frozenset()
    limits: Limits = field(default_factory=Limits)

    @property
    def replicas(self) -> tuple[int, ...]:
        return (self.me, *self.progress)

    @property
    def maximal_in_sync(self) -> frozenset[int]:
        return frozenset((*self.in_sync, *self.joining))


def followers(**ends: int | None) -> dict[int, Progress]:
    """``b2=5``: broker 2 holds everything before 5; None: it has not fetched in this epoch."""
    found = {}
    for name, end in ends.items():
        progress = Progress(0)
        if end is not None:
            progress.fetched(end, 1 << 40, 0)
        found[int(name[1:])] = progress
    return found


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


class TestProgress:
    def test_asking_for_the_end_is_being_caught_up(self) -> None:
        progress = Progress(0)
        progress.fetched(10, 10, 500)
        assert (progress.caught_up_ms, progress.end_offset, progress.seen) == (500, 10, True)

    def test_steady_writes_throw_nobody_out(self) -> None:
        """Behind at every fetch, but always with all the leader had at the fetch before."""
        progress = Progress(0)
        for number in range(1, 50):
            progress.fetched(number, number + 1, number * 100)
            assert number * 100 - progress.caught_up_ms <= 100 or number == 1

    def test_keeping_pace_at_a_distance_throws_nobody_out(self) -> None:
        """Always five fetches behind, because one brings less than what is on the way to the others."""
        progress = Progress(0)
        for number in range(1, 100):
            progress.fetched(number * 10, number * 10 + 50, number * 100)
            assert number * 100 - progress.caught_up_ms <= 1100

    def test_falling_behind(self) -> None:
        progress = Progress(0)
        for number in range(1, 50):
            progress.fetched(number, number * 10, number * 100)
        assert progress.caught_up_ms <= 100

    def test_the_first_fetch_of_an_epoch_proves_nothing_of_the_past(self) -> None:
        progress = Progress(1000)
        progress.fetched(0, 50, 2000)
        assert progress.caught_up_ms == 1000


def test_every_mode_has_its_policy() -> None:
    assert MODES.keys() == settings.MODES
    assert (MODES["isr"].policy.tracks_in_sync, MODES["isr"].leaders) == (True, Leaders.APPOINTED)
    assert (MODES["quorum"].policy.tracks_in_sync, MODES["quorum"].leaders) == (False, Leaders.ELECTED)
