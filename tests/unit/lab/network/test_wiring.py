"""Which faults are on which line, with several at a time."""

from tidelog.lab.network.namespaced import netem_words
from tidelog.lab.network.shape import CLEAR, Shape
from tidelog.lab.network.wiring import Direction, Wiring, directions_between


class Told(Wiring):
    def __init__(self) -> None:
        super().__init__()
        self.shapes: dict[Direction, Shape] = {}

    def _apply(self, direction: Direction, shape: Shape) -> None:
        self.shapes[direction] = shape


def test_a_fault_leaves_what_another_one_still_does() -> None:
    wiring = Told()
    there, back = Direction(1, 2), Direction(2, 1)
    slow = wiring.add(Shape(delay_ms=5), [there, back])
    cut = wiring.add(Shape(cut=True), [there])
    assert wiring.shapes == {there: Shape(cut=True, delay_ms=5), back: Shape(delay_ms=5)}
    wiring.remove(cut)
    wiring.remove(cut)
    assert wiring.shapes[there] == Shape(delay_ms=5)
    wiring.remove(slow)
    assert wiring.shapes == {there: CLEAR, back: CLEAR}


def test_healing_removes_all_faults() -> None:
    wiring = Told()
    for target in (2, 3):
        wiring.add(Shape(cut=True), [Direction(1, target)])
    wiring.heal()
    assert set(wiring.shapes.values()) == {CLEAR}


def test_nobody_is_cut_from_itself() -> None:
    assert directions_between([1, 2], [2, "clients"]) == [(1, 2), (1, "clients"), (2, "clients")]


def test_netem_is_told_the_same_shape() -> None:
    assert netem_words(Shape(loss_percent=2)) == ["limit", "100000", "loss", "2%"]
    words = " ".join(netem_words(Shape(delay_ms=50, jitter_ms=5, loss_percent=1, kbytes_per_s=125)))
    assert words == "limit 100000 delay 50ms 5ms loss 1% rate 1000kbit"
