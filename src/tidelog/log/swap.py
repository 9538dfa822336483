"""Replaces a run of old segments by one cleaned segment, atomically.

The cleaned files are synced under ``.cleaned``, then renamed to ``.swap``, the log file last: from that
moment on the new segment wins, and a crash in any later step is completed here when the log is reopened.
Before it, the old segments are untouched and the cleaned files are deleted.

If the disk fails a step, the steps before it are undone: the old segments stay readable under their names,
and nothing is left that would win when the log is reopened.
"""

import logging
from collections.abc import Collection, Sequence

from tidelog.errors import CorruptBatch, StorageError
from tidelog.log import layout
from tidelog.log.scan import headers
from tidelog.log.segment import Segment
from tidelog.log.storage import DirectoryEntry, File, Storage
from tidelog.protocol import batch as batches

_logger = logging.getLogger(__name__)


def swap_in(old: Sequence[Segment], new: Segment) -> None:
    """Rename ``new`` (synced, ``.cleaned``) into the place of ``old``, whose files become ``.deleted``."""
    try:
        new.rename(layout.SWAP_SUFFIX)
        for segment in old:
            segment.rename(layout.DELETED_SUFFIX)
        new.rename("")
    except OSError:
        _take_back(old, new)
        raise


def _take_back(old: Sequence[Segment], new: Segment) -> None:
    """A crash in here is completed forward: the new log file is renamed back last."""
    try:
        new.rename_indexes(layout.SWAP_SUFFIX)  # Out of the way of the old ones.
        for segment in old:
            segment.rename("")
        new.rename(layout.CLEANED_SUFFIX)
    except OSError as error:
        # Each segment knows the current names of its files, so reads continue.
        _logger.error("%s stays half replaced until the log is reopened: %s", old[0], error)


def finish_interrupted(storage: Storage, directory: str, entries: Sequence[DirectoryEntry]) -> bool:
    """Complete or undo what a crash interrupted; True if names changed and must be listed again."""
    names = {entry.name for entry in entries}
    changed = False
    for entry in entries:
        base_offset = layout.base_offset_of(entry.name, layout.LOG_SUFFIX + layout.SWAP_SUFFIX)
        if base_offset is not None:
            _finish_swap(storage, directory, base_offset, entry.size, names)
            changed = True
    for name in names:
        if name.endswith(
            (layout.CLEANED_SUFFIX, layout.SWAP_SUFFIX, layout.DELETED_SUFFIX, layout.TEMPORARY_SUFFIX)
        ):
            storage.remove(f"{directory}/{name}")
            changed = True
    return changed


def _finish_swap(storage: Storage, directory: str, base_offset: int, size: int, names: set[str]) -> None:
    path = layout.segment_path(directory, base_offset)
    swap_path = path + layout.LOG_SUFFIX + layout.SWAP_SUFFIX
    try:
        end_offset = _end_of(storage.open(swap_path), base_offset, size, names)
    except CorruptBatch as damage:
        if not _is_untouched(base_offset, names):
            # Nothing is removed: the original segments are still there.
            raise StorageError(f"{swap_path} is damaged: {damage.message}") from damage
        _logger.error("discarding %s, which is damaged: %s", swap_path, damage.message)
        storage.remove(swap_path)
        names.discard(swap_path.removeprefix(f"{directory}/"))
        return
    _logger.warning(
        "finishing an interrupted compaction of offsets %d to %d in %s", base_offset, end_offset, directory
    )
    for name in sorted(names):
        original = layout.base_offset_of(name, layout.LOG_SUFFIX)
        # An original after the last remaining batch may stay: compaction will process it again.
        if original is not None and base_offset < original < end_offset:
            for kind in reversed(layout.SEGMENT_SUFFIXES):
                storage.remove(layout.segment_path(directory, original) + kind)
    for kind in layout.SEGMENT_SUFFIXES:
        swap_name = f"{layout.segment_path('', base_offset)[1:]}{kind}{layout.SWAP_SUFFIX}"
        # If it is missing it already has its final name: the log file is renamed last.
        if swap_name in names:
            storage.rename(f"{directory}/{swap_name}", path + kind)
            names.discard(swap_name)


def _end_of(file: File, base_offset: int, size: int, names: Collection[str]) -> int:
    """The exclusive end offset of a segment that was synced before it got its name: any wrong byte is damage.
    Its offsets decide which segments are removed, and no checksum covers them. So it must end where another
    segment begins: the active one is never compacted.
    """
    end_offset = base_offset
    for position, header in headers(file, 0, size, base_offset):
        batches.check(file.read_at(position, header.size))
        end_offset = header.next_offset
    following = layout.segment_path("", end_offset)[1:] + layout.LOG_SUFFIX
    if end_offset == base_offset or following not in names:
        raise CorruptBatch(f"no segment begins at its end, {end_offset}")
    return end_offset


def _is_untouched(base_offset: int, names: Collection[str]) -> bool:
    """Whether no original segment has left its place yet: they do so from the oldest on."""
    original = layout.segment_path("", base_offset)[1:] + layout.LOG_SUFFIX
    removed = (layout.base_offset_of(name, layout.LOG_SUFFIX + layout.DELETED_SUFFIX) for name in names)
    return original in names and not any(each is not None and each > base_offset for each in removed)
