"""Power loss at every single operation on the disk, with every kind of survival, against a list of batches.

A scenario does what a broker does to a log. It is run once to count its disk operations, then once per
operation with the power going right there. After each crash the log is opened with the recovery point that
was on disk, and compared with what the scenario had done so far.
"""

from collections.abc import Callable
from contextlib import suppress

import pytest

from tidelog.log.log import Log
from tidelog.log.segment import Segment
from tidelog.protocol import batch as batches
from tidelog.sim.disk import PowerLoss, SimulatedDisk, Survive, everything, nothing
from unit.log.log_model import SMALL, Batch, Settings, append, contents, make_batch, open_log, sync

pytestmark = pytest.mark.slow


class Run:
    """A scenario under way: the log, and the list of batches it should hold."""

    def __init__(self, disk: SimulatedDisk, settings: Settings) -> None:
        self.disk = disk
        self.settings = settings
        self.log: Log | None = None
        self.batches: list[Batch] = []
        self.wanted: list[Batch] = []  # What the operation under way would make of it.
        self.history: list[list[Batch]] = [[]]  # Every state the log was in.
        self.synced_end_offset = 0
        self.start_offset = 0  # Below it all was deleted.
        self.synced_start_offset = 0
        self.deleted_end_offset = 0  # The largest offset that anything was deleted up to, or would be now.
        self.cut_below_start = False  # Under way: deleted records may come back, to be cut off again.
        self.checkpoint = 0  # The recovery point a data directory would have on disk.

    def open(self) -> Log:
        self.log = open_log(self.disk, self.settings, recovery_point=self.checkpoint)
        self.note_synced()
        return self.log

    def _done(self) -> None:
        self.batches = self.wanted
        self.history.append(self.batches)

    def append(self, count: int = 1, *, records: int = 1, epoch: int = 0) -> None:
        assert self.log is not None
        for _ in range(count):
            payload = b"%d " % len(self.history) * 13
            data = make_batch(self.log.end_offset, payload[:39], count=records, epoch=epoch)
            base = self.log.end_offset
            self.wanted = [*self.batches, (base, base + records - 1, payload[:39])]
            append(self.log, data)
            self._done()

    def truncate(self, offset: int) -> None:
        assert self.log is not None
        self.wanted = [batch for batch in self.batches if batch[1] < offset]
        # A truncation takes back what it cuts off, durable or not.
        self.synced_end_offset = min(self.synced_end_offset, offset)
        self.cut_below_start = offset < self.start_offset
        self.start_offset = min(self.start_offset, offset)
        self.synced_start_offset = min(self.synced_start_offset, offset)
        self.log.truncate_to(offset)
        self._done()
        self.cut_below_start = False

    def delete(self, offset: int) -> None:
        assert self.log is not None
        self.wanted = [batch for batch in self.batches if batch[1] >= offset]
        self.deleted_end_offset = offset
        self.log.advance_start(offset)
        self.start_offset = offset
        self._done()

    def sync(self) -> None:
        assert self.log is not None
        self.wanted = self.batches
        sync(self.log)
        self.note_synced()
        self.synced_start_offset = self.start_offset

    def note_synced(self) -> None:
        assert self.log is not None
        self.synced_end_offset = self.log.synced_end_offset

    def write_checkpoint(self) -> None:
        """As a data directory does it, durably."""
        assert self.log is not None
        self.checkpoint = self.log.checkpointed_recovery_point = self.log.recovery_point

    def retain(self) -> None:
        assert self.log is not None
        self.wanted = self.batches
        self.log.enforce_retention(1000, self.log.end_offset)
        self.log.remove_deleted(1 << 60)
        self.wanted = [batch for batch in self.batches if batch[1] >= self.log.start_offset]
        self._done()


def appends_and_rolls(run: Run) -> None:
    run.open()
    run.append(12)
    run.append(3, records=4, epoch=1)
    run.append(9, epoch=2)


def syncs_between(run: Run) -> None:
    run.open()
    run.append(4)
    run.sync()
    run.append(9, epoch=1)
    run.sync()
    run.write_checkpoint()
    run.append(9, epoch=3)
    run.sync()
    run.append(2, epoch=3)


def truncates_and_goes_on(run: Run) -> None:
    run.open()
    run.append(15, epoch=1)
    run.sync()
    run.write_checkpoint()
    run.append(8, epoch=2)
    run.truncate(17)
    run.append(2, epoch=3)
    run.truncate(6)
    run.append(9, epoch=4)
    run.sync()
    run.append(3, epoch=4)


def truncates_below_the_checkpoint_and_rolls(run: Run) -> None:
    """The stale recovery point must not make recovery trust a segment that was written after it."""
    run.open()
    run.append(28, epoch=1)
    run.sync()
    run.write_checkpoint()
    run.truncate(3)
    run.append(14, epoch=2)
    run.append(4, records=3, epoch=3)


def truncates_to_the_checkpoint_and_rolls(run: Run) -> None:
    """Nor one whose cut-off end the power failure brings back."""
    log = run.open()
    run.append(5, epoch=1)
    run.sync()
    run.write_checkpoint()
    run.append(2, epoch=2)
    run.truncate(5)
    log.roll(1000)
    run.append(1, epoch=3)


def retains(run: Run) -> None:
    run.open()
    run.append(25)
    run.sync()
    run.write_checkpoint()
    run.append(8, epoch=1)
    run.retain()
    run.append(12, epoch=2)
    run.retain()
    run.append(2, epoch=2)


def deletes_records(run: Run) -> None:
    run.open()
    run.append(12, epoch=1)
    run.delete(3)
    run.sync()
    run.write_checkpoint()
    run.delete(5)
    run.delete(9)
    run.append(4, epoch=2)
    run.truncate(6)  # Below the start: an unclean leader has less than was deleted here.
    run.append(6, epoch=3)
    run.sync()
    run.append(2, epoch=3)
    run.delete(14)


def closes_and_opens(run: Run) -> None:
    log = run.open()
    run.append(13, epoch=1)
    run.wanted = run.batches
    log.close()
    run.note_synced()
    run.open()
    run.append(9, epoch=2)
    assert run.log is not None
    run.wanted = run.batches
    run.log.close()


def compacts(run: Run) -> None:
    log = run.open()
    run.append(32, epoch=1)
    run.sync()
    run.write_checkpoint()
    old = list(log.segments[:2])
    end = log.segments[2].base_offset
    keep = [run.batches[n] for n in (3, 4, 9, end - 1)]
    new = cleaned(log, keep)
    run.wanted = keep + run.batches[end:]
    log.replace_segments(old, new, 1000)
    run._done()
    run.append(3, epoch=2)
    log.remove_deleted(1 << 60)
    run.append(8, epoch=2)


def cleaned(log: Log, keep: list[Batch]) -> Segment:
    new = log.new_cleaned_segment(0)
    for base, last, payload in keep:
        data = make_batch(base, payload, count=last - base + 1, epoch=1)
        new.append(data, last, 1000, 150)
    for file in new.make_inactive().open():
        file.sync()
    return new


SCENARIOS: list[Callable[[Run], None]] = [
    appends_and_rolls,
    syncs_between,
    truncates_and_goes_on,
    truncates_below_the_checkpoint_and_rolls,
    truncates_to_the_checkpoint_and_rolls,
    retains,
    deletes_records,
    closes_and_opens,
    compacts,
]


def half(path: str, unsynced: int) -> int:
    return unsynced // 2


def only_logs(path: str, unsynced: int) -> int:
    return unsynced if path.endswith(".log") else 0


def all_but_last_byte(path: str, unsynced: int) -> int:
    return max(0, unsynced - 1)


def only_newest_files(path: str, unsynced: int) -> int:
    """Later segments reach the disk, earlier ones do not: the kernel writes in any order."""
    return unsynced if path[4:24].isdigit() and int(path[4:24]) >= 10 else 0


SURVIVALS: list[tuple[Survive, Survive]] = [
    (everything, everything),
    (nothing, nothing),
    (nothing, everything),
    (half, everything),
    (only_logs, everything),
    (all_but_last_byte, half),
    (only_newest_files, everything),
]


def make_run() -> Run:
    disk = SimulatedDisk()
    disk.make_directory("t-0")
    disk.sync_directory("")
    settings = SMALL.but(segment_bytes=700)
    return Run(disk, settings)


def settings_of(scenario: Callable[[Run], None], run: Run) -> None:
    if scenario is retains:
        run.settings = run.settings.but(retention_bytes=900)


def run_until_power_loss(scenario: Callable[[Run], None], operation: int, torn_at: int) -> Run:
    run = make_run()
    settings_of(scenario, run)
    run.disk.operations = 0
    if operation:
        run.disk.lose_power_at(operation, torn_at)
    with suppress(PowerLoss):
        scenario(run)
    return run


def is_prefix(found: list[Batch], state: list[Batch]) -> bool:
    """Whether ``found`` is ``state`` without its newest batches (and maybe with older ones before it)."""
    if not found:
        return True
    if not state:
        return False
    start = [n for n, batch in enumerate(found) if batch == state[0]]
    inner = found[start[0] :] if start else found
    first = state.index(inner[0]) if inner[0] in state else -1
    return first >= 0 and state[first : first + len(inner)] == inner


def check(run: Run, *, killed: bool, context: str) -> None:
    log = open_log(run.disk, run.settings, recovery_point=run.checkpoint)
    found = contents(log)
    if killed and not run.cut_below_start:
        # A dead process loses nothing: exactly the state before or after the operation under way. Segments
        # that retention had on its way out may or may not be there.
        states = [run.batches, run.wanted]
        if len(run.wanted) < len(run.batches) and run.wanted == run.batches[: len(run.wanted)]:
            # A truncation drops segment after segment, newest first.
            states += [run.batches[:end] for end in range(len(run.wanted), len(run.batches))]
        for state in states:
            start = max(log.start_offset, state[0][0] if state else 0)
            if [batch for batch in found if batch[0] >= start] == [
                batch for batch in state if batch[0] >= start
            ]:
                break
        else:
            raise AssertionError(f"{context}: {found} is neither {run.batches} nor {run.wanted}")
    else:
        states = [*run.history, run.wanted]
        assert any(is_prefix(found, state) for state in states), f"{context}: {found} never was the log"
    durable = [batch for batch in run.wanted if batch[1] < run.synced_end_offset and batch in run.batches]
    missing = [batch for batch in durable if batch not in found and batch[0] >= log.start_offset]
    assert not missing, f"{context}: lost {missing} below {run.synced_end_offset}, left {found}"
    assert log.start_offset >= run.synced_start_offset, f"{context}: the start fell to {log.start_offset}"
    assert not killed or log.start_offset >= run.start_offset, f"{context}: the start fell"
    if run.deleted_end_offset:
        assert log.start_offset <= run.deleted_end_offset, f"{context}: {log.start_offset} were deleted"
    check_epochs(log, context)
    goes_on(log, context)


def check_epochs(log: Log, context: str) -> None:
    """The history names exactly the epochs of the batches that are there, in order."""
    there: list[int] = []
    for segment in log.segments:
        for _, header in batches.iterate(segment.region().read()):
            if header.last_offset >= log.start_offset and header.leader_epoch not in there:
                there.append(header.leader_epoch)
    assert there == sorted(there), context
    known = log.epochs.entries
    if known and known[0][1] == log.start_offset and known[0][0] not in there:
        del known[0]  # In force where the log begins, though retention took all it wrote.
    assert [epoch for epoch, _ in known] == there, context


def goes_on(log: Log, context: str) -> None:
    """The log takes writes again and closes cleanly."""
    before = contents(log)
    append(log, make_batch(log.end_offset, b"after the crash", epoch=9))
    assert contents(log)[:-1] == before, context
    assert log.close(), context


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_power_loss_at_every_operation(scenario: Callable[[Run], None]) -> None:
    total = run_until_power_loss(scenario, 0, 0).disk
    story = list(total.story)[-total.operations :]
    assert len(story) == total.operations
    for operation, line in enumerate(story, start=1):
        if " read " in line:
            continue
        for torn_at in (0, 1, 60, 99) if " write " in line and ".log" in line else (0,):
            for survive, names in SURVIVALS:
                run = run_until_power_loss(scenario, operation, torn_at)
                run.disk.crash(survive=survive, names=names)
                context = f"{line}, torn at {torn_at}, {survive.__name__}/{names.__name__}"
                check(run, killed=survive is everything and names is everything, context=context)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_power_loss_in_the_middle_of_the_recovery_from_one(scenario: Callable[[Run], None]) -> None:
    total = run_until_power_loss(scenario, 0, 0).disk.operations
    for operation in range(total // 3, total, 7):
        run = run_until_power_loss(scenario, operation, 30)
        run.disk.crash(survive=half, names=everything)
        for second in range(1, 40, 3):
            again = run_until_power_loss(scenario, operation, 30)
            again.disk.crash(survive=half, names=everything)
            again.disk.lose_power_at(again.disk.operations + second)
            with suppress(PowerLoss):
                open_log(again.disk, again.settings, recovery_point=again.checkpoint)
            again.disk.crash(survive=half, names=everything)
            check(again, killed=False, context=f"operation {operation}, then {second}")
