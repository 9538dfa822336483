"""A small part of the bench that shows the parsers millions of frames, and that it would find a defect."""

import pytest
from bench.cases.fuzz import fuzz
from bench.fuzzing import target as module
from bench.fuzzing.frames import Frames
from bench.fuzzing.target import Target


@pytest.mark.slow
def test_no_frame_crashes_a_parser() -> None:
    found = fuzz(seed=77, frames=20_000)
    assert found.findings == []
    # Neither everything refused, nor nothing: otherwise the frames would not reach the parsers.
    assert 0.5 < found.refused / found.frames < 0.99


def test_a_crash_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def crashes(request: memoryview) -> None:
        raise KeyError(request[0])

    monkeypatch.setattr(module, "parse", crashes)
    target = Target()
    target.take(Frames(1).stream(3), 100)
    assert target.frames
    assert len(target.findings) == target.frames
    assert "KeyError" in target.findings[0]


def test_a_frame_that_takes_long_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter((0.0, 1.0))
    monkeypatch.setattr(module, "perf_counter", lambda: next(times))
    cpu = iter((0.0, 0.06))
    monkeypatch.setattr(module, "thread_time", lambda: next(cpu))
    target = Target()
    target.parse(memoryview(bytes(10)))
    assert target.findings == [f"60 ms ({bytes(10).hex()})"]
    assert target.slowest_s == 0.06


def test_messages_of_logins_are_among_them() -> None:
    """An expression that went back and forth once took half a minute for one of these."""
    source, target = Frames(2), Target()
    tokens = [source._login() for _ in range(300)]
    assert max(map(len, tokens)) > 50_000
    for token in tokens:
        target.parse(memoryview(token))
    assert target.findings == []


def test_a_seed_repeats_its_frames() -> None:
    assert Frames(5).stream(20) == Frames(5).stream(20)
    assert Frames(5).stream(20) != Frames(6).stream(20)
