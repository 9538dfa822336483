"""Reads of segment files for sending: from the page cache, without waiting for the disk.

``preadv2(RWF_NOWAIT)`` tells whether bytes are in memory, without waiting. On systems without it (macOS), a
cold read blocks the loop.
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
    """Fill ``buffer`` from the start of the region. Returns the number of bytes; None if ``wait`` is false
    and the bytes are not in the page cache.
    """
    descriptor = _descriptor(region.file)
    try:
        return os.preadv(descriptor, [buffer], region.position, 0 if wait else _NOWAIT)
    except BlockingIOError:
        return None
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
        # The file system does not support it (for example tmpfs, which never waits).
        return os.preadv(descriptor, [buffer], region.position)


def load(region: Region) -> None:
    """Load the bytes into the page cache; waits for the disk, so call it in a thread."""
    step = 1 << 20
    for position in range(region.position, region.position + region.size, step):
        region.file.read_at(position, min(step, region.position + region.size - position))
