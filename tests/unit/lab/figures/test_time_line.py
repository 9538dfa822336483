"""Columns for a picture."""

from tidelog.lab.figures.time_line import bands, time_line
from tidelog.lab.results import Band

from .made_up import START, WINDOWS, event, read, topic, write


def test_columns_have_the_same_length() -> None:
    line = time_line(
        topic(
            write("acknowledged", 0, 10), write("acknowledged", 1, 50),
            write("acknowledged", 2, 150, sent=20), write("acknowledged", 3, 9000),
            read("consumed", 0, 160, 0), event("leader", 20, broker=2), event("leader", 250, broker=-1),
        ),
        WINDOWS,
    )  # fmt: skip
    assert {len(column) for column in (line.acknowledged, line.received, line.latency_ms, line.leader)} == {
        30
    }
    assert line.acknowledged[:3] == (2, 1, 0) and sum(line.acknowledged) == 3
    assert line.received[1] == 1 and line.latency_ms[:3] == (5.0, 130.0, None)
    assert line.leader[:4] == (2, 2, -1, -1)


def test_faults_end_with_their_own_name() -> None:
    events = [
        event("fault", 100, name="a"), event("fault", 200, name="b"), event("healed", 300, name="b"),
        event("healed", 400, name="all is well"), event("fault", 500, name="c"),
    ]  # fmt: skip
    assert bands(events, START) == (
        Band(name="a", start_s=0.1, end_s=0.4), Band(name="b", start_s=0.2, end_s=0.3),
        Band(name="c", start_s=0.5),
    )  # fmt: skip
