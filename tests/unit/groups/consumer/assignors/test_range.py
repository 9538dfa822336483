"""The range assignor: runs of partitions, the same number of each topic."""

from hypothesis import given
from hypothesis import strategies as st

from unit.groups.consumer.assignors.assignments import TOPICS, run


@given(members=st.integers(1, 9), size=st.integers(1, 12))
def test_range_gives_runs_and_the_same_number_of_each_topic(members: int, size: int) -> None:
    t, u = TOPICS[:2]
    wanted = {f"m{number}": frozenset({t, u}) for number in range(members)}
    for part in run("range", wanted, {t: size, u: size}, {}).values():
        assert part.get(t) == part.get(u)
        indexes = sorted(part.get(t, ()))
        assert indexes == list(range(indexes[0], indexes[0] + len(indexes))) if indexes else True


def test_range_gives_the_first_ones_more() -> None:
    t = TOPICS[0]
    targets = run("range", {"a": frozenset({t}), "b": frozenset({t}), "c": frozenset({t})}, {t: 7}, {})
    assert [sorted(targets[name][t]) for name in "abc"] == [[0, 1, 2], [3, 4], [5, 6]]


def test_range_puts_who_is_new_last() -> None:
    t = TOPICS[0]
    had = run("range", {"x": frozenset({t}), "y": frozenset({t})}, {t: 6}, {})
    targets = run("range", {"a": frozenset({t}), "x": frozenset({t}), "y": frozenset({t})}, {t: 6}, had)
    assert [sorted(targets[name][t]) for name in "xya"] == [[0, 1], [2, 3], [4, 5]]
