"""Power loss at every operation of a compaction: no key changes its value, the next pass finishes the job."""

import pytest

from tidelog.errors import TidelogError
from tidelog.log.cleaner import Candidate, Cleaner
from tidelog.log.log import Log
from tidelog.sim.disk import EIO, PowerLoss, SimulatedDisk, Survive, everything, nothing
from tidelog.types import TopicPartition
from unit.log.compaction_model import COMPACT, all_records, latest, short, write, write_each
from unit.log.log_model import open_log, sync

pytestmark = pytest.mark.slow

NAME = TopicPartition("t", 0)
EAGER = COMPACT.but(min_cleanable_dirty_ratio=0.0, delete_retention_ms=1000)

# Segment by segment: values, an update of one and a tombstone for another, a tombstone alone.
HISTORY = "a1 b1 c1 d1 roll a2 b- e1 e2 roll c- a3 roll d2"
FINAL = {b"a": b"3", b"d": b"2", b"e": b"2"}
SETTLED = {b"b": None, b"c": None, b"d": b"2", b"e": b"2"}  # the keys that are not written again


def settled(state: dict[bytes, bytes]) -> dict[bytes, bytes | None]:
    return {key: state.get(key) for key in SETTLED}


def prepare() -> tuple[SimulatedDisk, Log]:
    disk = SimulatedDisk()
    log = open_log(disk, EAGER)
    write_each(log, HISTORY)
    write(log, ("f", "1"))
    sync(log)
    disk.sync_directory("")
    disk.sync_directory("t-0")
    return disk, log


def candidates(log: Log) -> list[Candidate]:
    return [Candidate(NAME, log, EAGER, log.end_offset)]


def clean(disk: SimulatedDisk, log: Log, now_ms: int, *, passes: int = 1) -> Cleaner:
    """What a broker does, without threads."""
    cleaner = Cleaner(disk)
    for _ in range(passes):
        chosen = cleaner.pick(candidates(log), now_ms, buffer_bytes=1 << 16)
        if chosen is None:
            break
        name, compaction = chosen
        compaction.read_keys()
        while (cleaned := compaction.clean_next()) is not None:
            compaction.swap_in(cleaned, now_ms)
        compaction.make_durable()
        cleaner.finish(name, compaction)
    return cleaner


def two_passes(disk: SimulatedDisk, log: Log) -> None:
    """The second pass drops the tombstones that the first one found clean."""
    clean(disk, log, 10_000)
    sync(log)
    write_each(log, "a4 roll f2")
    sync(log)
    clean(disk, log, 20_000)
    log.remove_deleted(1 << 40)


def count_operations() -> tuple[int, int]:
    disk, log = prepare()
    before = disk.operations
    two_passes(disk, log)
    return before, disk.operations


FIRST, LAST = count_operations()


def half(path: str, unsynced: int) -> int:
    return unsynced // 2


@pytest.mark.parametrize(
    "names", [nothing, half, everything], ids=["no-names", "half-the-names", "all-names"]
)
@pytest.mark.parametrize(
    "survive", [nothing, half, everything], ids=["no-bytes", "half-the-bytes", "all-bytes"]
)
def test_power_loss_at_every_operation(survive: Survive, names: Survive) -> None:
    for operation in range(FIRST + 1, LAST + 1):
        disk, log = prepare()
        disk.lose_power_at(operation)
        with pytest.raises(PowerLoss):
            two_passes(disk, log)
        # One batch may be written that the log had not yet counted.
        end_offset_max = log.end_offset + 1
        disk.crash(survive=survive, names=names)
        log = open_log(disk, EAGER, recovery_point=0)
        state = latest(all_records(log))
        assert settled(state) == SETTLED, story(disk, operation)
        assert state[b"a"] in (b"3", b"4"), story(disk, operation)
        assert 12 <= log.end_offset <= end_offset_max, story(disk, operation)
        assert leftovers(disk) == [], story(disk, operation)
        finish_and_check(disk, log, operation)


def finish_and_check(disk: SimulatedDisk, log: Log, operation: int) -> None:
    """Whatever the crash left, going on leads to where an undisturbed run leads."""
    log.roll(30_000)
    write_each(log, "z1 roll z2 roll")
    sync(log)
    clean(disk, log, 30_000)
    write_each(log, "z3 roll")
    sync(log)
    clean(disk, log, 40_000)
    state = latest(all_records(log))
    assert settled(state) == SETTLED, story(disk, operation)
    assert state[b"z"] == b"3", story(disk, operation)
    tombstones = [record for record in all_records(log) if record.value is None]
    assert tombstones == [], story(disk, operation)
    keys = [record.key for record in all_records(log)]
    assert len(set(keys)) == len(keys), story(disk, operation)


def test_an_error_at_every_operation_leaves_a_log_that_opens_whole() -> None:
    for operation in range(FIRST + 1, LAST + 1):
        disk, log = prepare()
        disk.fail_at(operation, EIO)
        try:
            two_passes(disk, log)
        except (TidelogError, OSError):
            disk.faults.clear()
        disk.crash(survive=everything, names=everything)
        reopened = open_log(disk, EAGER)
        assert settled(latest(all_records(reopened))) == SETTLED, story(disk, operation)
        # What a sync failed on may be gone for good; nobody was told that it is safe.
        assert log.synced_end_offset <= reopened.end_offset <= log.end_offset + 1, story(disk, operation)
        finish_and_check(disk, reopened, operation)


def test_an_undisturbed_run_for_comparison() -> None:
    disk, log = prepare()
    assert latest(all_records(log)) == FINAL | {b"f": b"1"}
    two_passes(disk, log)
    assert short(all_records(log)) == "7e2 10d2 11f1 12a4 13f2"
    assert log.clean_offset == 13


def leftovers(disk: SimulatedDisk) -> list[str]:
    return [
        entry.name for entry in disk.list("t-0") if entry.name.endswith((".cleaned", ".swap", ".deleted"))
    ]


def story(disk: SimulatedDisk, operation: int) -> str:
    return "\n".join([f"fault at operation {operation}:", *list(disk.story)[FIRST:]])
