"""When bytes arrive on a line with a fault."""

import itertools
from collections.abc import Callable

from tidelog.lab.network.shape import CLEAR, Line, Shape, combined, resumes_at


def chances(*values: float) -> Callable[[], float]:
    return itertools.cycle(values).__next__


def test_a_delay_holds_for_every_byte() -> None:
    line = Line(chances(0.5))
    shape = Shape(delay_ms=50)
    assert line.arrives_at(shape, 1.0, 100) == 1.05
    assert line.arrives_at(shape, 1.01, 100) == 1.06


def test_a_byte_never_overtakes_an_earlier_one() -> None:
    line = Line(chances(0.99, 0.0))
    shape = Shape(delay_ms=50, jitter_ms=50)
    first = line.arrives_at(shape, 1.0, 100)
    assert first > 1.09
    assert line.arrives_at(shape, 1.0, 100) == first  # its own delay would have been none


def test_a_slow_line_sends_one_chunk_after_the_other() -> None:
    line = Line(chances(0.5))
    shape = Shape(kbytes_per_s=10)
    assert line.arrives_at(shape, 1.0, 5_000) == 1.5
    assert line.arrives_at(shape, 1.0, 5_000) == 2.0
    assert line.arrives_at(shape, 9.0, 5_000) == 9.5  # it was idle


def test_a_lost_packet_stalls_until_it_is_sent_again() -> None:
    shape = Shape(loss_percent=10)
    assert Line(chances(0.5)).arrives_at(shape, 1.0, 100) == 1.0
    assert round(Line(chances(0.0, 0.5)).arrives_at(shape, 1.0, 100), 3) == 1.2
    # Later packets of the same chunk tell that one is missing.
    assert round(Line(chances(0.0, 0.5)).arrives_at(shape, 1.0, 100_000), 3) == 1.01
    # The second attempt is lost, too: the timer doubles.
    assert round(Line(chances(0.0, 0.0, 0.5)).arrives_at(shape, 1.0, 100), 3) == 1.4


def test_faults_on_one_line_add_up() -> None:
    shapes = [Shape(delay_ms=10, loss_percent=50, kbytes_per_s=9), Shape(delay_ms=5, loss_percent=50)]
    assert combined(shapes) == Shape(delay_ms=15, loss_percent=75, kbytes_per_s=9)
    assert combined([*shapes, Shape(cut=True)]).cut
    assert combined([]) == CLEAR
    assert CLEAR.is_clear
    assert not Shape(delay_ms=1).is_clear


def test_held_bytes_leave_with_the_next_retransmission() -> None:
    """Of TCP, which waits twice as long each time: 0.2, 0.6, 1.4, 3.0 s after the cut."""
    assert round(resumes_at(10.0, 10.1), 3) == 10.2
    assert round(resumes_at(10.0, 10.9), 3) == 11.4
    assert round(resumes_at(10.0, 12.0), 3) == 13.0
