"""Replicas in the directories of brokers, read from their segment files.

Directories have everything, also what is not committed yet; the high watermark is the broker's last
checkpoint. Where the log starts is the name of its first segment, or a ``.start`` mark beside it.
"""

import mmap
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tidelog.errors import CorruptBatch
from tidelog.log.checkpoints import HIGH_WATERMARKS_FILE, START_OFFSETS_FILE, decode_offsets
from tidelog.log.layout import START_SUFFIX
from tidelog.spark.options import OptionError
from tidelog.spark.pipelines.audit.replicas import Bytes, Replica, Unreadable
from tidelog.types import TopicPartition

_PARTITION_DIRECTORY = re.compile(r"(.+)-(\d+)")
_SEGMENT = re.compile(r"(\d+)\.log")
_START_MARK = re.compile(r"(\d+)" + re.escape(START_SUFFIX))


@dataclass(frozen=True, slots=True)
class Segments:
    directory: str

    def read(self, offset: int) -> Iterator[Bytes]:
        segments = sorted(Path(self.directory).glob("*.log"))
        for number, path in enumerate(segments):
            yield Bytes(path.name, _content(path), number == len(segments) - 1)


def _content(path: Path) -> memoryview:
    """Mapped, not copied: a segment may be larger than the memory of a task."""
    try:
        with path.open("rb") as file:
            if path.stat().st_size == 0:
                return memoryview(b"")
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except OSError as error:
        raise Unreadable(f"{path} cannot be read ({(error.strerror or str(error)).lower()})") from None


def in_directories(directories: list[str], topics: list[str]) -> list[Replica]:
    """Replicas under broker directories (``DIR/broker-1`` of ``tidelog up``, or Kafka's log directories)."""
    found = [replica for directory in directories for replica in _in_directory(Path(directory), topics)]
    if not found:
        raise OptionError(f"There is no partition of {', '.join(topics)} in {', '.join(directories)}.")
    return found


def _in_directory(directory: Path, topics: list[str]) -> Iterator[Replica]:
    data = directory / "data" if (directory / "data").is_dir() else directory
    if not data.is_dir():
        raise OptionError(f"There is no directory {directory}.")
    try:
        paths = sorted(data.iterdir())
    except PermissionError:
        raise OptionError(f"The directory {data} may not be read by this user.") from None
    watermarks = _offsets(data / HIGH_WATERMARKS_FILE)
    starts = _offsets(data / START_OFFSETS_FILE)
    for path in paths:
        match = _PARTITION_DIRECTORY.fullmatch(path.name)
        if path.is_dir() and match is not None and match[1] in topics:
            place = TopicPartition(match[1], int(match[2]))
            start = max(_start_offset(path), starts.get(place, 0))
            yield Replica(directory.name, *place, start, watermarks.get(place, -1), Segments(str(path)))


def _start_offset(directory: Path) -> int:
    names = [path.name for path in directory.iterdir()]
    segments = [int(found[1]) for name in names if (found := _SEGMENT.fullmatch(name))]
    marks = [int(found[1]) for name in names if (found := _START_MARK.fullmatch(name))]
    return max([min(segments, default=0), *marks])


def _offsets(path: Path) -> Mapping[TopicPartition, int]:
    try:
        return decode_offsets(path.read_bytes())
    except (OSError, CorruptBatch):
        return {}
