"""Latencies in slices, in bounded memory."""

from tidelog.lab.playground.course import SAMPLES_MAX, SLICES_MAX, Course, Slice


def test_a_slice_has_the_median_and_the_worst() -> None:
    course = Course()
    for latency_s in (0.002, 0.001, 0.009):
        course.acknowledged(latency_s)
    assert course.cut(500, 0.0) == Slice(500, 3, 2.0, 9.0)


def test_a_slice_without_acknowledgements_says_how_long_writes_wait() -> None:
    course = Course()
    assert course.cut(500, 1.5) == Slice(500, 0, -1.0, 1500.0)
    assert course.cut(1000, 0.0) == Slice(1000, 0, -1.0, -1.0)


def test_the_worst_counts_even_if_it_comes_late() -> None:
    course = Course()
    for _ in range(SAMPLES_MAX):
        course.acknowledged(0.001)
    course.acknowledged(7.0)
    assert course.cut(500, 0.0) == Slice(500, SAMPLES_MAX + 1, 1.0, 7000.0)


def test_old_slices_go() -> None:
    course = Course()
    for number in range(SLICES_MAX + 5):
        course.cut(number, 0.0)
    assert len(course.slices) == SLICES_MAX
    assert course.slices[0].end_ms == 5
