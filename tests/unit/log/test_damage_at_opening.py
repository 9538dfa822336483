"""What is missing in a log when it is opened: did a crash take it, or is it damage?"""

from typing import NamedTuple
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.log import checkpoints
from tidelog.log.checkpoints import encode_topic_id
from tidelog.log.directory import DataDirectory
from tidelog.log.files import replace_whole
from tidelog.log.log import Log
from tidelog.protocol import batch as batches
from tidelog.sim.disk import EIO, SimulatedDisk, everything
from tidelog.types import TopicPartition
from unit.log.log_model import (
    ONE_SEGMENT,
    SMALL,
    Settings,
    append,
    append_many,
    contents,
    make_batch,
    open_log,
    sync,
)

FIRST = "t-0/00000000000000000000.log"
NAME = TopicPartition("t", 0)
ID, OTHER_ID = UUID(int=77), UUID(int=78)
COVERED = [*range(8, 12), *range(16, batches.HEADER_SIZE)]  # Not the offset, and not the leader epoch.


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


def reopen(
    disk: SimulatedDisk, settings: Settings = ONE_SEGMENT, *, synced: int = 0, watermark: int = 0,
    same_boot: bool = True, clean: bool = False,
) -> Log:  # fmt: skip
    return Log.open(
        disk, "t-0", settings, clean=clean, recovery_point=synced, now_ms=1000, high_watermark=watermark,
        same_boot=same_boot,
    )  # fmt: skip


def kill(disk: SimulatedDisk) -> None:
    disk.crash(survive=everything, names=everything)


# --- every single fault, in every place ---------------------------------------------------------------------


class Case(NamedTuple):
    sizes: list[int]  # of the batches' payloads
    synced: int
    watermark: int
    same_boot: bool
    kind: str
    batch: int
    byte: int
    bit: int


@st.composite
def cases(draw: st.DrawFn) -> Case:
    sizes = draw(st.lists(st.integers(0, 200), min_size=1, max_size=8))
    batch = draw(st.integers(0, len(sizes) - 1))
    inside = st.sampled_from([*COVERED, *range(batches.HEADER_SIZE, batches.HEADER_SIZE + sizes[batch])])
    return Case(
        sizes, draw(st.integers(0, len(sizes))), draw(st.integers(0, len(sizes))), draw(st.booleans()),
        draw(st.sampled_from(["nothing", "flip", "cut", "torn"])), batch, draw(inside),
        draw(st.integers(0, 7)),
    )  # fmt: skip


@given(cases())
def test_one_flip_or_cut_is_told_from_a_crash(case: Case) -> None:
    disk = SimulatedDisk()
    log = open_log(disk, ONE_SEGMENT)
    starts = []
    for size in case.sizes:
        starts.append(log.segments[-1].size)
        append(log, make_batch(log.end_offset, bytes([size % 251 + 1]) * size))
    kill(disk)
    position = starts[case.batch] + case.byte
    end = len(case.sizes)
    if case.kind == "flip":
        disk.flip(FIRST, position, case.bit)
        end = case.batch
    elif case.kind == "cut":
        disk.open(FIRST).truncate(position)
        end = case.batch
    elif case.kind == "torn":
        file = disk.open(FIRST)
        file.write_at(file.size(), make_batch(end, b"y" * 200)[: case.byte])
    log = reopen(disk, synced=case.synced, watermark=case.watermark, same_boot=case.same_boot)
    assert log.end_offset == end
    claimed = max(case.synced, case.watermark) if case.same_boot else case.synced
    is_damage = end < claimed or (case.same_boot and case.kind == "flip")
    assert bool(log.damage) == is_damage, log.damage


# --- what a crash may leave ---------------------------------------------------------------------------------


def test_a_kill_leaves_no_damage(disk: SimulatedDisk) -> None:
    append_many(open_log(disk), 40)
    kill(disk)
    assert not reopen(disk, SMALL, watermark=40).damage


def test_space_that_was_reserved_is_no_damage_nor_is_a_write_torn_in_it(disk: SimulatedDisk) -> None:
    settings = ONE_SEGMENT.but(preallocate=True, segment_bytes=4000)
    log = open_log(disk, settings)
    append_many(log, 5)
    kill(disk)
    assert not reopen(disk, settings).damage
    kill(disk)
    torn = make_batch(5)[:80]
    disk.open(FIRST).write_at(500, torn)
    disk.open(FIRST).truncate(4000)
    log = reopen(disk, settings)
    assert (log.end_offset, log.damage) == (5, "")
    kill(disk)
    disk.open(FIRST).truncate(4000)
    disk.flip(FIRST, 470, 3)
    assert reopen(disk, settings).damage


def test_a_length_that_reaches_behind_the_end_of_the_file_by_one_bit_is_damage(disk: SimulatedDisk) -> None:
    append_many(open_log(disk, ONE_SEGMENT), 5)
    kill(disk)
    disk.flip(FIRST, 408, 6)  # The last batch now claims more than a gigabyte.
    assert reopen(disk).damage


@pytest.mark.parametrize("offset", [0, 3, 5, 40])
def test_a_batch_of_another_place_that_the_end_of_the_file_cuts_off_is_damage(
    disk: SimulatedDisk, offset: int
) -> None:
    append_many(open_log(disk, ONE_SEGMENT), 5)
    kill(disk)
    disk.overwrite(FIRST, 400, bytes(make_batch(offset, b"y" * 200)))
    log = reopen(disk)
    assert log.end_offset == 4
    assert log.damage


def test_a_compacted_log_may_have_a_gap_before_a_torn_write(disk: SimulatedDisk) -> None:
    log = open_log(disk, ONE_SEGMENT)
    append_many(log, 5)
    log.append_batches(memoryview(make_batch(40)), 1000)
    kill(disk)
    disk.open(FIRST).truncate(580)
    log = reopen(disk)
    assert (log.end_offset, log.damage) == (5, "")


def test_a_write_torn_in_an_older_segment_is_damage(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    append_many(log, 25)
    assert len(log.segments) > 2
    kill(disk)
    file = disk.open(FIRST)
    file.truncate(file.size() - 10)
    assert reopen(disk, SMALL).damage
    assert not disk.exists("t-0/00000000000000000020.log")


def test_a_missing_segment_is_damage(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    append_many(log, 25)
    middle = log.segments[1].path + ".log"
    kill(disk)
    disk.remove(middle)
    assert "hole" in reopen(disk, SMALL).damage


def test_a_log_that_was_closed_and_is_shorter_is_damaged(disk: SimulatedDisk) -> None:
    log = open_log(disk, ONE_SEGMENT)
    append_many(log, 5)
    assert log.close()
    disk.open(FIRST).truncate(400)
    assert reopen(disk, synced=5, clean=True).damage


# --- the note -----------------------------------------------------------------------------------------------


def damage_one(disk: SimulatedDisk) -> None:
    append_many(open_log(disk, ONE_SEGMENT), 5)
    kill(disk)
    disk.flip(FIRST, 350, 0)


def test_damage_is_noted_until_somebody_knows(disk: SimulatedDisk) -> None:
    damage_one(disk)
    assert reopen(disk).end_offset == 3
    disk.crash()
    log = reopen(disk)
    assert log.end_offset == 3
    assert "CRC" in log.damage
    log.damage_is_known()
    assert not log.damage
    disk.crash()
    assert not reopen(disk, same_boot=False).damage


def test_a_crash_at_any_moment_of_the_opening_forgets_no_damage() -> None:
    for number in range(1, 60):
        disk = SimulatedDisk()
        damage_one(disk)
        disk.fail_at(disk.operations + number, EIO)
        try:
            reopen(disk)
        except Exception:
            kill(disk)
            assert reopen(disk).damage, number
        else:
            kill(disk)
            assert reopen(disk).damage


# --- names --------------------------------------------------------------------------------------------------


def test_names_that_a_killed_process_had_not_synced_are_synced_by_the_next(disk: SimulatedDisk) -> None:
    append_many(open_log(disk), 3)
    disk.process_died()
    sync(open_log(disk))
    disk.crash()
    assert len(contents(open_log(disk))) == 3


# --- the data directory -------------------------------------------------------------------------------------


def open_directory(disk: SimulatedDisk, *, same_boot: bool = True) -> DataDirectory:
    directory = DataDirectory.open(disk, "data", node_id=1, now_ms=1000)
    directory.same_boot = same_boot
    return directory


def write_checkpointed(disk: SimulatedDisk, count: int = 25, *, sure: bool = True) -> DataDirectory:
    directory = open_directory(disk)
    directory.is_log_confirmed = lambda name: sure
    log = directory.open_log(NAME, ID, SMALL, 1000)
    append_many(log, count)
    sync(log)
    directory.checkpoint({NAME: count})
    return directory


def test_a_truncation_is_no_damage(disk: SimulatedDisk) -> None:
    directory = write_checkpointed(disk)
    directory.lower_claims(NAME, 7)
    directory.logs[NAME].truncate_to(7)
    kill(disk)
    assert not open_directory(disk).open_log(NAME, ID, SMALL, 1000).damage


def test_a_truncation_inside_a_batch_is_no_damage(disk: SimulatedDisk) -> None:
    directory = open_directory(disk)
    log = directory.open_log(NAME, ID, SMALL, 1000)
    append(log, make_batch(0, count=5))
    append(log, make_batch(5, count=5))
    sync(log)
    directory.checkpoint({NAME: 10})
    directory.lower_claims(NAME, 7)
    log.truncate_to(7)
    kill(disk)
    log = open_directory(disk).open_log(NAME, ID, SMALL, 1000)
    assert (log.end_offset, log.damage) == (5, "")


@pytest.mark.parametrize("same_boot", [False, True])
def test_a_directory_that_is_gone_is_damage(disk: SimulatedDisk, same_boot: bool) -> None:
    write_checkpointed(disk)
    kill(disk)
    for path in disk.contents("data/t-0"):
        disk.remove(path)
    disk.remove_directory("data/t-0")
    directory = open_directory(disk, same_boot=same_boot)
    assert directory.open_log(NAME, ID, SMALL, 1000).damage
    kill(disk)
    assert open_directory(disk).open_log(NAME, ID, SMALL, 1000).damage


def test_a_directory_that_was_emptied_is_damage(disk: SimulatedDisk) -> None:
    write_checkpointed(disk)
    kill(disk)
    for path in disk.contents("data/t-0"):
        disk.remove(path)
    assert open_directory(disk).open_log(NAME, ID, SMALL, 1000).damage


def test_a_new_topic_of_an_old_name_is_not_damaged(disk: SimulatedDisk) -> None:
    directory = write_checkpointed(disk)
    directory.remove_log(NAME, 1000)
    kill(disk)  # The checkpoints still speak of the old one.
    log = open_directory(disk).open_log(NAME, OTHER_ID, SMALL, 1000)
    assert (log.end_offset, log.damage) == (0, "")


def test_a_checkpoint_before_a_log_is_open_does_not_drop_what_is_known_of_it(disk: SimulatedDisk) -> None:
    write_checkpointed(disk)
    kill(disk)
    open_directory(disk).checkpoint({})
    kill(disk)
    newest = max(path for path in disk.contents("data/t-0") if path.endswith(".log"))
    disk.open(newest).truncate(0)
    directory = open_directory(disk)
    assert directory.was_log_confirmed(NAME)
    assert directory.open_log(NAME, ID, SMALL, 1000).damage


@pytest.mark.parametrize("sure", [False, True])
@pytest.mark.parametrize("same_boot", [False, True])
def test_who_was_sure_is_sure_while_the_machine_is_on(
    disk: SimulatedDisk, sure: bool, same_boot: bool
) -> None:
    write_checkpointed(disk, sure=sure)
    kill(disk)
    directory = open_directory(disk, same_boot=same_boot)
    directory.open_log(NAME, ID, SMALL, 1000)
    assert directory.was_log_confirmed(NAME) == (sure and same_boot)


def test_a_damaged_topic_id_makes_a_log_a_missed_one(disk: SimulatedDisk) -> None:
    """The directory is not ours by its id, and what the checkpoints say of ours is still true."""
    write_checkpointed(disk)
    kill(disk)
    replace_whole(disk, "data/t-0/partition.metadata", encode_topic_id(OTHER_ID))
    log = open_directory(disk).open_log(NAME, ID, SMALL, 1000)
    assert log.damage
    assert disk.exists(f"data/t-0.{OTHER_ID.hex}-stray/00000000000000000000.log")


@pytest.mark.parametrize("text", [None, b"", b"0\n1\nt 0 garbage"])
def test_a_log_is_missed_also_when_nobody_knows_its_topic_any_more(
    disk: SimulatedDisk, text: bytes | None
) -> None:
    write_checkpointed(disk)
    kill(disk)
    if text is None:
        disk.remove("data/replica-checkpoint")
    else:
        replace_whole(disk, "data/replica-checkpoint", text)
    for path in disk.contents("data/t-0"):
        disk.remove(path)
    disk.remove_directory("data/t-0")
    directory = open_directory(disk)
    assert directory.open_log(NAME, ID, SMALL, 1000).damage
    assert not directory.open_log(TopicPartition("t", 1), ID, SMALL, 1000).damage


@pytest.mark.parametrize("clean", [False, True])
def test_a_start_offset_behind_the_end_of_the_log_is_not_believed(disk: SimulatedDisk, clean: bool) -> None:
    """The checkpoint has no check sum: one wrong bit must not have the whole log dropped."""
    directory = write_checkpointed(disk)
    end_offset = directory.logs[NAME].end_offset
    if clean:
        directory.close()
    kill(disk)
    offsets = checkpoints.encode_offsets({NAME: end_offset + 1})
    replace_whole(disk, "data/log-start-offset-checkpoint", offsets)
    log = open_directory(disk).open_log(NAME, ID, SMALL, 1000)
    assert (log.start_offset, log.end_offset, log.damage) == (0, end_offset, "")


def test_the_mark_of_the_start_is_believed_rather_than_the_checkpoint(disk: SimulatedDisk) -> None:
    directory = write_checkpointed(disk)
    directory.logs[NAME].advance_start(2)
    directory.checkpoint({})
    kill(disk)
    replace_whole(disk, "data/log-start-offset-checkpoint", checkpoints.encode_offsets({NAME: 3}))
    assert open_directory(disk).open_log(NAME, ID, SMALL, 1000).start_offset == 2
