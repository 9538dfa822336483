"""Replaces a run of old segments by one cleaned segment, atomically.

The cleaned files are synced under ``.cleaned``, then renamed to ``.swap``, the log file last: from that
moment on the new segment wins, and a crash in any later step is completed here when the log is reopened.
Before it, the old segments are untouched and the cleaned files are deleted.

If the disk fails a step, the steps before it are undone: the old segments stay readable under their names,
and nothing is left that would win when the log is reopened.
"""

import logging
from collections.abc import Sequence

from tidelog.log import layout
from tidelog.log.scan import headers
from tidelog.log.segment import Segment
from tidelog.log.storage import DirectoryEntry, Storage

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
    end_offset = base_offset
    for _, header in headers(storage.open(swap_path), 0, size):
        end_offset = header.next_offset
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
