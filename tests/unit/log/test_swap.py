"""Replacing a run of segments by one: seen by readers, refused where it leaves a hole, whole after a crash.

The crash at every single step is in test_log_crash_points.py; here are the states by themselves.
"""

from itertools import count

import pytest

from tidelog.errors import InvariantViolation, StorageError
from tidelog.log.log import Log
from tidelog.log.segment import Segment
from tidelog.sim.disk import EIO, SimulatedDisk, everything
from unit.log.log_model import append, append_many, contents, make_batch, open_log

KINDS = (".log", ".index", ".timeindex")
FIRST = "t-0/00000000000000000000"


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


def cleaned(log: Log, base_offset: int, offsets: list[int]) -> Segment:
    new = log.new_cleaned_segment(base_offset)
    for offset in offsets:
        new.append(make_batch(offset, b"cleaned", timestamp=1000 + offset), offset, 1000 + offset, 150)
    for file in new.make_inactive().open():
        file.sync()
    return new


def bases(log: Log) -> list[int]:
    return [base for base, _, _ in contents(log)]


def test_readers_see_the_new_segment_and_keep_the_old_one_while_they_send_it(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    append_many(log, 35)
    region = log.read(0, 1 << 20, 35, at_least_one_batch=True)
    before = region.read()
    log.replace_segments(list(log.segments[:2]), cleaned(log, 0, [4, 17, 19]), 1000)
    assert bases(log) == [4, 17, 19, *range(20, 35)]
    assert region.read() == before
    assert [segment.base_offset for segment in log.segments] == [0, 20, 30]
    assert log.size_bytes == sum(segment.size for segment in log.segments)
    append_many(log, 1)
    assert bases(log)[-1] == 35


def test_old_files_stay_for_the_delay(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    append_many(log, 35)
    log.replace_segments(list(log.segments[:2]), cleaned(log, 0, [19]), 1000)
    names = {entry.name for entry in disk.list("t-0")}
    for base in ("00000000000000000000", "00000000000000000010"):
        assert {f"{base}{kind}.deleted" for kind in KINDS} <= names
    log.remove_deleted(61_000)
    assert not any(entry.name.endswith(".deleted") for entry in disk.list("t-0"))
    assert bases(log) == [19, *range(20, 35)]


def test_a_cleaned_segment_counts_among_the_open_files_of_its_log(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    append_many(log, 35)
    new = cleaned(log, 0, [9, 19])
    log.replace_segments(list(log.segments[:2]), new, 1000)
    bases(log)
    held = len(log._handles)
    new.release_all()
    assert len(log._handles) < held


@pytest.mark.parametrize("wrong", ["hole", "active", "base", "not a run"])
def test_what_would_break_the_log_is_refused(disk: SimulatedDisk, wrong: str) -> None:
    log = open_log(disk)
    append_many(log, 35)
    old = list(log.segments[:2])
    new = cleaned(log, 10 if wrong == "base" else 0, [18] if wrong == "hole" else [19])
    if wrong == "active":
        old = list(log.segments)
    elif wrong == "not a run":
        old = [log.segments[0], log.segments[2]]
    with pytest.raises(InvariantViolation):
        log.replace_segments(old, new, 1000)
    assert bases(log) == list(range(35))


def refuse_renaming(disk: SimulatedDisk, patch: pytest.MonkeyPatch, step: int, *, lasting: bool) -> None:
    steps = count()
    rename = disk.rename

    def refuse(source: str, target: str) -> None:
        now = next(steps)
        if now == step or (lasting and now > step):
            raise OSError(EIO, "simulated failure", source)
        rename(source, target)

    patch.setattr(disk, "rename", refuse)


@pytest.mark.parametrize("lasting", [False, True], ids=["one error", "errors from then on"])
# The mark of the gaps; each file of the new segment twice, of two old ones once.
@pytest.mark.parametrize("step", range(1 + 3 * 4))
def test_reads_go_on_when_the_disk_refuses_a_step(
    disk: SimulatedDisk, monkeypatch: pytest.MonkeyPatch, step: int, lasting: bool
) -> None:
    log = open_log(disk)
    append_many(log, 35)
    new = cleaned(log, 0, [4, 19])
    with monkeypatch.context() as patch:
        refuse_renaming(disk, patch, step, lasting=lasting)
        with pytest.raises(StorageError, match="swap"):
            log.replace_segments(list(log.segments[:2]), new, 1000)
    for segment in log.segments:
        segment.release_all()
    assert bases(log) == list(range(35))
    disk.crash(survive=everything, names=everything)
    log = open_log(disk)
    finished = lasting and step >= 4  # From then on the new segment wins, unless that could be taken back.
    assert bases(log) == ([4, 19, *range(20, 35)] if finished else list(range(35)))
    append(log, make_batch(35))
    assert log.close()
    assert bases(open_log(disk, clean=True))[-1] == 35


def test_a_half_written_segment_is_thrown_away(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    append_many(log, 35)
    log.new_cleaned_segment(0).append(make_batch(3), 3, 1000, 150)
    disk.crash(survive=everything, names=everything)
    log = open_log(disk)
    assert bases(log) == list(range(35))
    assert not any(entry.name.endswith(".cleaned") for entry in disk.list("t-0"))


def test_the_log_files_name_decides(disk: SimulatedDisk) -> None:
    """Indexes are named .swap before the log file is: without it the originals stay."""
    log = open_log(disk)
    append_many(log, 35)
    cleaned(log, 0, [4, 19])
    for kind in (".index", ".timeindex"):
        disk.rename(f"{FIRST}{kind}.cleaned", f"{FIRST}{kind}.swap")
    disk.crash(survive=everything, names=everything)
    assert bases(open_log(disk)) == list(range(35))
    assert not any(entry.name.endswith((".swap", ".cleaned")) for entry in disk.list("t-0"))


def test_a_committed_swap_is_finished(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    append_many(log, 35)
    cleaned(log, 0, [4, 19])
    disk.rename(f"{FIRST}.dense", "t-0/00000000000000000020.dense")
    for kind in (".index", ".timeindex", ".log"):
        disk.rename(f"{FIRST}{kind}.cleaned", f"{FIRST}{kind}.swap")
    disk.crash(survive=everything, names=everything)
    log = open_log(disk)
    assert bases(log) == [4, 19, *range(20, 35)]
    assert [segment.base_offset for segment in log.segments] == [0, 20, 30]
    append(log, make_batch(35))
    assert log.close()
    assert bases(open_log(disk, clean=True))[-1] == 35


def interrupted(disk: SimulatedDisk, renamed: int) -> list[str]:
    """A crash after the new segment has won, and ``renamed`` of the two old ones have left their place."""
    log = open_log(disk)
    append_many(log, 35)
    new = cleaned(log, 0, [4, 17, 19])
    old = list(log.segments[:2])
    disk.rename(f"{FIRST}.dense", "t-0/00000000000000000020.dense")
    new.rename(".swap")
    for segment in old[:renamed]:
        segment.rename(".deleted")
    disk.crash(survive=everything, names=everything)
    return disk.paths()


LAST_BATCH = 2 * 68  # its position in the new segment


@pytest.mark.parametrize(
    ("position", "bit"),
    [(0, 0), (LAST_BATCH, 5), (LAST_BATCH + 7, 0), (LAST_BATCH + 7, 3), (LAST_BATCH + 11, 1), (65, 0)],
)
@pytest.mark.parametrize("renamed", [0, 1, 2])
def test_damage_to_the_new_segment_removes_no_old_one(
    disk: SimulatedDisk, renamed: int, position: int, bit: int
) -> None:
    """Its offsets say which segments it replaces. One wrong bit there removed every later segment."""
    paths = interrupted(disk, renamed)
    assert disk.size(f"{FIRST}.log.swap") == 3 * 68
    disk.flip(f"{FIRST}.log.swap", position, bit)
    if renamed:
        with pytest.raises(StorageError, match="is damaged"):
            open_log(disk, recovery_point=35)
        assert disk.paths() == paths
    else:
        log = open_log(disk, recovery_point=35)
        assert bases(log) == [*range(35)]
        assert not log.damage
        assert not any(path.endswith(".swap") for path in disk.paths())


@pytest.mark.parametrize("renamed", [0, 1, 2])
def test_a_whole_new_segment_wins(disk: SimulatedDisk, renamed: int) -> None:
    interrupted(disk, renamed)
    log = open_log(disk, recovery_point=35)
    assert bases(log) == [4, 17, 19, *range(20, 35)]
