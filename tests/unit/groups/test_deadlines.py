"""Deadlines happen once, in order, at their time, however often they are moved."""

from hypothesis import given
from hypothesis import strategies as st

from tidelog.groups.deadlines import Deadline, Deadlines
from tidelog.groups.effects import Effects, Now


class Clock:
    def __init__(self) -> None:
        self.deadlines = Deadlines()
        self.happened: list[tuple[str, int]] = []
        self.now_ms = 0

    def new(self, name: str) -> Deadline:
        def due(now: Now) -> Effects:
            self.happened.append((name, now.uptime_ms))
            return []

        return self.deadlines.new(due)

    def advance(self, to_ms: int) -> None:
        while (next_ms := self.deadlines.next_ms) is not None and next_ms <= to_ms:
            self.now_ms = max(self.now_ms, next_ms)
            self.deadlines.pass_to(Now(self.now_ms, 0))
        self.now_ms = to_ms


def test_moved_away_moved_near_and_cleared() -> None:
    clock = Clock()
    away, near, never, again = (clock.new(name) for name in ("away", "near", "never", "again"))
    for deadline in (away, near, never, again):
        deadline.set(10)
    away.set(20)
    near.set(5)
    never.clear()
    clock.advance(15)
    again.set(30)
    clock.advance(100)
    assert clock.happened == [("near", 5), ("again", 10), ("away", 20), ("again", 30)]
    assert clock.deadlines.next_ms is None


@given(
    st.lists(st.tuples(st.integers(0, 3), st.none() | st.integers(0, 50), st.integers(0, 10)), max_size=60)
)
def test_against_a_simple_model(steps: list[tuple[int, int | None, int]]) -> None:
    clock = Clock()
    deadlines = [clock.new(str(number)) for number in range(4)]
    model: dict[str, int] = {}
    expected: list[tuple[str, int]] = []
    for number, wanted, pause in steps:
        if wanted is None:
            deadlines[number].clear()
            model.pop(str(number), None)
        else:
            deadlines[number].set(clock.now_ms + wanted)
            model[str(number)] = clock.now_ms + wanted
        to_ms = clock.now_ms + pause
        due = sorted((at_ms, name) for name, at_ms in model.items() if at_ms <= to_ms)
        expected += [(name, max(at_ms, clock.now_ms)) for at_ms, name in due]
        for _, name in due:
            del model[name]
        clock.advance(to_ms)
    assert sorted(clock.happened) == sorted(expected)
    assert [at_ms for _, at_ms in clock.happened] == sorted(at_ms for _, at_ms in clock.happened)
