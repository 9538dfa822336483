"""Times of requests, by their API."""

from tidelog.runtime.traffic import RequestTimes


def test_a_histogram_for_each_api_that_was_asked() -> None:
    times = RequestTimes()
    times.of(0).add(0.003)
    times.of(0).add(0.0001)
    times.of(1).add(40.0)
    rows = dict(times.rows())
    assert rows.keys() == {"Produce", "FetchConsumer", "FetchFollower"}
    assert dict(rows["Produce"].cumulative())["0.0002"] == 1
    assert dict(rows["Produce"].cumulative())["0.005"] == 2
    fetches = dict(rows["FetchConsumer"].cumulative())
    assert (fetches["30.0"], fetches["+Inf"]) == (0, 1)
    assert rows["FetchFollower"].count == 0
