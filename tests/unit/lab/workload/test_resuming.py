"""A producer that continues after a crash."""

from pathlib import Path

import pytest

from tidelog.lab.figures import TopicEvents, Windows, figures
from tidelog.lab.history import HistoryWriter, now_us
from tidelog.lab.history_files import read_events
from tidelog.lab.workload.jobs import PRODUCE, Job
from tidelog.lab.workload.resuming import note_left_open


def job(directory: Path, incarnation: int) -> Job:
    return Job(
        role=PRODUCE, name="producer-1", bootstrap="", topic="t", partitions=2, run="r", mode="m",
        clock_offset_ns=0, directory=str(directory), incarnation=incarnation,
    )  # fmt: skip


def test_a_stall_does_not_end_with_the_crash_of_its_client(tmp_path: Path) -> None:
    now = now_us()
    fault, crash = now - 9_000_000, now - 4_000_000
    first, second = job(tmp_path, 0), job(tmp_path, 1)
    with HistoryWriter(first.history, run="r", mode="m", topic="t") as history:
        history.add("fault", fault, name="kill -9 of broker 1")
        for sequence, at in ((0, fault - 100), (2, fault - 50), (1, fault - 40)):
            history.add(
                "acknowledged", at, producer=first.producer, sequence=sequence, partition=1, offset=sequence,
                sent_us=at - 1000,
            )  # fmt: skip
    with HistoryWriter(second.history, run="r", mode="m", topic="t") as history:
        note_left_open(second, history)
        history.add(
            "acknowledged", now + 1000, producer=second.producer, sequence=0, partition=1, offset=9,
            sent_us=now - 100,
        )  # fmt: skip
    events = read_events(tmp_path)
    (left,) = [event for event in events if event.kind == "failed"]
    assert (left.producer, left.sequence, left.partition, left.offset) == ("producer-1", 3, 1, None)
    found = figures(TopicEvents(events, "t"), Windows(fault, fault, crash, now + 2000))
    assert found.writes_stood_still_s == pytest.approx(9.0, abs=0.1)


def test_one_that_crashed_before_its_first_answer_left_nothing_known(tmp_path: Path) -> None:
    second = job(tmp_path, 1)
    with HistoryWriter(second.history, run="r", mode="m", topic="t") as history:
        note_left_open(second, history)
    assert read_events(tmp_path) == []
