"""Detects whether the machine was off since the data directory was last used.

A killed process loses nothing that it has written, because the kernel still has it. A machine that loses
power loses everything that was not synced. The broker must know which of the two happened, because a replica
that may have lost acknowledged records must not count as one that has them.

The kernel gives every boot an id. The data directory contains the id of its last use. Until the controllers
know that records may be missing, the file contains ``in doubt`` instead; a clean stop in between does not
restore the records. A missing file counts as ``in doubt``. After a failed sync the file is removed, because
the kernel may drop what it could not write.

The metadata log has a file of its own. It is open, checked and synced before this node votes. The other logs
are checked later, or never: a node that is only a controller does not register.
"""

import contextlib
import errno
import os
import stat
from pathlib import Path

BOOT_FILE = "boot.id"
METADATA_BOOT_FILE = "metadata-boot.id"
IN_DOUBT = "in doubt"
_LARGEST_BYTES = 100  # of one of the files; an id has 36
_KERNEL_FILE = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str | None:
    """The id of this boot; None if the system does not provide one."""
    try:
        return _KERNEL_FILE.read_text().strip() or None
    except OSError:
        return None


def stayed_on(directory: Path) -> bool:
    """Whether the machine has been on since the directory was last used, so that everything written is still
    there. False in case of doubt.
    """
    return _names_this_boot(directory / BOOT_FILE)


def stayed_on_since_metadata(directory: Path) -> bool:
    """Whether the machine has been on since a process checked the metadata log. False in case of doubt."""
    return _names_this_boot(directory / METADATA_BOOT_FILE)


def _names_this_boot(path: Path) -> bool:
    now = boot_id()
    try:
        return now is not None and _read(path) == now
    except (OSError, UnicodeDecodeError):
        return False


def machine_was_off(directory: Path, *, was_clean: bool, is_new: bool) -> bool:
    """Whether unsynced records may be missing since the last use. True in case of doubt: then other replicas
    are trusted first. ``is_new``: the directory was never used before.
    """
    try:
        last = _read(directory / BOOT_FILE)
    except FileNotFoundError:
        if is_new:
            return False
        last = IN_DOUBT  # A used directory had the file, so it was removed.
    except (OSError, UnicodeDecodeError):
        last = ""
    now = boot_id()
    if last == IN_DOUBT:
        _write(directory, IN_DOUBT)
        return True
    if was_clean or (now is not None and last == now):
        return False  # Everything was synced at the end of the last use, or is still in memory.
    _write(directory, IN_DOUBT)
    return True


def note_use(directory: Path) -> None:
    """Record that the directory was used in this boot. Only after the controllers know of the loss: if the
    process ends before that, the next one must report it again. And only after every log was checked:
    otherwise a write that was torn by the power failure would count as damage.
    """
    _write(directory, boot_id() or "")


def note_metadata(directory: Path) -> None:
    """Record that the metadata log was checked and synced in this boot. Before this node votes or
    acknowledges metadata: otherwise damage to what it acknowledges would count as the effect of a power
    failure.
    """
    _write(directory, boot_id() or "", METADATA_BOOT_FILE)


def doubt(directory: Path) -> None:
    """A sync has failed: the kernel may drop what was written, although the machine stays on. The next
    process must act as if the machine had been off.

    Removing a file survives the end of this process without a sync. A sync could fail as well.
    """
    for name in (BOOT_FILE, METADATA_BOOT_FILE):
        with contextlib.suppress(OSError):
            (directory / name).unlink(missing_ok=True)


def _read(path: Path) -> str:
    """Its first bytes. Anything but a file is an ``OSError``: opening a pipe would wait for a writer for
    ever, and reading a device may never end.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        return os.read(descriptor, _LARGEST_BYTES).decode().strip()
    finally:
        os.close(descriptor)


def _write(directory: Path, text: str, name: str = BOOT_FILE) -> None:
    path = directory / name
    temporary = path.with_suffix(".tmp")
    with contextlib.suppress(OSError):
        temporary.unlink(missing_ok=True)
        with temporary.open("x") as file:  # Neither waits at a pipe nor follows a link.
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        # Without its name on disk, a power failure would leave a directory that looks unused.
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
