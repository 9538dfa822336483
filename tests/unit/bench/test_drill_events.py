"""Which events a drill has, and when."""

from bench.drill.events import DECK, draw


def test_a_seed_means_the_same_events() -> None:
    assert draw(7, 600, executors=True) == draw(7, 600, executors=True)
    assert draw(7, 600, executors=True) != draw(8, 600, executors=True)


def test_ten_minutes_have_every_event_in_order() -> None:
    events = draw(1, 600, executors=True)
    assert {event.kind for event in events} == set(DECK)
    times = [event.at_s for event in events]
    assert times == sorted(times) and times[0] > 0 and times[-1] < 600
    assert len({event.seed for event in events}) == len(events)


def test_without_a_cluster_no_executor_is_killed() -> None:
    kinds = {event.kind for event in draw(1, 600, executors=False)}
    assert kinds == set(DECK) - {"executor killed"}
