"""A broker's data directory: one sub-directory per partition, and the few files about all of them.

Owns the lock, ``meta.properties``, the clean-shutdown marker, the offset checkpoints, and the life of
partition directories from creation to removal. The content of a partition directory belongs to its log.
Kafka's names and formats throughout.

A checkpoint may lag, but never claims too much: a log that ends below its claim has lost records. So a
truncation lowers the claims first (:meth:`DataDirectory.lower_claims`). Claims about logs that are not open
yet are kept.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import cast
from uuid import UUID

from tidelog.config import TopicConfig
from tidelog.errors import CorruptBatch, StorageError, TidelogError
from tidelog.log import checkpoints, layout
from tidelog.log.files import make_directories, read_whole, remove_tree, replace_whole, write_beside
from tidelog.log.handles import HandleCache
from tidelog.log.log import Log
from tidelog.log.settings import LogSettings
from tidelog.log.storage import Lock, Storage
from tidelog.types import METADATA_TOPIC_ID, TopicPartition

METADATA_PARTITION = TopicPartition("__cluster_metadata", 0)
_DELETE_SUFFIX = "-delete"
_STRAY_SUFFIX = "-stray"
_NAME_BYTES_MAX = 255  # of a directory, on every usual file system
_META_VERSION = "1"
_META_VERSIONS_READ = ("0", "1")
_SYNC_ROUNDS = 2  # The second one syncs the names that the result of the first one allowed.
_SYNCED_AT_ONCE = 64  # Logs; each keeps a few files open meanwhile.

_logger = logging.getLogger(__name__)


RunAll = Callable[[Sequence[Callable[[], None]]], None]


def run_in_turn(jobs: Sequence[Callable[[], None]]) -> None:
    for job in jobs:
        job()


class Checkpoint:
    """The offsets of all logs at one moment, on their way to disk. :meth:`run` touches nothing but files."""

    __slots__ = ("_directory", "_number", "_storage", "_texts", "error", "recovery_points", "superseded")

    def __init__(
        self,
        storage: Storage,
        directory: str,
        number: int,
        recovery_points: dict[TopicPartition, int],
        texts: dict[str, Callable[[], bytes]],
    ) -> None:
        self._storage = storage
        self._directory = directory
        # In the names of its temporary files: an earlier one may still be writing its own. Leftovers of a
        # crash are removed when the directory is opened, so numbers may start again.
        self._number = number
        self._texts = texts
        self.recovery_points = recovery_points
        self.superseded = False  # A newer one was written meanwhile.
        self.error: OSError | None = None

    def run(self) -> None:
        """Write and sync. Safe in any thread; never raises: ``DataDirectory.finish_checkpoint`` does. The
        texts are made here, too: with thousands of logs that takes a while.
        """
        try:
            for name, encode in self._texts.items():
                path = f"{self._directory}/{name}"
                temporary = f"{path}.{self._number}{layout.TEMPORARY_SUFFIX}"
                write_beside(self._storage, temporary, encode()).sync()
                if self.superseded:
                    self._storage.remove(temporary)
                    continue
                self._storage.rename(temporary, path)
            self._storage.sync_directory(self._directory)
        except OSError as error:
            self.error = error


class DataDirectory:
    def __init__(self, storage: Storage, path: str, lock: Lock, handles: HandleCache) -> None:
        self._storage = storage
        self.path = path
        self._lock = lock
        self.handles = handles
        self.logs: dict[TopicPartition, Log] = {}
        # Generated with the directory, in ``meta.properties`` as in Kafka: distinguishes a wiped disk from
        # the old one. None if none was requested.
        self.directory_id: UUID | None = None
        self.was_clean = False  # Whether the last process closed every log: then none is checked.
        self.checked_logs = 0  # How many were checked so far.
        # Whether the machine has been on since the last process used the directory: then everything written
        # is still there. The caller knows.
        self.same_boot = False
        # The same for the metadata log, which is checked before the others.
        self.same_boot_for_metadata = False
        self.is_new = False  # Whether this is the first process that uses it.
        # Whether the log of a replica is confirmed up to its high watermark, for the next process.
        self.is_log_confirmed: Callable[[TopicPartition], bool] = lambda name: False
        self._notes: dict[TopicPartition, checkpoints.ReplicaNote] = {}
        # Whether logs were opened that the checkpoints do not name: their loss would go unnoticed.
        self.has_new_logs = False
        self._notes_found: dict[TopicPartition, checkpoints.ReplicaNote] = {}  # By the last process.
        # The topics of these logs are unknown: they are taken for the current ones. A log that is missed by
        # mistake is only copied again.
        self._unnoted: set[TopicPartition] = set()
        self._topic_ids: dict[TopicPartition, UUID] = {}
        self._recovery_points: dict[TopicPartition, int] = {}
        self._start_offsets: dict[TopicPartition, int] = {}
        self._high_watermarks: dict[TopicPartition, int] = {}
        self._on_disk: set[TopicPartition] = set()  # The partitions in the checkpoint files.
        self._in_flight: Checkpoint | None = None
        self._checkpoints = 0  # begun so far
        self._lowered: dict[TopicPartition, int] = {}  # Logs that are about to be truncated, and where.
        self._opened: set[TopicPartition] = set()  # By this process: no longer as the last one left them.
        self._wanted: set[TopicPartition] = set()  # Their topics exist; some may fail to open.
        self._doomed: list[tuple[int, str]] = []  # (when to remove, directory)

    @classmethod
    def open(
        cls, storage: Storage, path: str, *, node_id: int, cluster_id: str | None = None, now_ms: int,
        handles_max: int = 1024, new_id: Callable[[], UUID] | None = None,
    ) -> "DataDirectory":  # fmt: skip
        """Lock the directory and read the files about all logs; the logs are opened one by one."""
        try:
            make_directories(storage, path)
            lock = storage.lock(f"{path}/{checkpoints.LOCK_FILE}")
        except BlockingIOError:
            raise StorageError(f"{path} is in use by another broker") from None
        except OSError as error:
            raise StorageError(f"cannot use {path}: {error}") from error
        directory = cls(storage, path, lock, HandleCache(handles_max))
        try:
            directory._load(node_id, cluster_id, now_ms, new_id)
        except OSError as error:
            lock.release()
            raise StorageError(f"cannot read {path}: {error}") from error
        except TidelogError:
            lock.release()
            raise
        return directory

    def _load(
        self, node_id: int, cluster_id: str | None, now_ms: int, new_id: Callable[[], UUID] | None
    ) -> None:
        self._check_identity(node_id, cluster_id, new_id)
        marker = f"{self.path}/{checkpoints.CLEAN_SHUTDOWN_FILE}"
        self.was_clean = self._storage.exists(marker)
        if self.was_clean:
            # Removed before the first write, or a crash of this process would look like a clean shutdown.
            self._storage.remove(marker)
            self._storage.sync_directory(self.path)
        self._recovery_points = self._read_offsets(checkpoints.RECOVERY_POINTS_FILE)
        self._start_offsets = self._read_offsets(checkpoints.START_OFFSETS_FILE)
        self._high_watermarks = self._read_offsets(checkpoints.HIGH_WATERMARKS_FILE)
        self._on_disk = set(self._recovery_points) | set(self._start_offsets)
        notes = self._read_notes()
        self._notes = notes or {}
        self._notes_found = dict(self._notes)
        self._unnoted = set(self._on_disk) if notes is None else set()
        for entry in self._storage.list(self.path):
            path = f"{self.path}/{entry.name}"
            if entry.is_directory and entry.name.endswith(_DELETE_SUFFIX):
                self._doomed.append((now_ms, path))
            elif entry.name.endswith(layout.TEMPORARY_SUFFIX) and not entry.is_directory:
                self._storage.remove(path)

    def _check_identity(
        self, node_id: int, cluster_id: str | None, new_id: Callable[[], UUID] | None
    ) -> None:
        """A directory of another broker or cluster must not be served as this one's."""
        text = read_whole(self._storage, f"{self.path}/{checkpoints.META_PROPERTIES_FILE}")
        self.is_new = text is None
        found = checkpoints.decode_properties(text or b"")
        if (version := found.get("version", _META_VERSION)) not in _META_VERSIONS_READ:
            raise StorageError(
                f"{self.path} has format {version}; this version of Tidelog reads "
                f"{' and '.join(_META_VERSIONS_READ)} only"
            )
        if found.get("node.id", str(node_id)) != str(node_id):
            raise StorageError(f"{self.path} belongs to broker {found['node.id']}, this is {node_id}")
        known = found.get("cluster.id")
        if known and cluster_id and known != cluster_id:
            raise StorageError(f"{self.path} belongs to cluster {known}, this is {cluster_id}")
        wanted = {**found, "version": _META_VERSION, "node.id": str(node_id)}
        if cluster_id or known:
            wanted["cluster.id"] = known or cluster_id or ""
        if new_id is not None and "directory.id" not in wanted:
            wanted["directory.id"] = checkpoints.encode_id(new_id())
        if wanted != found:
            self._write_properties(wanted)
        if "directory.id" in wanted:
            try:
                self.directory_id = checkpoints.decode_id(wanted["directory.id"])
            except ValueError:
                raise StorageError(
                    f"{self.path}: directory.id={wanted['directory.id']} is not a valid id"
                ) from None

    def _write_properties(self, values: dict[str, str]) -> None:
        path = f"{self.path}/{checkpoints.META_PROPERTIES_FILE}"
        replace_whole(self._storage, path, checkpoints.encode_properties(values))
        self._storage.sync_directory(self.path)

    @property
    def cluster_id(self) -> str | None:
        text = read_whole(self._storage, f"{self.path}/{checkpoints.META_PROPERTIES_FILE}")
        return checkpoints.decode_properties(text or b"").get("cluster.id")

    def join_cluster(self, cluster_id: str) -> None:
        """Record the cluster this directory belongs to, once that is known."""
        text = read_whole(self._storage, f"{self.path}/{checkpoints.META_PROPERTIES_FILE}")
        values = checkpoints.decode_properties(text or b"")
        if values.get("cluster.id") != cluster_id:
            self._write_properties({**values, "cluster.id": cluster_id})

    def _read_offsets(self, name: str) -> dict[TopicPartition, int]:
        text = read_whole(self._storage, f"{self.path}/{name}")
        if text is None:
            return {}
        try:
            return checkpoints.decode_offsets(text)
        except CorruptBatch as error:
            # Without recovery points every log is checked from its start, which takes time and loses nothing.
            _logger.warning("%s/%s: %s", self.path, name, error.message)
            return {}

    def _read_notes(self) -> dict[TopicPartition, checkpoints.ReplicaNote] | None:
        """None if they are missing."""
        text = read_whole(self._storage, f"{self.path}/{checkpoints.REPLICAS_FILE}")
        try:
            return None if text is None else checkpoints.decode_replicas(text)
        except CorruptBatch as error:
            _logger.warning("%s/%s: %s", self.path, checkpoints.REPLICAS_FILE, error.message)
            return None

    # -- logs --------------------------------------------------------------------------

    def has_log(self, name: TopicPartition, topic_id: UUID) -> bool:
        """Whether the partition's directory exists. Raises StorageError."""
        directory = f"{self.path}/{name}"
        try:
            there = self._storage.exists(directory)
            return there and self._read_topic_id(directory) in (None, topic_id)
        except OSError as error:
            raise StorageError(f"cannot check for {directory}: {error}") from error

    def open_log(self, name: TopicPartition, topic_id: UUID, config: LogSettings, now_ms: int) -> Log:
        """Open the log of a partition, or create it. Raises StorageError."""
        self._wanted.add(name)
        directory = f"{self.path}/{name}"
        try:
            known = self._storage.exists(directory)
            known_id = self._read_topic_id(directory) if known else None
            # If the id is unreadable, the checkpoints tell it; otherwise the name has to do.
            note = self._notes.get(name) if known and known_id is None else None
            other_id = known_id if note is None else note.topic_id
            if other_id is not None and other_id != topic_id:
                # Its entries in the checkpoints stay, unless they also name another topic: if they name this
                # one, the id in the directory is damaged, and its records count as missing from here on.
                self._set_aside(name, other_id)
                known, known_id = False, None
            if self._speak_of_another(name, topic_id, known=known):
                # The checkpoints still name a deleted partition of this name. After a crash they would hide
                # the beginning of the new one.
                self._forget_claims(name)
                self.checkpoint()
            clean = self.was_clean and name not in self._opened
            same_boot = self.same_boot or (name == METADATA_PARTITION and self.same_boot_for_metadata)
            log = Log.open(
                self._storage, directory, config, clean=clean,
                recovery_point=self._recovery_points.get(name, 0),
                log_start_offset=self._start_offsets.get(name, 0), now_ms=now_ms, handles=self.handles,
                high_watermark=self._high_watermarks.get(name, 0), same_boot=same_boot,
                existed=name in self._notes or name in self._unnoted,
            )  # fmt: skip
            self.checked_logs += known and not clean
            if known_id is None:
                path = f"{directory}/{layout.PARTITION_METADATA_FILE}"
                write_beside(self._storage, path, checkpoints.encode_topic_id(topic_id))
                log.sync_with(path)
        except OSError as error:
            raise StorageError(f"cannot open {directory}: {error}") from error
        self.logs[name] = log
        self.has_new_logs |= name not in self._notes
        self._opened.add(name)
        self._topic_ids[name] = topic_id
        # A power failure may have truncated it. If it was more than that, the log itself has recorded it.
        self.lower_claims(name, log.end_offset)
        return log

    def _speak_of_another(self, name: TopicPartition, topic_id: UUID, *, known: bool) -> bool:
        """Whether the checkpoints mean a deleted partition of this name. ``known``: the directory exists."""
        note = self._notes.get(name)
        if note is not None:
            return note.topic_id != topic_id
        return not known and name in self._on_disk and name not in self._unnoted

    def _forget_claims(self, name: TopicPartition) -> None:
        self._drop_claims(name)
        self._notes_found.pop(name, None)
        self._unnoted.discard(name)

    def _drop_claims(self, name: TopicPartition) -> None:
        for claims in (self._recovery_points, self._start_offsets, self._high_watermarks, self._notes):
            cast("dict[TopicPartition, object]", claims).pop(name, None)

    def open_metadata_log(self, now_ms: int) -> Log:
        """The log of the cluster's metadata: kept for ever, synced by its writer."""
        config = TopicConfig(retention_ms=-1, retention_bytes=-1)
        return self.open_log(METADATA_PARTITION, METADATA_TOPIC_ID, config, now_ms)

    def _read_topic_id(self, directory: str) -> UUID | None:
        text = read_whole(self._storage, f"{directory}/{layout.PARTITION_METADATA_FILE}")
        try:
            return checkpoints.decode_topic_id(text) if text is not None else None
        except CorruptBatch:
            return None  # Torn by a crash soon after the partition was created, or damaged.

    def _set_aside(self, name: TopicPartition, topic_id: UUID) -> None:
        """Left by a deleted topic of the same name: neither served nor deleted."""
        target = self._free_name(name, topic_id, _STRAY_SUFFIX)
        _logger.warning(
            "%s belongs to another topic than the current one (%s): moved to %s", name, topic_id, target
        )
        self._storage.rename(f"{self.path}/{name}", target)

    def forget_strays(self) -> list[str]:
        """Set aside directories of partitions whose topics are gone; returns their new names."""
        moved = []
        try:
            for entry in self._storage.list(self.path):
                name = _partition_of(entry.name)
                if not entry.is_directory or name is None or name in self._wanted:
                    continue
                self._set_aside(name, self._read_topic_id(f"{self.path}/{name}") or UUID(int=0))
                self._forget_claims(name)
                moved.append(entry.name)
            for name in self._claimed() - self._wanted:
                self._forget_claims(name)
        except OSError as error:
            raise StorageError(f"cannot set aside what is left in {self.path}: {error}") from error
        return moved

    def high_watermark(self, name: TopicPartition) -> int:
        """As of the last checkpoint; 0 if unknown."""
        return self._high_watermarks.get(name, 0)

    def was_log_confirmed(self, name: TopicPartition) -> bool:
        """Whether the log was confirmed up to that high watermark, and is unchanged since."""
        note = self._notes_found.get(name)
        return note is not None and note.log_confirmed and self.written_survives

    @property
    def written_survives(self) -> bool:
        """Whether everything that the last process wrote is still there."""
        return self.same_boot or self.was_clean

    def lower_claims(self, name: TopicPartition, offset: int) -> None:
        """The log is about to be truncated there. A high watermark beyond would be trusted again once the log
        has grown over it, a start offset beyond would hide new records, and a recovery point beyond would
        count as damage. Waits for the disk, but rarely: records that were synced a while ago are truncated
        only if leaders disagree. Raises StorageError.
        """
        log = self.logs.get(name)
        if log is None:
            return
        end_offset = log.end_if_truncated(offset)
        watermark = self._high_watermarks.get(name, 0)
        start_offset = self._start_offsets.get(name, 0)
        if max(watermark, start_offset, log.checkpointed_recovery_point) > end_offset:
            self._lowered[name] = end_offset
            self.checkpoint({**self._high_watermarks, name: min(watermark, end_offset)})
            del self._lowered[name]

    def usage(self) -> tuple[int, int]:
        """(total bytes, free bytes) of the volume."""
        try:
            return self._storage.usage(self.path)
        except OSError as error:
            raise StorageError(f"cannot read the free space of {self.path}: {error}") from error

    # -- removal -----------------------------------------------------------------------

    def remove_log(self, name: TopicPartition, now_ms: int) -> None:
        """Take a partition's log out of service now, and remove its files after ``file.delete.delay.ms``."""
        log = self.logs.pop(name)
        self._wanted.discard(name)
        log.abandon()
        topic_id = self._topic_ids.pop(name)
        self._forget_claims(name)
        try:
            target = self._free_name(name, topic_id, _DELETE_SUFFIX)
            self._storage.rename(log.directory, target)
        except OSError as error:
            raise StorageError(f"cannot delete {log.directory}: {error}") from error
        self._doomed.append((now_ms + log.config.file_delete_delay_ms, target))

    def _free_name(self, name: TopicPartition, topic_id: UUID, suffix: str) -> str:
        """Where a log goes that is out of use. The next topic of its name may be deleted before it is gone,
        and so may the next log of the same topic: a replica can return and be removed again. Under its old
        name the log would be reopened when the replica returns, with records that are deleted by then.

        A long name of a topic is cut: with the id and the suffix, the file system would refuse it.
        """
        number = 1
        while True:
            count = f".{number}" if number > 1 else ""
            end = f".{topic_id.hex}{count}{suffix}"
            target = f"{self.path}/{str(name)[: _NAME_BYTES_MAX - len(end)]}{end}"
            if not self._storage.exists(target):
                return target
            number += 1

    def take_doomed(self, now_ms: int) -> list[str]:
        """Directories of deleted partitions whose delay has expired, for :meth:`remove_trees`."""
        due = [path for due_ms, path in self._doomed if due_ms <= now_ms]
        if due:
            self._doomed = [each for each in self._doomed if each[0] > now_ms]
        return due

    def remove_trees(self, paths: Sequence[str]) -> None:
        """Remove directories from :meth:`take_doomed`. Touches nothing but files: safe in any thread."""
        for path in paths:
            try:
                remove_tree(self._storage, path)
            except OSError as error:
                _logger.error("cannot remove %s: %s", path, error)

    def remove_doomed(self, now_ms: int) -> int:
        """Remove deleted partitions whose delay has expired, synchronously; returns how many are left."""
        self.remove_trees(self.take_doomed(now_ms))
        return len(self._doomed)

    # -- checkpoints -------------------------------------------------------------------

    def begin_checkpoint(self, high_watermarks: Mapping[TopicPartition, int] | None = None) -> Checkpoint:
        """Capture the offsets of all logs as they are now; ``run`` it in a thread, then finish it."""
        self.has_new_logs = False
        self.capture(self.logs, high_watermarks)
        return self.captured()

    def capture(
        self, names: Iterable[TopicPartition], high_watermarks: Mapping[TopicPartition, int] | None = None
    ) -> None:
        """Take the offsets of these logs as they are now for the next checkpoint. From here on they are
        claims: a truncation below them writes a checkpoint first (:meth:`lower_claims`), which captures them
        again. So thousands of logs can be captured in several turns.
        """
        for name in names:
            log = self.logs.get(name)
            if log is None:
                continue
            lowered = self._lowered.get(name)
            start_offset, point = log.start_offset, log.recovery_point
            if lowered is not None:
                start_offset, point = min(start_offset, lowered), min(point, lowered)
            if start_offset > log.segments[0].base_offset:
                self._start_offsets[name] = start_offset
            else:
                self._start_offsets.pop(name, None)
            self._recovery_points[name] = point
            # Until the checkpoint is written, the file may hold the old offset or the new one.
            log.checkpointed_recovery_point = max(log.checkpointed_recovery_point, point)
            self._notes[name] = checkpoints.ReplicaNote(self._topic_ids[name], self.is_log_confirmed(name))
        if high_watermarks is not None:
            self._high_watermarks.update(high_watermarks)

    def captured(self) -> Checkpoint:
        """A checkpoint of what was captured, and of the logs that are not open yet."""
        self.capture(self.logs.keys() - self._recovery_points.keys())
        for name in self._claimed() - self.logs.keys():
            if name in self._opened:
                self._drop_claims(name)
        recovery_points = self._recovery_points.copy()
        encode_offsets = checkpoints.encode_offsets
        texts: dict[str, Callable[[], bytes]] = {
            # First: without it, offsets of a log whose directory is gone would belong to a deleted topic.
            checkpoints.REPLICAS_FILE: partial(checkpoints.encode_replicas, self._notes.copy()),
            checkpoints.RECOVERY_POINTS_FILE: partial(encode_offsets, recovery_points),
            checkpoints.START_OFFSETS_FILE: partial(encode_offsets, self._start_offsets.copy()),
            checkpoints.HIGH_WATERMARKS_FILE: partial(encode_offsets, self._high_watermarks.copy()),
        }
        if self._in_flight is not None:
            self._in_flight.superseded = True
        self._on_disk |= recovery_points.keys()
        self._checkpoints += 1
        self._in_flight = Checkpoint(self._storage, self.path, self._checkpoints, recovery_points, texts)
        return self._in_flight

    def _claimed(self) -> set[TopicPartition]:
        """The partitions in the checkpoints."""
        return {*self._recovery_points, *self._start_offsets, *self._high_watermarks, *self._notes}

    def finish_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Raises StorageError if the checkpoint could not be written."""
        if checkpoint.error is not None:
            raise StorageError(f"cannot write in {self.path}: {checkpoint.error}") from checkpoint.error
        if checkpoint.superseded:
            # It may have replaced the newer one at the last moment.
            self.checkpoint()
            return
        self._in_flight = None
        self._on_disk = set(checkpoint.recovery_points)
        for name, point in checkpoint.recovery_points.items():
            log = self.logs.get(name)
            if log is not None:
                # A higher one may be captured for the next checkpoint.
                log.checkpointed_recovery_point = max(point, self._recovery_points.get(name, point))

    def checkpoint(self, high_watermarks: Mapping[TopicPartition, int] | None = None) -> None:
        """All of it synchronously: waits for the disk."""
        checkpoint = self.begin_checkpoint(high_watermarks)
        checkpoint.run()
        self.finish_checkpoint(checkpoint)

    def close(
        self, high_watermarks: Mapping[TopicPartition, int] | None = None, broker_epoch: int = -1,
        run_all: RunAll = run_in_turn,
    ) -> bool:  # fmt: skip
        """Close every log and record that on disk, so that the next start checks nothing. False if a log had
        failed or the disk fails now: then it will check.

        ``run_all`` runs the syncs; in many threads a thousand logs close in about the time of ten.
        """
        for log in self.logs.values():
            log.begin_close()
        for _ in range(_SYNC_ROUNDS):
            self._sync_all(run_all)
        clean = not [name for name, log in self.logs.items() if not log.close()]
        try:
            self.checkpoint(high_watermarks)
            clean = clean and self._is_checked()
            if clean:
                path = f"{self.path}/{checkpoints.CLEAN_SHUTDOWN_FILE}"
                replace_whole(self._storage, path, checkpoints.encode_clean_shutdown(broker_epoch))
                self._storage.sync_directory(self.path)
        except (OSError, StorageError) as error:
            _logger.error("%s was not closed cleanly: %s", self.path, error)
            clean = False
        self._lock.release()
        return clean

    def _is_checked(self) -> bool:
        """Whether no log is still as an unclean stop left it: a process that ends before it has opened all of
        them, or cannot open one, must not vouch for the rest. May raise ``OSError``.
        """
        entries = self._storage.list(self.path)
        names = (_partition_of(entry.name) for entry in entries if entry.is_directory)
        return self.was_clean or all(name is None or name in self._opened for name in names)

    def _sync_all(self, run_all: RunAll) -> None:
        unsynced = [log for log in self.logs.values() if log.needs_sync]
        for start in range(0, len(unsynced), _SYNCED_AT_ONCE):
            tickets = []
            for log in unsynced[start : start + _SYNCED_AT_ONCE]:
                with suppress(StorageError):  # The log remembers, or its own closing tries again.
                    tickets.append((log, log.begin_sync()))
            run_all([ticket.run for _, ticket in tickets])
            for log, ticket in tickets:
                with suppress(StorageError):
                    log.finish_sync(ticket, 0)


def _partition_of(directory_name: str) -> TopicPartition | None:
    """The partition that a directory name stands for."""
    topic, separator, number = directory_name.rpartition("-")
    if separator and topic and number.isascii() and number.isdigit():
        return TopicPartition(topic, int(number))
    return None
