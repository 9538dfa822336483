"""Has the machine been off since this data directory was last in use?

A killed process loses nothing it has written: the kernel still holds it. A machine that loses power loses
what was not synced. The broker must know which of the two happened, because a replica that may have lost
acknowledged records must not count as one that holds them. The kernel gives every boot an id; that of the
last use is in the data directory. Until the controllers know that records may be missing, the file says so
instead: a clean stop in between does not restore anything. If the file itself is missing, it may have said
so. After a failed sync it is removed, because the kernel may drop what it could not write.
"""

import contextlib
import os
from pathlib import Path

BOOT_FILE = "boot.id"
IN_DOUBT = "in doubt"
_KERNEL_FILE = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str | None:
    """Of this boot; None if the system does not provide it."""
    try:
        return _KERNEL_FILE.read_text().strip() or None
    except OSError:
        return None


def stayed_on(directory: Path) -> bool:
    """Whether the machine has been on since the directory was last in use: everything written is still there.
    In doubt, no.
    """
    now = boot_id()
    try:
        return now is not None and (directory / BOOT_FILE).read_text().strip() == now
    except (OSError, UnicodeDecodeError):
        return False


def machine_was_off(directory: Path, *, was_clean: bool, is_new: bool) -> bool:
    """Whether unsynced records may be missing since the last use. In doubt, yes: then other replicas are
    trusted first. ``is_new``: the directory was never used before.
    """
    try:
        last = (directory / BOOT_FILE).read_text().strip()
    except FileNotFoundError:
        if is_new:
            return False
        last = IN_DOUBT  # It existed as soon as the directory held anything, and was removed.
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
    """Record that the directory was used in this boot. Only once the controllers know of the loss: a process
    that dies before must report it again. And only once every log was checked: otherwise a write that the
    power failure tore would count as damage.
    """
    _write(directory, boot_id() or "")


def doubt(directory: Path) -> None:
    """A sync has failed: the kernel may drop what was written, although the machine stays on. For the next
    process it is as if the machine had been off.

    Only a name is removed: that survives the end of this process without a sync, which could fail as well.
    """
    with contextlib.suppress(OSError):
        (directory / BOOT_FILE).unlink(missing_ok=True)


def _write(directory: Path, text: str) -> None:
    path = directory / BOOT_FILE
    temporary = path.with_suffix(".tmp")
    with contextlib.suppress(OSError):
        with temporary.open("w") as file:
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
