"""The simulated network: cuts in one direction, connections that close, order where a connection keeps it."""

import pytest

from tidelog.sim.network import Network
from tidelog.sim.world import World


class Ends:
    """Nodes 1 to 3, and what each of them heard."""

    def __init__(self) -> None:
        self.world = World(1)
        self.network = Network(self.world)
        self.heard: list[tuple[int, object]] = []
        self.lost: list[tuple[int, int]] = []
        for node in (1, 2, 3):
            self.network.join(node, self._deliver(node), self._peer_lost(node))

    def _deliver(self, node: int):  # type: ignore[no-untyped-def]
        return lambda message: self.heard.append((node, message))

    def _peer_lost(self, node: int):  # type: ignore[no-untyped-def]
        return lambda peer: self.lost.append((node, peer))

    def run(self) -> None:
        self.world.run_until(self.world.now_ms + 10_000)


@pytest.fixture
def ends() -> Ends:
    return Ends()


def test_a_cut_swallows_one_direction_only(ends: Ends) -> None:
    ends.network.cut(1, 2)
    ends.network.send(1, 2, "there")
    ends.network.send(2, 1, "back")
    ends.run()
    assert ends.heard == [(1, "back")]
    assert ends.lost == []


def test_a_cut_takes_what_is_under_way(ends: Ends) -> None:
    ends.network.send(1, 2, "late")
    ends.network.part([1], [2])
    ends.run()
    assert ends.heard == []


def test_two_groups_can_still_meet_over_a_bridge(ends: Ends) -> None:
    ends.network.part([1], [3])
    for sender, receiver in ((1, 2), (2, 3), (1, 3)):
        ends.network.send(sender, receiver, sender)
    ends.run()
    assert sorted(ends.heard) == [(2, 1), (3, 2)]


def test_a_half_closed_connection_loses_what_was_under_way_and_one_end_notices(ends: Ends) -> None:
    ends.network.send(1, 2, "old")
    ends.network.close(1, 2, noticed_by=[2])
    ends.network.send(1, 2, "new")
    ends.run()
    assert ends.heard == [(2, "new")]
    assert ends.lost == [(2, 1)]


def test_whoever_leaves_is_missed_unless_the_power_went(ends: Ends) -> None:
    ends.network.leave(1, noticed=True)
    ends.network.leave(2, noticed=False)
    ends.run()
    assert ends.lost == [(3, 1)]


def test_a_doubled_message_comes_twice_except_on_one_connection(ends: Ends) -> None:
    ends.network.weather.doubled = 1.0
    ends.network.send(1, 2, "a")
    ends.network.send(1, 3, "b", in_order=True)
    ends.run()
    assert sorted(ends.heard) == [(2, "a"), (2, "a"), (3, "b")]


def test_one_connection_keeps_the_order_whatever_the_weather(ends: Ends) -> None:
    ends.network.weather.late = 0.5
    for number in range(200):
        ends.network.send(1, 2, number, in_order=True)
        ends.network.send(1, 3, number)
    ends.run()
    kept = [message for node, message in ends.heard if node == 2]
    mixed = [message for node, message in ends.heard if node == 3]
    assert kept == list(range(200))
    assert mixed != sorted(mixed, key=str)
    assert sorted(mixed) == list(range(200))  # type: ignore[type-var]


def test_lost_messages_never_arrive(ends: Ends) -> None:
    ends.network.weather.lost = 1.0
    ends.network.send(1, 2, "gone")
    ends.run()
    assert ends.heard == []
