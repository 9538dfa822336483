"""Compaction against a naive model: after any writes, passes and restarts both hold the same records."""

from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tidelog.cli.log.segment_files import Problem, files_in, rows_of
from tidelog.log.log import Log
from tidelog.protocol.codecs import Codec
from tidelog.sim.disk import SimulatedDisk, everything
from unit.log.compaction_model import COMPACT, NaiveLog, all_records, compact, latest, write
from unit.log.log_model import open_log, sync

DELETE_RETENTION_MS = 1000


@dataclass(frozen=True)
class Write:
    pairs: list[tuple[str | None, str | None]]
    codec: Codec


@dataclass(frozen=True)
class Compact:
    keys_max: int
    watermark_back: int  # how far the high watermark is behind the end


@dataclass(frozen=True)
class Wait:
    ms: int


Roll, Reopen, Crash = "roll", "reopen", "crash"
Step = Write | Compact | Wait | str

keys = st.sampled_from(["a", "b", "c", "d", "e", None])
values = st.none() | st.text("xyz", max_size=4)
steps = st.one_of(
    st.builds(Write, st.lists(st.tuples(keys, values), min_size=1, max_size=5), st.sampled_from(list(Codec))),
    st.builds(Compact, st.integers(1, 12), st.sampled_from([0, 0, 0, 3])),
    st.builds(Wait, st.sampled_from([1, 400, 1000])),
    st.sampled_from([Roll, Roll, Reopen, Crash]),
)


class Pair:
    """The log and the model, stepped together."""

    def __init__(self) -> None:
        self.disk = SimulatedDisk()
        self.settings = COMPACT.but(delete_retention_ms=DELETE_RETENTION_MS)
        self.log: Log = open_log(self.disk, self.settings)
        self.model = NaiveLog(DELETE_RETENTION_MS)
        self.now_ms = 10_000
        self.clean_offset = 0
        self.written = 0

    def step(self, step: Step) -> None:
        match step:
            case Write(pairs, codec):
                self.model.append(
                    write(self.log, *pairs, codec=codec, timestamp=self.now_ms, now_ms=self.now_ms)
                )
            case Compact(keys_max, watermark_back):
                self.compact(keys_max, max(0, self.log.end_offset - watermark_back))
            case Wait(ms):
                self.now_ms += ms
            case "roll":
                self.log.roll(self.now_ms)
            case "reopen":
                self.log.close()
                self.log = open_log(self.disk, self.settings, clean=True, now_ms=self.now_ms)
            case "crash":
                sync(self.log)
                self.disk.crash(survive=everything, names=everything)
                self.log = open_log(self.disk, self.settings, now_ms=self.now_ms)

    def compact(self, keys_max: int, high_watermark: int) -> None:
        done = compact(
            self.disk,
            self.log,
            self.settings,
            clean_offset=self.clean_offset,
            high_watermark=high_watermark,
            now_ms=self.now_ms,
            keys_max=keys_max,
        )
        # A pass that stopped in the middle of a segment, and finds nothing to do next time, is back at its
        # start: what is compacted twice is the same as once.
        assert done.end_offset <= max(self.clean_offset, high_watermark)
        self.clean_offset = max(self.clean_offset, done.end_offset)
        self.model.compact(done.end_offset, self.now_ms)

    def check(self, end_offset: int, believed: dict[bytes, bytes]) -> None:
        assert all_records(self.log) == self.model.records()
        assert latest(all_records(self.log)) == believed
        assert self.log.end_offset == end_offset


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(script=st.lists(steps, max_size=30))
def test_the_log_holds_what_the_model_holds(script: list[Step]) -> None:
    pair = Pair()
    history = []
    for step in script:
        if isinstance(step, Write):
            before = pair.log.end_offset
            pair.step(step)
            history += [record for record in all_records(pair.log) if record.offset >= before]
        else:
            pair.step(step)
        pair.check(len(history), latest(history))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(script=st.lists(steps, min_size=5, max_size=25))
def test_files_and_indexes_are_sound_afterwards(script: list[Step], tmp_path: Path) -> None:
    pair = Pair()
    for step in [*script, Roll, Compact(100, 0)]:
        pair.step(step)
    pair.log.close()
    for entry in pair.disk.list("t-0"):
        file = pair.disk.open(f"t-0/{entry.name}")
        (tmp_path / entry.name).write_bytes(file.read_at(0, file.size()))
    found = [row for path in files_in([tmp_path]) for row in rows_of(path) if isinstance(row, Problem)]
    for path in tmp_path.iterdir():
        path.unlink()
    assert found == []


@pytest.mark.parametrize("codec", list(Codec))
def test_many_passes_over_a_growing_log(codec: Codec) -> None:
    """Steady updates of few keys: the log stays small, however much is written."""
    pair = Pair()
    for round_number in range(40):
        pairs: list[tuple[str | None, str | None]] = [
            (f"key-{(round_number * 7 + n) % 20}", f"value {round_number}.{n}") for n in range(10)
        ]
        pair.step(Write(pairs, codec))
        pair.step(Roll)
        pair.step(Compact(1000, 0))
    assert len(all_records(pair.log)) == 20
    assert all_records(pair.log) == pair.model.records()
