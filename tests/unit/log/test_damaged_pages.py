"""More than one wrong bit: pages of zeros, files that are cut, empty, or of another segment.

The answer is right, or an error; never that of other records, and never short without a word.
"""

import pytest

from tidelog.log.aborted_index import ENTRY_SIZE
from tidelog.protocol import batch as batches
from tidelog.sim.disk import SimulatedDisk
from unit.log.flipped_bits import (
    DATA,
    NAME,
    Answers,
    ask,
    copy_of,
    open_directory,
    stopped_cleanly,
    wrong,
)

pytestmark = pytest.mark.slow

DIRECTORY = f"{DATA}/{NAME}"


class Case:
    """A log that was stopped cleanly, and what it answers."""

    def __init__(self) -> None:
        self.disk = stopped_cleanly()
        log = open_directory(copy_of(self.disk), same_boot=True)[1]
        self.ends = [30, log.end_offset]
        self.was = ask(log, self.ends)

    def files(self, suffix: str) -> list[str]:
        return [path for path in self.disk.paths() if path.endswith(suffix)]

    def content(self, path: str) -> bytes:
        return self.disk.contents(DIRECTORY)[path]

    def with_content(self, path: str, data: bytes) -> Answers:
        """What the log answers if the file has these bytes."""
        disk = copy_of(self.disk)
        put(disk, path, data)
        return ask(open_directory(disk, same_boot=True)[1], self.ends)


def put(disk: SimulatedDisk, path: str, data: bytes) -> None:
    disk.remove(path)
    disk.open(path, create=True).write_at(0, data)


@pytest.fixture(scope="module")
def case() -> Case:
    return Case()


def test_zeros_and_foreign_entries_are_no_aborted_transactions(case: Case) -> None:
    """Readers of committed records would get aborted ones."""
    files = case.files(".txnindex")
    assert len(files) > 2
    for number, path in enumerate(files):
        data = case.content(path)
        other = case.content(files[number - 1])
        kept = range(0, len(data), ENTRY_SIZE)
        damaged = [data[:size] + bytes(len(data) - size) for size in kept]
        for content in (*damaged, other, data + data, data + bytes(ENTRY_SIZE)):
            found = wrong(case.was, case.with_content(path, content), records_flipped=False, cut=False)
            assert not found, (path, content.hex(), found[:3])


@pytest.mark.parametrize("same_boot", [False, True])
def test_index_files_may_be_deleted(case: Case, same_boot: bool) -> None:
    """As people do with Kafka's, which makes all of them again."""
    for kept in (0, 1):
        disk = copy_of(case.disk)
        for suffix in (".index", ".timeindex", ".txnindex"):
            for path in case.files(suffix)[kept:]:
                disk.remove(path)
        log = open_directory(disk, same_boot=same_boot)[1]
        assert not log.damage
        assert not wrong(case.was, ask(log, case.ends), records_flipped=False, cut=False)


def test_a_segment_that_lacks_its_end_is_not_passed_over(case: Case) -> None:
    """A look-up by time must not answer with a record behind it: other replicas have the right one."""
    *old, _ = case.files(".log")
    for path in old:
        data = case.content(path)
        for end in [at for at, _ in batches.iterate(data)][::2]:
            found = wrong(case.was, case.with_content(path, data[:end]), records_flipped=True, cut=False)
            assert not found, (path, end, found[:3])


def test_a_reader_before_the_damage_gets_records_or_an_error(case: Case) -> None:
    """Also if it may not read to the end of the segment, as before an open transaction or the watermark."""
    *old, _ = case.files(".log")
    for path in old:
        data = case.content(path)
        for at, _ in [*batches.iterate(data)][1::2]:
            now = case.with_content(path, data[: at + batches.HEADER_SIZE // 2])
            found = wrong(case.was, now, records_flipped=True, cut=False)
            assert not found, (path, at, found[:3])
