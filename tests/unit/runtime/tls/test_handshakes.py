"""How many handshakes there may be, and which one is dropped."""

from tidelog.runtime.tls.handshakes import Handshakes


class Fake:
    def __init__(self) -> None:
        self.reason = ""

    def give_up(self, reason: str) -> None:
        self.reason = reason


def test_the_one_that_has_waited_longest_is_dropped() -> None:
    handshakes = Handshakes(2)
    first, second, third = Fake(), Fake(), Fake()
    for each in (first, second, third):
        handshakes.waits(each)
    assert [each.reason for each in (first, second, third)] == ["ssl.handshakes.max (2) is reached", "", ""]
    assert len(handshakes) == 2


def test_one_that_computes_is_not_dropped() -> None:
    handshakes = Handshakes(2)
    first, second, third = Fake(), Fake(), Fake()
    handshakes.waits(first)
    handshakes.computes(first)
    handshakes.waits(second)
    handshakes.waits(third)
    assert (first.reason, third.reason) == ("", "")
    assert second.reason


def test_a_newcomer_is_dropped_while_all_others_compute() -> None:
    handshakes = Handshakes(1)
    first, second = Fake(), Fake()
    handshakes.computes(first)
    handshakes.waits(second)
    assert (first.reason, bool(second.reason)) == ("", True)
    assert len(handshakes) == 1


def test_one_that_has_ended_leaves_room() -> None:
    handshakes = Handshakes(1)
    first, second = Fake(), Fake()
    handshakes.waits(first)
    handshakes.ended(first)
    handshakes.waits(second)
    assert (first.reason, second.reason) == ("", "")
    handshakes.ended(first)  # Twice does no harm.
    assert len(handshakes) == 1
