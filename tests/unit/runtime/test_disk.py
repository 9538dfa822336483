"""The same log on this machine's disk: files, mappings, descriptors, threads, real full disks."""

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
from pathlib import Path
from uuid import UUID

import pytest

from tidelog.errors import StorageError
from tidelog.log.directory import DataDirectory
from tidelog.log.handles import HandleCache
from tidelog.log.log import Log
from tidelog.log.storage import Storage
from tidelog.runtime.disk import LARGE_BYTES, Disk
from tidelog.types import TopicPartition
from unit.log.compaction_model import COMPACT, compact
from unit.log.log_model import ONE_SEGMENT, SMALL, append_many, contents, open_log, sync
from unit.log.producer_model import Sent, expected_of, known_to, write

pytestmark = pytest.mark.slow

ID = UUID(int=7)


def open_files(below: Path) -> int:
    """Descriptors of files in this test's directory; other tests' leftovers may come and go."""
    found = 0
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found += str(link.readlink()).startswith(str(below))
    return found


@pytest.fixture
def disk() -> Storage:
    return Disk()


def test_round_trip_over_clean_and_unclean_restarts(tmp_path: Path, disk: Storage) -> None:
    directory = str(tmp_path / "t-0")
    log = open_log(disk, directory=directory)
    append_many(log, 57)
    log.close()
    log = open_log(disk, clean=True, directory=directory)
    assert [base for base, _, _ in contents(log)] == list(range(57))
    append_many(log, 30, epoch=1)
    log = open_log(disk, directory=directory)  # The first object is simply dropped, as a crash would.
    assert [base for base, _, _ in contents(log)] == list(range(87))
    assert log.epochs.entries == [(0, 0), (1, 57)]
    log.truncate_to(31)
    append_many(log, 5, epoch=2)
    log.close()
    assert [base for base, _, _ in contents(open_log(disk, clean=True, directory=directory))] == list(
        range(36)
    )


def test_index_files_grow_in_steps_and_are_trimmed(tmp_path: Path, disk: Storage) -> None:
    settings = ONE_SEGMENT.but(segment_bytes=1 << 24, index_interval_bytes=0, segment_index_bytes=1 << 20)
    log = open_log(disk, settings, directory=str(tmp_path / "t-0"))
    index = tmp_path / "t-0" / "00000000000000000000.index"
    assert index.stat().st_size == 0
    sizes = set()
    for _ in range(40):
        append_many(log, 50)
        sizes.add(index.stat().st_size)
    assert sizes == {4096, 8192, 16384}
    log.close()
    assert index.stat().st_size == 1999 * 8
    assert [base for base, _, _ in contents(log_again(log, disk, settings))] == list(range(2000))


def log_again(log: Log, disk: Storage, settings: object) -> Log:
    return open_log(disk, settings, clean=True, directory=log.directory)  # type: ignore[arg-type]


def test_descriptors_are_opened_late_bounded_and_given_back(tmp_path: Path, disk: Storage) -> None:
    before = open_files(tmp_path)
    handles = HandleCache(limit=10)
    logs = []
    for number in range(20):
        log = Log.open(disk, str(tmp_path / f"t-{number}"), SMALL, clean=False, now_ms=1, handles=handles)
        append_many(log, 35)
        sync(log)
        logs.append(log)
    assert open_files(tmp_path) - before <= 10
    for log in logs:
        assert len(contents(log)) == 35
    assert open_files(tmp_path) - before <= 10
    region = logs[0].read(0, 1 << 20, 35, at_least_one_batch=True)
    expected = region.read()
    for log in logs:
        log.close()
    assert open_files(tmp_path) - before == 1
    assert region.read() == expected
    del region
    assert open_files(tmp_path) == before
    again = [open_log(disk, clean=True, directory=log.directory) for log in logs]
    assert open_files(tmp_path) == before
    assert all(log.end_offset == 35 for log in again)


def test_opening_closed_logs_leaves_hardly_a_file_open(tmp_path: Path, disk: Storage) -> None:
    directory = DataDirectory.open(disk, str(tmp_path / "data"), node_id=1, now_ms=1)
    for number in range(50):
        append_many(directory.open_log(TopicPartition("t", number), ID, SMALL, 1), 2)
    assert directory.close()
    del directory
    before = open_files(tmp_path)
    directory = DataDirectory.open(disk, str(tmp_path / "data"), node_id=1, now_ms=1)
    logs = [directory.open_log(TopicPartition("t", number), ID, SMALL, 1) for number in range(50)]
    assert directory.was_clean
    assert open_files(tmp_path) - before <= 1  # The lock.
    assert all(log.end_offset == 2 for log in logs)
    directory.close()


def test_the_lock_keeps_a_second_process_out(tmp_path: Path, disk: Storage) -> None:
    directory = DataDirectory.open(disk, str(tmp_path), node_id=1, now_ms=1)
    with pytest.raises(StorageError, match="in use"):
        DataDirectory.open(disk, str(tmp_path), node_id=1, now_ms=1)
    directory.close()
    DataDirectory.open(disk, str(tmp_path), node_id=1, now_ms=1).close()


def test_syncs_in_a_thread_while_the_log_is_written(tmp_path: Path, disk: Storage) -> None:
    log = open_log(disk, directory=str(tmp_path / "t-0"))
    for _ in range(30):
        append_many(log, 10)
        ticket = log.begin_sync()
        thread = threading.Thread(target=ticket.run)
        thread.start()
        append_many(log, 10)
        thread.join()
        log.finish_sync(ticket, 1000)
        assert log.synced_end_offset == log.end_offset - 10
    assert len(contents(log)) == 600


def test_a_killed_writer_loses_nothing_it_was_told_is_written(tmp_path: Path) -> None:
    """A real process, a real SIGKILL in the middle of appending and rolling."""
    program = """
import sys
sys.path.insert(0, sys.argv[2])
from unit.log.log_model import open_log, append_many, SMALL
from tidelog.runtime.disk import Disk
log = open_log(Disk(), SMALL.but(segment_bytes=5000), directory=sys.argv[1])
while True:
    append_many(log, 1)
    sys.stdout.write(f"{log.end_offset}\\n")
    sys.stdout.flush()
"""
    arguments = [sys.executable, "-c", program, str(tmp_path / "t-0"), str(Path(__file__).parents[2])]
    writer = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    acknowledged = 0
    for line in writer.stdout:
        acknowledged = int(line)
        if acknowledged == 700:
            os.kill(writer.pid, signal.SIGKILL)
    writer.wait()
    log = open_log(Disk(), SMALL.but(segment_bytes=5000), directory=str(tmp_path / "t-0"))
    assert log.end_offset >= acknowledged >= 700
    assert [base for base, _, _ in contents(log)] == list(range(log.end_offset))


def test_a_really_full_disk(tmp_path: Path) -> None:
    """A file size limit makes the kernel take a part of a write and refuse the rest, as a full disk does."""
    program = """
import resource, signal, sys
sys.path.insert(0, sys.argv[2])
from unit.log.log_model import open_log, append_many, contents, ONE_SEGMENT
from tidelog.errors import StorageError
from tidelog.runtime.disk import Disk
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
log = open_log(Disk(), ONE_SEGMENT, directory=sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (12345, resource.RLIM_INFINITY))
try:
    append_many(log, 1000)
except StorageError:
    print(log.end_offset, len(contents(log)), log.failure is not None)
"""
    path = tmp_path / "t-0"
    arguments = [sys.executable, "-c", program, str(path), str(Path(__file__).parents[2])]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    assert done.stdout == "123 123 True\n", done.stderr
    assert (path / "00000000000000000000.log").stat().st_size == 12300


def test_a_large_sparse_log_costs_the_same_everywhere(tmp_path: Path, disk: Storage) -> None:
    """Two gigabytes that were never written, found by index and headers alone."""
    from tidelog.log.segment import Segment
    from tidelog.protocol import batch as batches

    directory = tmp_path / "t-0"
    directory.mkdir()
    size, count = 1 << 20, 1000
    header = bytes(batches.build(b"", base_offset=0, last_offset_delta=9, count=10, base_timestamp=1,
                                 max_timestamp=1))  # fmt: skip
    for base in (0, count * 10):
        segment = Segment.create(disk, HandleCache(), str(directory), base, 1 << 20)
        for number in range(count):
            patched = bytearray(header)
            patched[8:12] = (size - 12).to_bytes(4, "big")
            patched[0:8] = (base + number * 10).to_bytes(8, "big")
            segment.file().write_at(number * size, patched)
            segment.account(number * size, size, base + number * 10 + 9, 1, 4096)
        segment.file().truncate(count * size)
        segment.make_inactive()
    log = open_log(disk, ONE_SEGMENT.but(segment_bytes=1 << 30), clean=True, directory=str(directory))
    assert log.end_offset == 2 * count * 10
    for found_segment in log.segments:
        found_segment.trusted_from = 0  # Their checksums are made up.
    for offset in (0, 5, 9_995, 10_000, 15_555, 19_999):
        region = log.read(offset, 100, log.end_offset, at_least_one_batch=True)
        assert region.size == size
        found = batches.parse_header(region.file.read_at(region.position, 61))
        assert found.base_offset == offset - offset % 10


def test_a_log_that_was_only_read_is_left_as_it_was(tmp_path: Path, disk: Storage) -> None:
    log = open_log(disk, ONE_SEGMENT, directory=str(tmp_path / "t-0"))
    append_many(log, 100)
    log.close()
    before = {
        path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in (tmp_path / "t-0").iterdir()
    }
    log = open_log(disk, ONE_SEGMENT, clean=True, directory=str(tmp_path / "t-0"))
    assert len(contents(log)) == 100
    log.read(37, 100, 100, at_least_one_batch=True)
    assert log.close()
    after = {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in (tmp_path / "t-0").iterdir()}
    assert after == before


def test_a_replica_that_comes_back_and_goes_again_leaves_nothing_behind(tmp_path: Path) -> None:
    """Its files of the last time may still be there. What it was told to delete must not be its log again."""
    name, topic_id = TopicPartition("t", 0), ID
    directory = DataDirectory.open(Disk(), str(tmp_path), node_id=1, now_ms=1000)
    for _ in range(3):
        log = directory.open_log(name, topic_id, SMALL, 1000)
        assert log.end_offset == 0
        append_many(log, 3)
        directory.remove_log(name, 1000)
        assert not (tmp_path / "t-0").exists()
    directory.remove_doomed(1000 + SMALL.file_delete_delay_ms)
    assert not list(tmp_path.glob("*-delete"))


def test_strays_of_the_same_log_are_kept_beside_each_other(tmp_path: Path) -> None:
    name, topic_id = TopicPartition("t", 0), ID
    for stops in range(1, 4):
        directory = DataDirectory.open(Disk(), str(tmp_path), node_id=1, now_ms=1000)
        append_many(directory.open_log(name, topic_id, SMALL, 1000), 3)
        directory.close()
        directory = DataDirectory.open(Disk(), str(tmp_path), node_id=1, now_ms=1000)
        assert directory.forget_strays() == ["t-0"]
        directory.close()
        assert len(list(tmp_path.glob("*-stray"))) == stops


@pytest.mark.parametrize(
    ("size", "removed", "elsewhere"),
    [(1 << 10, True, False), (LARGE_BYTES, False, False), (LARGE_BYTES, True, True)],
)
def test_a_large_removed_file_is_closed_in_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, removed: bool, elsewhere: bool
) -> None:
    """Whoever closes it last waits for its disk space, and that may be the loop at the end of a send."""
    path = tmp_path / "segment"
    file = Disk().open(str(path), create=True)
    file.truncate(size)
    if removed:
        path.unlink()
    descriptor, close = file.fileno(), os.close
    closed: queue.SimpleQueue[int] = queue.SimpleQueue()

    def closing(number: int) -> None:
        close(number)
        if number == descriptor:
            closed.put(threading.get_ident())

    monkeypatch.setattr(os, "close", closing)
    del file
    assert (closed.get(timeout=30) != threading.get_ident()) is elsewhere


@pytest.mark.parametrize("kind", ["directory", "link to a directory", "link to nothing", "loop", "pipe"])
@pytest.mark.parametrize("clean", [True, False])
def test_a_snapshot_that_cannot_be_read_is_rebuilt_from_the_log(
    disk: Storage, tmp_path: Path, kind: str, clean: bool
) -> None:
    directory = str(tmp_path / "t-0")
    log = open_log(disk, directory=directory)
    history = [write(log, Sent(7, 0, n, 1)) for n in range(25)]
    assert log.close()
    end_offset = log.end_offset
    snapshots = list((tmp_path / "t-0").glob("*.snapshot"))
    assert len(snapshots) > 1
    for path in snapshots:
        path.unlink()
        if kind == "directory":
            path.mkdir()
        elif kind == "link to a directory":
            path.symlink_to(tmp_path)
        elif kind == "link to nothing":
            path.symlink_to(tmp_path / "missing")
        elif kind == "loop":
            path.symlink_to(path)
        else:
            os.mkfifo(path)
    log = open_log(disk, directory=directory, clean=clean, recovery_point=end_offset)
    assert known_to(log.producers) == expected_of(history)
    log.roll(1000)  # Its snapshot has the name of the last one.
    sync(log)
    compact(disk, log, COMPACT)
    assert log.close()
    log = open_log(disk, directory=directory, clean=True, recovery_point=end_offset)
    assert known_to(log.producers) == expected_of(history)
    log.truncate_to(3)
    assert log.end_offset == 3
    assert log.close()


def test_files_are_for_their_owner_only(tmp_path: Path) -> None:
    """Also where the system's default would let everybody read them."""
    before = os.umask(0o022)
    try:
        Disk().open(str(tmp_path / "log"), create=True)
        Disk().make_directory(str(tmp_path / "t-0"))
    finally:
        os.umask(before)
    assert (tmp_path / "log").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "t-0").stat().st_mode & 0o777 == 0o700
