"""Records per second."""

from tidelog.page.rates import Histories, Meter


def test_a_rate_is_what_grew_in_the_time() -> None:
    meter = Meter()
    assert meter.add({("a", 0): 100, ("b", 0): 5}, 10.0) == []
    assert meter.add({("a", 0): 150, ("b", 0): 5}, 10.5) == [("a", 0)]
    assert meter.rates == {"a": 100.0}
    assert meter.add({("a", 0): 200, ("b", 0): 6}, 11.0) == [("a", 0), ("b", 0)]
    assert meter.rates == {"a": 100.0, "b": 1.0}


def test_a_partition_that_is_new_here_has_not_grown() -> None:
    meter = Meter()
    meter.add({("a", 0): 100}, 10.0)
    assert meter.add({("a", 0): 100, ("a", 1): 5000}, 10.5) == []


def test_an_end_that_went_back_is_no_negative_rate() -> None:
    meter = Meter()
    meter.add({("a", 0): 100}, 10.0)
    assert meter.add({("a", 0): 90}, 11.0) == []
    assert meter.rates == {}


def test_old_growth_is_forgotten() -> None:
    meter = Meter()
    meter.add({("a", 0): 0}, 0.0)
    meter.add({("a", 0): 1000}, 1.0)
    for second in range(2, 8):
        meter.add({("a", 0): 1000}, float(second))
    assert meter.rates == {}


def test_histories_keep_topics_that_get_records() -> None:
    histories = Histories()
    histories.add({"a": 2.0, "b": 3.0})
    assert (histories.of(""), histories.of("a")) == ([5.0], [2.0])
    for _ in range(200):
        histories.add({"b": 1.0})
    assert histories.of("a") == []
    assert histories.of("b")[-1] == 1.0
