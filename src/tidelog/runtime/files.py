"""Segment files on their way to a socket: from the page cache, never waiting for the disk.

Whether bytes are in memory is asked with ``preadv2(RWF_NOWAIT)``, which answers instead of waiting. Where the
system has no such call (macOS), a cold read holds the loop.
"""

import errno
import os

from tidelog.log.storage import File, Region
from tidelog.runtime.disk import DiskFile

_NOWAIT: int = getattr(os, "RWF_NOWAIT", 0)
_UNSUPPORTED = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)


def _descriptor(file: File) -> int:
    if not isinstance(file, DiskFile):
        raise TypeError(f"{file!r} is not a file of this system")
    return file.fileno()


def read_into(buffer: memoryview, region: Region, *, wait: bool) -> int | None:
    """Fill ``buffer`` from the region's start; how many bytes that gave, or None where it would have to wait
    for the
    disk and may not."""
    descriptor = _descriptor(region.file)
    try:
        return os.preadv(descriptor, [buffer], region.position, 0 if wait else _NOWAIT)
    except BlockingIOError:
        return None
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
        # This file system cannot tell (tmpfs, for one): then nobody waits.
        return os.preadv(descriptor, [buffer], region.position)


def load(region: Region) -> None:
    """Bring the bytes into the page cache; waits for the disk, so call it in a thread."""
    step = 1 << 20
    for position in range(region.position, region.position + region.size, step):
        region.file.read_at(position, min(step, region.position + region.size - position))
