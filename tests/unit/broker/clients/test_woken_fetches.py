"""Fetches that are woken together: in order, some per turn, and none is forgotten."""

from collections.abc import Callable

import pytest

from tidelog.broker.clients.woken_fetches import TAKEN_AT_ONCE, WokenFetches
from tidelog.broker.slices import SLICE_MS_MAX
from unit.broker.fakes import FakeBroker, FakeServices, Fetching, wanted


class Turns(FakeServices):
    """Counts what waits for its turn."""

    def __init__(self) -> None:
        super().__init__()
        self.in_turns = 0

    def in_turn(self, callback: Callable[[], None], *, urgent: bool = False) -> None:
        self.in_turns += 1
        super().in_turn(callback, urgent=urgent)


class Fetch:
    def __init__(
        self, looked: list[int], number: int, then: Callable[[], None] = lambda: None, peer: str = "one"
    ) -> None:
        self.peer = peer
        self._looked = looked
        self._number = number
        self._then = then

    def look_again(self) -> None:
        self._looked.append(self._number)
        self._then()


def test_few_are_taken_in_one_turn() -> None:
    services, looked = Turns(), list[int]()
    woken = WokenFetches(services)
    for number in range(TAKEN_AT_ONCE):
        woken.add(Fetch(looked, number))
    assert looked == []
    services.settle()
    assert looked == list(range(TAKEN_AT_ONCE))
    assert services.in_turns == 0


def test_many_wait_for_their_turn() -> None:
    services, looked = Turns(), list[int]()
    woken = WokenFetches(services)
    for number in range(3 * TAKEN_AT_ONCE):
        woken.add(Fetch(looked, number))
    services.settle()
    assert looked == list(range(3 * TAKEN_AT_ONCE))
    assert services.in_turns == 2


def test_a_client_with_one_does_not_wait_for_all_of_another() -> None:
    services, looked = Turns(), list[int]()
    woken = WokenFetches(services)
    for number in range(4):
        woken.add(Fetch(looked, number))
    woken.add(Fetch(looked, 10, peer="two"))
    for number in (20, 21):
        woken.add(Fetch(looked, number, peer="three"))
    services.settle()
    assert looked == [0, 10, 20, 1, 21, 2, 3]


def test_a_turn_ends_when_its_time_is_up() -> None:
    services, looked = Turns(), list[int]()
    woken = WokenFetches(services)

    def take_long() -> None:
        services.clock_ms += SLICE_MS_MAX

    for number in range(3):
        woken.add(Fetch(looked, number, take_long))
    services.settle()
    assert looked == [0, 1, 2]
    assert services.in_turns == 2


def test_those_that_others_wake_do_not_wait_for_long_work() -> None:
    services, looked = Turns(), list[int]()
    woken = WokenFetches(services)
    for number in range(2):
        woken.add(Fetch(looked, number, lambda: woken.add(Fetch(looked, 9))))
    services.settle()
    assert looked == [0, 1, 9, 9]
    assert services.in_turns == 0


def test_goes_on_after_a_defect() -> None:
    services, looked = Turns(), list[int]()
    woken = WokenFetches(services)

    def fail() -> None:
        raise RuntimeError("broken")

    woken.add(Fetch(looked, 0, fail))
    woken.add(Fetch(looked, 1))
    with pytest.raises(RuntimeError):
        services.settle()
    services.settle()
    woken.add(Fetch(looked, 2))
    services.settle()
    assert looked == [0, 1, 2]


class TestOfABroker:
    def waiting(self, broker: FakeBroker, count: int) -> list[Fetching]:
        broker.create("orders")
        broker.append("orders", b"a")
        return [broker.fetch(wanted("orders", 1), max_wait=500) for _ in range(count)]

    def taken_in_turns(self, broker: FakeBroker, monkeypatch: pytest.MonkeyPatch) -> list[int]:
        """How many were answered, at the begin of each slice that waits for its turn."""
        turns: list[int] = []
        in_turn = broker.services.in_turn

        def note(callback: Callable[[], None], *, urgent: bool = False) -> None:
            turns.append(self.answered)
            in_turn(callback, urgent=urgent)

        monkeypatch.setattr(broker.services, "in_turn", note)
        return turns

    answered = 0

    @pytest.mark.parametrize("appends", [True, False])
    def test_an_append_or_the_end_of_their_time_answers_them_in_slices(
        self, broker: FakeBroker, monkeypatch: pytest.MonkeyPatch, appends: bool
    ) -> None:
        fetches = self.waiting(broker, 250)
        order: list[int] = []
        for number, each in enumerate(fetches):
            send = each.receive

            def receive(parts: object, number: int = number, send: Callable[..., None] = send) -> None:
                order.append(number)
                self.answered += 1
                send(parts)

            assert each.pending is not None
            monkeypatch.setattr(each.pending, "_send", receive)
        turns = self.taken_in_turns(broker, monkeypatch)
        if appends:
            broker.append("orders", b"b")
        else:
            broker.services.advance(500)
        assert order == list(range(250))
        if appends:
            assert turns == [100, 200]
        expected = 1 if appends else 0
        assert all(bool(each.partition.records) == expected for each in fetches)
