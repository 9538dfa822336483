"""When damage counts as dropped: with everything after it, and only once."""

from uuid import UUID

import pytest

from tidelog.sim.checkers.damage import Damage, DamageChecker
from tidelog.sim.disk import SimulatedDisk

DIRECTORY = "data/t-0"
FIRST, SECOND = f"{DIRECTORY}/{0:020}.log", f"{DIRECTORY}/{5:020}.log"
PLANTED = b"damaged"


@pytest.fixture
def disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    for directory in ("data", DIRECTORY):
        disk.make_directory(directory)
    for path in (FIRST, SECOND):
        disk.open(path, create=True).write_at(0, b"intact " + PLANTED)
    return disk


@pytest.fixture
def checker(disk: SimulatedDisk) -> DamageChecker:
    """Offset 3, in the first segment, is damaged."""
    checker = DamageChecker()
    checker.noted(Damage(1, (UUID(int=1), 0), disk, FIRST, 7, 3, PLANTED))
    return checker


def test_what_is_there_is_not_dropped(checker: DamageChecker) -> None:
    assert checker.dropped() == []


def test_a_truncation_drops_it_once(disk: SimulatedDisk, checker: DamageChecker) -> None:
    disk.remove(SECOND)
    disk.open(FIRST).truncate(7)
    assert not checker.there()
    assert [damage.offset for damage in checker.dropped()] == [3]
    assert checker.dropped() == []


def test_retention_drops_nothing_after_it(disk: SimulatedDisk, checker: DamageChecker) -> None:
    disk.remove(FIRST)
    assert checker.dropped() == []
    assert not checker.there()


def test_a_segment_that_retention_renames_was_not_dropped(
    disk: SimulatedDisk, checker: DamageChecker
) -> None:
    disk.rename(FIRST, f"{FIRST}.deleted")
    assert checker.dropped() == []
    assert not checker.there()


def test_a_log_that_begins_again_after_the_damage_has_dropped_it(
    disk: SimulatedDisk, checker: DamageChecker
) -> None:
    """Records up to there were deleted; a segment with the name of an old one is new."""
    for path in (SECOND, FIRST):
        disk.rename(path, f"{path}.deleted")
    disk.open(SECOND, create=True).write_at(0, b"copied back")
    assert [damage.offset for damage in checker.dropped()] == [3]
    assert checker.dropped() == []


def test_a_segment_that_was_cut_and_filled_again_was_dropped_before_it_expired(
    disk: SimulatedDisk, checker: DamageChecker
) -> None:
    disk.open(FIRST).truncate(7)
    disk.open(FIRST).write_at(7, b"copied back")
    disk.remove(FIRST)
    assert [damage.offset for damage in checker.dropped()] == [3]


def test_a_log_whose_names_return_after_a_power_failure_has_dropped_nothing(
    disk: SimulatedDisk, checker: DamageChecker
) -> None:
    """The names were not synced, and the damage is there again; later, the segment expires."""
    for path in (FIRST, SECOND):
        disk.open(path).sync()
    for directory in ("", "data", DIRECTORY):
        disk.sync_directory(directory)
    for path in (SECOND, FIRST):
        disk.rename(path, f"{path}.deleted")
    disk.crash()
    assert checker.there()
    disk.rename(FIRST, f"{FIRST}.deleted")
    assert checker.dropped() == []
