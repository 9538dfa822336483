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
    disk.make_directory(DIRECTORY)
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
