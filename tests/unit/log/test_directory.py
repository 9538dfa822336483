"""A broker's data directory on a disk that loses power."""

import re
from collections.abc import Callable, Sequence
from uuid import UUID

import pytest

from tidelog.errors import CorruptBatch, StorageError
from tidelog.log import checkpoints
from tidelog.log.directory import DataDirectory
from tidelog.sim.disk import EIO, SimulatedDisk, everything
from tidelog.types import TopicPartition
from unit.log.log_model import SMALL, append_many, contents, sync

ORDERS = TopicPartition("orders-eu", 3)
PAYMENTS = TopicPartition("payments", 0)
ID = UUID("0f5e2a3c-9d55-4f3a-8a56-0c4f2d7a9b10")
OTHER_ID = UUID("7b0b7c53-55f4-4e0c-a0ab-000000000001")


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


def open_directory(disk: SimulatedDisk, node_id: int = 1, cluster_id: str | None = "c1") -> DataDirectory:
    return DataDirectory.open(disk, "data", node_id=node_id, cluster_id=cluster_id, now_ms=1000)


def read_raw(disk: SimulatedDisk, path: str) -> bytes:
    file = disk.open(path)
    return file.read_at(0, file.size())


def test_files_are_kafkas(disk: SimulatedDisk) -> None:
    directory = open_directory(disk)
    log = directory.open_log(ORDERS, ID, SMALL, 1000)
    append_many(log, 15)
    log.advance_start(7)
    directory.close({ORDERS: 12})
    assert read_raw(disk, "data/meta.properties") == b"cluster.id=c1\nnode.id=1\nversion=1\n"
    assert read_raw(disk, "data/orders-eu-3/partition.metadata") == (
        b"version: 0\ntopic_id: D14qPJ1VTzqKVgxPLXqbEA\nchecksum: 3262677816\n"
    )
    for name, offset in ("recovery-point", 15), ("log-start", 7), ("replication", 12):
        text = read_raw(disk, f"data/{name}-offset-checkpoint").decode()
        assert re.fullmatch(rf"0\n2\norders-eu 3 {offset}\n__checksum 0 \d+\n", text), text
    assert disk.exists("data/.kafka_cleanshutdown")


def test_only_an_unclean_stop_has_logs_checked(disk: SimulatedDisk) -> None:
    directory = open_directory(disk)
    for name in (ORDERS, PAYMENTS):
        append_many(directory.open_log(name, ID, SMALL, 1000), 15)
    assert directory.checked_logs == 0
    assert directory.close()
    directory = open_directory(disk)
    for name in (ORDERS, PAYMENTS):
        append_many(directory.open_log(name, ID, SMALL, 1000), 1)
    assert directory.checked_logs == 0
    disk.crash(survive=everything, names=everything)
    directory = open_directory(disk)
    for name in (ORDERS, PAYMENTS, TopicPartition("new", 0)):
        directory.open_log(name, ID, SMALL, 1000)
    assert directory.checked_logs == 2


def test_a_clean_shutdown_is_remembered_once(disk: SimulatedDisk) -> None:
    directory = open_directory(disk)
    append_many(directory.open_log(ORDERS, ID, SMALL, 1000), 15)
    assert directory.close()
    disk.crash()  # All of it must be on disk.
    directory = open_directory(disk)
    assert directory.was_clean
    log = directory.open_log(ORDERS, ID, SMALL, 1000)
    assert len(contents(log)) == 15
    append_many(log, 3)
    disk.crash(survive=everything, names=everything)
    directory = open_directory(disk)
    assert not directory.was_clean
    assert len(contents(directory.open_log(ORDERS, ID, SMALL, 1000))) == 18


def test_a_log_that_failed_makes_the_shutdown_unclean(disk: SimulatedDisk) -> None:
    directory = open_directory(disk)
    log = directory.open_log(ORDERS, ID, SMALL, 1000)
    append_many(log, 3)
    disk.fail_at(disk.operations + 1, EIO, 50)
    with pytest.raises(StorageError):
        append_many(log, 1)
    assert not directory.close()
    assert not open_directory(disk).was_clean


def test_one_broker_at_a_time(disk: SimulatedDisk) -> None:
    directory = open_directory(disk)
    with pytest.raises(StorageError, match="in use"):
        open_directory(disk)
    directory.close()
    open_directory(disk)


def test_a_directory_of_another_broker_or_cluster_is_refused(disk: SimulatedDisk) -> None:
    open_directory(disk).close()
    with pytest.raises(StorageError, match="belongs to broker 1"):
        open_directory(disk, node_id=2)
    with pytest.raises(StorageError, match="belongs to cluster c1"):
        open_directory(disk, cluster_id="c2")
    assert open_directory(disk, cluster_id=None).cluster_id == "c1"


def test_a_directory_of_a_format_to_come_is_refused_and_left_as_it_is(disk: SimulatedDisk) -> None:
    open_directory(disk).close()
    newer = read_raw(disk, "data/meta.properties").replace(b"version=1", b"version=2")
    disk.open("data/meta.properties").write_at(0, newer)
    with pytest.raises(StorageError, match="has format 2"):
        open_directory(disk)
    assert read_raw(disk, "data/meta.properties") == newer


def test_the_cluster_may_become_known_later(disk: SimulatedDisk) -> None:
    directory = open_directory(disk, cluster_id=None)
    assert directory.cluster_id is None
    directory.join_cluster("c9")
    directory.close()
    assert open_directory(disk, cluster_id=None).cluster_id == "c9"


def test_a_deleted_partition_is_gone_at_once_and_its_files_later(disk: SimulatedDisk) -> None:
    directory = open_directory(disk)
    log = directory.open_log(ORDERS, ID, SMALL, 1000)
    append_many(log, 5)
    region = log.read(0, 100, 5, at_least_one_batch=True)
    directory.remove_log(ORDERS, 1000)
    assert ORDERS not in directory.logs
    assert log.closed
    assert not disk.exists("data/orders-eu-3")
    assert disk.exists(f"data/orders-eu-3.{ID.hex}-delete")
    assert directory.remove_doomed(60_999) == 1
    assert directory.remove_doomed(61_000) == 0
    assert not disk.exists(f"data/orders-eu-3.{ID.hex}-delete")
    assert len(region.read()) == 100


def test_the_longest_topic_name_can_be_deleted(disk: SimulatedDisk) -> None:
    """Its directory has 255 characters already, the most that a file system takes."""
    longest = TopicPartition("x" * 249, 12_345)
    for _ in range(2):  # Created and deleted again, before the first one's files are gone.
        directory = open_directory(disk)
        directory.open_log(longest, ID, SMALL, 1000)
        directory.remove_log(longest, 1000)
        directory.close()
        names = [entry.name for entry in disk.list("data") if entry.is_directory]
        assert max(map(len, names)) <= 255
        assert all(name.startswith("x" * 200) and name.endswith("-delete") for name in names)
    assert open_directory(disk).remove_doomed(1_000_000) == 0
    assert not [entry.name for entry in disk.list("data") if entry.is_directory]


def test_a_deletion_is_finished_after_a_restart(disk: SimulatedDisk) -> None:
    directory = open_directory(disk)
    append_many(directory.open_log(ORDERS, ID, SMALL, 1000), 5)
    directory.remove_log(ORDERS, 1000)
    disk.crash(survive=everything, names=everything)
    directory = open_directory(disk)
    assert directory.remove_doomed(1000) == 0
    assert [entry.name for entry in disk.list("data") if entry.is_directory] == []


def test_a_partition_made_anew_under_an_old_name_inherits_nothing(disk: SimulatedDisk) -> None:
    """Not even when the machine dies before the next checkpoint: the old start would hide the new records."""
    directory = open_directory(disk)
    log = directory.open_log(ORDERS, ID, SMALL, 1000)
    append_many(log, 50)
    log.advance_start(45)
    sync(log)
    directory.checkpoint()
    directory.remove_log(ORDERS, 1000)
    log = directory.open_log(ORDERS, OTHER_ID, SMALL, 1000)
    assert (log.start_offset, log.end_offset) == (0, 0)
    append_many(log, 8)
    sync(log)
    disk.crash()
    log = open_directory(disk).open_log(ORDERS, OTHER_ID, SMALL, 1000)
    assert [base for base, _, _ in contents(log)] == list(range(8))


def test_a_new_partition_does_not_inherit_the_watermark_of_a_deleted_one(disk: SimulatedDisk) -> None:
    """It would call records committed that are not, and refuse to give them up."""
    directory = open_directory(disk)
    append_many(directory.open_log(ORDERS, ID, SMALL, 1000), 8)
    directory.checkpoint({ORDERS: 8})
    directory.remove_log(ORDERS, 1000)
    disk.crash(survive=everything, names=everything)
    directory = open_directory(disk)
    append_many(directory.open_log(ORDERS, OTHER_ID, SMALL, 1000), 5)
    assert directory.high_watermark(ORDERS) == 0
    disk.crash(survive=everything, names=everything)
    assert open_directory(disk).high_watermark(ORDERS) == 0


def test_what_a_topic_of_the_same_name_left_is_set_aside(disk: SimulatedDisk) -> None:
    directory = open_directory(disk)
    append_many(directory.open_log(ORDERS, ID, SMALL, 1000), 5)
    directory.close()
    directory = open_directory(disk)
    log = directory.open_log(ORDERS, OTHER_ID, SMALL, 1000)
    assert log.end_offset == 0
    assert disk.exists(f"data/orders-eu-3.{ID.hex}-stray/00000000000000000000.log")


def test_directories_nobody_claims_are_set_aside_not_deleted(disk: SimulatedDisk) -> None:
    directory = open_directory(disk)
    append_many(directory.open_log(ORDERS, ID, SMALL, 1000), 5)
    append_many(directory.open_log(PAYMENTS, OTHER_ID, SMALL, 1000), 5)
    directory.close()
    directory = open_directory(disk)
    directory.open_log(PAYMENTS, OTHER_ID, SMALL, 1000)
    assert directory.forget_strays() == ["orders-eu-3"]
    assert disk.exists(f"data/orders-eu-3.{ID.hex}-stray")
    assert disk.exists("data/payments-0")
    assert directory.forget_strays() == []


def test_a_log_that_cannot_be_opened_is_no_stray(disk: SimulatedDisk) -> None:
    """Set aside, it would come back empty after the next start, and lead with nothing."""
    directory = open_directory(disk)
    append_many(directory.open_log(ORDERS, ID, SMALL, 1000), 5)
    directory.close()
    directory = open_directory(disk)
    disk.fail_at(disk.operations + 1, EIO)
    with pytest.raises(StorageError):
        directory.open_log(ORDERS, ID, SMALL, 1000)
    assert directory.forget_strays() == []
    directory.close()
    assert open_directory(disk).open_log(ORDERS, ID, SMALL, 1000).end_offset == 5


def test_logs_that_were_not_opened_after_a_crash_do_not_pass_for_checked(disk: SimulatedDisk) -> None:
    """A process that is stopped before the cluster lets it in has checked nothing."""
    directory = open_directory(disk)
    append_many(directory.open_log(ORDERS, ID, SMALL, 1000), 5)
    disk.crash(survive=everything, names=everything)
    directory = open_directory(disk)
    directory.open_metadata_log(1000)
    assert not directory.close()
    directory = open_directory(disk)
    assert not directory.was_clean
    directory.open_log(ORDERS, ID, SMALL, 1000)
    directory.open_metadata_log(1000)
    assert directory.close()


def test_a_torn_partition_file_is_written_again(disk: SimulatedDisk) -> None:
    directory = open_directory(disk)
    append_many(directory.open_log(ORDERS, ID, SMALL, 1000), 5)
    disk.crash(survive=lambda path, n: 9 if path.endswith("metadata") else n, names=everything)
    directory = open_directory(disk)
    assert directory.open_log(ORDERS, ID, SMALL, 1000).end_offset == 5
    assert checkpoints.decode_topic_id(read_raw(disk, "data/orders-eu-3/partition.metadata")) == ID


def test_recovery_points_spare_the_scan_and_never_claim_too_much(disk: SimulatedDisk) -> None:
    directory = open_directory(disk)
    log = directory.open_log(ORDERS, ID, SMALL, 1000)
    append_many(log, 25)
    sync(log)
    append_many(log, 10)
    directory.checkpoint()
    assert checkpoints.decode_offsets(read_raw(disk, "data/recovery-point-offset-checkpoint")) == {ORDERS: 25}
    assert log.checkpointed_recovery_point == 25
    disk.crash()
    assert open_directory(disk).open_log(ORDERS, ID, SMALL, 1000).end_offset == 25


def test_a_damaged_checkpoint_costs_a_scan_and_nothing_else(disk: SimulatedDisk) -> None:
    directory = open_directory(disk)
    log = directory.open_log(ORDERS, ID, SMALL, 1000)
    append_many(log, 25)
    sync(log)
    directory.checkpoint()
    disk.open("data/recovery-point-offset-checkpoint").write_at(0, b"9\nxx")
    disk.crash(survive=everything, names=everything)
    assert open_directory(disk).open_log(ORDERS, ID, SMALL, 1000).end_offset == 25


def test_a_checkpoint_begun_in_a_thread_does_not_undo_a_newer_one(disk: SimulatedDisk) -> None:
    directory = open_directory(disk)
    log = directory.open_log(ORDERS, ID, SMALL, 1000)
    append_many(log, 25)
    sync(log)
    old = directory.begin_checkpoint()
    append_many(log, 5)
    sync(log)
    directory.checkpoint()
    old.run()
    directory.finish_checkpoint(old)
    assert checkpoints.decode_offsets(read_raw(disk, "data/recovery-point-offset-checkpoint")) == {ORDERS: 30}
    assert not any(entry.name.endswith(".tmp") for entry in disk.list("data"))


def test_offsets_captured_before_a_truncation_are_not_written_after_it(disk: SimulatedDisk) -> None:
    """With thousands of logs, the offsets of a checkpoint are captured in several turns."""
    directory = open_directory(disk)
    log = directory.open_log(ORDERS, ID, SMALL, 1000)
    append_many(log, 10)
    sync(log)
    earlier = directory.begin_checkpoint()
    append_many(log, 15)
    sync(log)
    directory.capture([ORDERS])
    earlier.run()
    directory.finish_checkpoint(earlier)  # It holds 10, but the next one would hold 25.
    directory.lower_claims(ORDERS, 20)
    log.truncate_to(20)
    last = directory.captured()
    last.run()
    directory.finish_checkpoint(last)
    points = checkpoints.decode_offsets(read_raw(disk, "data/recovery-point-offset-checkpoint"))
    assert points[ORDERS] <= 20


def test_a_log_that_was_removed_while_offsets_were_captured_is_in_no_checkpoint(disk: SimulatedDisk) -> None:
    directory = open_directory(disk)
    append_many(directory.open_log(ORDERS, ID, SMALL, 1000), 5)
    directory.capture([ORDERS], {ORDERS: 5})
    directory.remove_log(ORDERS, 1000)
    directory.capture([ORDERS], {ORDERS: 5})
    directory.captured().run()
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        assert checkpoints.decode_offsets(read_raw(disk, f"data/{name}")) == {}


def test_a_checkpoint_that_cannot_be_written_is_told(disk: SimulatedDisk) -> None:
    directory = open_directory(disk)
    append_many(directory.open_log(ORDERS, ID, SMALL, 1000), 5)
    disk.fail_at(disk.operations + 2, EIO)
    with pytest.raises(StorageError):
        directory.checkpoint()


def test_the_metadata_log_keeps_everything(disk: SimulatedDisk) -> None:
    directory = open_directory(disk)
    log = directory.open_metadata_log(1000)
    append_many(log, 5)
    assert log.enforce_retention(1 << 60, 5) == []
    assert disk.exists("data/__cluster_metadata-0/00000000000000000000.log")
    assert directory.forget_strays() == []


@pytest.mark.parametrize("same_boot", [False, True])
def test_damage_to_the_metadata_log_shows_once_it_was_checked_on_this_boot(
    disk: SimulatedDisk, same_boot: bool
) -> None:
    """Also if other logs were not."""
    directory = open_directory(disk)
    metadata, other = directory.open_metadata_log(1000), directory.open_log(ORDERS, ID, SMALL, 1000)
    paths = []
    for log in (metadata, other):
        append_many(log, 2)
        paths.append(f"{log.directory}/00000000000000000000.log")
    disk.crash(survive=everything, names=everything)
    for path in paths:
        disk.flip(path, disk.size(path) - 1, 0)
    directory = open_directory(disk)
    directory.same_boot_for_metadata = same_boot
    assert bool(directory.open_metadata_log(1000).damage) is same_boot
    assert not directory.open_log(ORDERS, ID, SMALL, 1000).damage


def test_reopening_a_log_in_the_same_process_checks_it(disk: SimulatedDisk) -> None:
    open_directory(disk).close()
    directory = open_directory(disk)
    log = directory.open_log(ORDERS, ID, SMALL, 1000)
    append_many(log, 5)
    disk.fail_at(disk.operations + 1, EIO, 50)
    disk.fail_at(disk.operations + 2, EIO)
    with pytest.raises(StorageError):
        append_many(log, 1)
    log.close()
    log = directory.open_log(ORDERS, ID, SMALL, 1000)
    assert log.failure is None
    append_many(log, 1)
    assert len(contents(log)) == 6


def test_logs_close_together_in_threads(disk: SimulatedDisk) -> None:
    directory = open_directory(disk)
    for number in range(5):
        append_many(directory.open_log(TopicPartition("t", number), ID, SMALL, 1000), 25)
    rounds = []

    def run_all(jobs: Sequence[Callable[[], None]]) -> None:
        rounds.append(len(jobs))
        for job in jobs:
            job()

    assert directory.close(run_all=run_all)
    assert rounds == [5, 5]
    disk.crash()
    directory = open_directory(disk)
    assert directory.was_clean
    for number in range(5):
        log = directory.open_log(TopicPartition("t", number), ID, SMALL, 1000)
        assert (log.end_offset, log.epochs.entries) == (25, [(0, 0)])


def test_a_watermark_above_what_power_failure_left_is_not_believed_again(disk: SimulatedDisk) -> None:
    """The log grows over it once more, with other records, and nobody has committed those."""
    directory = open_directory(disk)
    append_many(directory.open_log(ORDERS, ID, SMALL, 1000), 5)
    directory.checkpoint({ORDERS: 5})
    disk.crash(survive=lambda path, unsynced: 0, names=everything)
    directory = open_directory(disk)
    log = directory.open_log(ORDERS, ID, SMALL, 1000)
    lost = log.end_offset
    assert directory.high_watermark(ORDERS) == lost < 5
    append_many(log, 5)
    disk.crash(survive=everything, names=everything)
    assert open_directory(disk).high_watermark(ORDERS) == lost


def test_a_start_offset_above_a_truncation_is_not_believed_again(disk: SimulatedDisk) -> None:
    """After the power failure the log has grown back over it: it would hide records that were synced."""
    directory = open_directory(disk)
    log = directory.open_log(ORDERS, ID, SMALL, 1000)
    append_many(log, 30)
    log.advance_start(20)
    sync(log)
    directory.checkpoint()
    directory.lower_claims(ORDERS, 10)
    log.truncate_to(10)
    append_many(log, 15)
    sync(log)
    disk.crash()
    log = open_directory(disk).open_log(ORDERS, ID, SMALL, 1000)
    assert (log.start_offset, log.end_offset) == (10, 25)
    assert len(contents(log)) == 15


def test_a_checkpoint_with_a_wrong_bit_is_not_believed(disk: SimulatedDisk) -> None:
    directory = open_directory(disk)
    append_many(directory.open_log(ORDERS, ID, SMALL, 1000), 5)
    assert directory.close({ORDERS: 4})
    for path in ("replication-offset-checkpoint", "recovery-point-offset-checkpoint"):
        assert read_raw(disk, f"data/{path}").splitlines()[2].startswith(b"orders-eu 3 ")
        disk.flip(f"data/{path}", 16, 0)
    again = open_directory(disk)
    assert again.high_watermark(ORDERS) == 0
    assert again.open_log(ORDERS, ID, SMALL, 1000).end_offset == 5


def test_no_flipped_bit_makes_another_topic() -> None:
    topic_id = UUID(int=0x0F5E2A3C9D554F3A8A560C4F2D7A9B10)
    text = checkpoints.encode_topic_id(topic_id)
    for place in range(8 * len(text)):
        flipped = bytearray(text)
        flipped[place // 8] ^= 1 << place % 8
        try:
            assert checkpoints.decode_topic_id(bytes(flipped)) == topic_id
        except CorruptBatch:
            continue


def test_a_topic_id_without_a_checksum_is_believed() -> None:
    """Of an earlier version, or of Kafka."""
    text = b"version: 0\ntopic_id: D14qPJ1VTzqKVgxPLXqbEA\n"
    assert checkpoints.encode_id(checkpoints.decode_topic_id(text)) == "D14qPJ1VTzqKVgxPLXqbEA"


def test_the_line_of_the_checksum_reads_like_a_partition_that_is_gone() -> None:
    """To Kafka, and to versions that knew no checksums, as well as to this one without the check."""
    offsets = checkpoints.encode_offsets({ORDERS: 5}).decode().splitlines()
    topic, partition, offset = offsets[-1].split()
    assert (topic, int(partition)) == ("__checksum", 0)
    assert int(offset) >= 0
    notes = {ORDERS: checkpoints.ReplicaNote(ID, log_confirmed=True)}
    text = checkpoints.encode_replicas(notes)
    topic, partition, topic_id, sure = text.decode().splitlines()[-1].split()
    assert (topic, int(partition), sure) == ("__checksum", 0, "unsure")
    assert UUID(hex=topic_id).int < 1 << 32
    assert checkpoints.decode_replicas(text) == notes
