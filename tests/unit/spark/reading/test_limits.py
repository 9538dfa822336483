"""How the limit of a micro-batch is divided."""

from hypothesis import given
from hypothesis import strategies as st

from tidelog.spark.reading.limits import share

A, B, C = (("t", number) for number in range(3))


def test_all_that_is_there_if_the_limit_allows_it() -> None:
    assert share({A: 5}, {A: 10, B: 5}, 10) == {A: 10, B: 5}


def test_each_partition_by_its_backlog() -> None:
    assert share({A: 0, B: 100}, {A: 300, B: 200}, 40) == {A: 30, B: 110}


def test_none_starves() -> None:
    assert share({A: 0, B: 0, C: 7}, {A: 1_000_000, B: 1, C: 7}, 10) == {A: 9, B: 1, C: 7}


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 60)), min_size=1, max_size=6), st.integers(1, 80)
)
def test_a_stream_gets_to_the_end_and_never_back(spans: list[tuple[int, int]], limit: int) -> None:
    begin = {("t", number): start for number, (start, _) in enumerate(spans)}
    end = {("t", number): stop for number, (_, stop) in enumerate(spans)}
    for _ in range(400):
        if all(begin[one] >= end[one] for one in end):
            return
        after = share(begin, end, limit)
        read = {one: after[one] - begin[one] for one in end if end[one] > begin[one]}
        assert all(size > 0 for size in read.values())
        assert sum(read.values()) <= limit + len(read)
        assert all(after[one] <= end[one] for one in read)
        begin = {one: max(after[one], begin[one]) for one in end}
    raise AssertionError("the end was not reached")
