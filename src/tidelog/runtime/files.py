"""Segment files on their way to a socket: from the page cache without a copy, never waiting for the disk.

Whether bytes are in memory is asked with ``preadv2(RWF_NOWAIT)``, which answers instead of waiting. Where the
system has no such call (macOS), everything counts as cached and a cold read holds the loop.
"""

import errno
import os

from tidelog.log.storage import File, Region
from tidelog.runtime.disk import DiskFile

SAMPLE_EVERY_BYTES = 128 * 1024  # the kernel reads ahead in such steps, so one page stands for its neighbours
_NOWAIT = getattr(os, "RWF_NOWAIT", None)
_UNSUPPORTED = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)


def _descriptor(file: File) -> int:
    if not isinstance(file, DiskFile):
        raise TypeError(f"{file!r} is not a file of this system")
    return file.fileno()


def read_cached(region: Region) -> bytes | bytearray | None:
    """The bytes, or None when reading them would wait for the disk."""
    if _NOWAIT is None:
        return region.read()
    buffer = bytearray(region.size)
    try:
        count = os.preadv(_descriptor(region.file), [buffer], region.position, _NOWAIT)
    except BlockingIOError:
        return None
    except OSError as error:
        return region.read() if error.errno in _UNSUPPORTED else None
    return buffer if count == region.size else None


def is_cached(region: Region) -> bool:
    if _NOWAIT is None:
        return True
    fd = _descriptor(region.file)
    probe = bytearray(1)
    last = region.position + region.size - 1
    try:
        for position in range(region.position, last, SAMPLE_EVERY_BYTES):
            os.preadv(fd, [probe], position, _NOWAIT)
        os.preadv(fd, [probe], last, _NOWAIT)
    except BlockingIOError:
        return False
    except OSError as error:
        # This file system cannot tell (tmpfs, for one): then nobody waits. Any other error shows when it is
        # sent.
        return error.errno in _UNSUPPORTED
    return True


def load(region: Region) -> None:
    """Bring the bytes into the page cache; waits for the disk, so call it in a thread."""
    step = 1 << 20
    for position in range(region.position, region.position + region.size, step):
        region.file.read_at(position, min(step, region.position + region.size - position))


def send(socket_descriptor: int, file: File, position: int, size: int) -> int:
    """``sendfile``: how many bytes the socket took; BlockingIOError when it took none."""
    return os.sendfile(socket_descriptor, _descriptor(file), position, size)
