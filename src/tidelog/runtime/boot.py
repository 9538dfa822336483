"""Has the machine been off since this data directory was last in use?

A process that is killed loses nothing it has written: the kernel still holds it. A machine that loses power
loses whatever was not synced. The broker must know which of the two happened, because a replica that may have
forgotten acknowledged records must not count as one that holds them. The kernel gives every start of the
machine an id; the one of the last use lies in the data directory.
"""

import contextlib
import os
from pathlib import Path

BOOT_FILE = "boot.id"
_KERNEL_FILE = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str | None:
    """Of this start of the machine; None where the system does not tell."""
    try:
        return _KERNEL_FILE.read_text().strip() or None
    except OSError:
        return None


def machine_was_off(directory: Path, *, was_clean: bool) -> bool:
    """Whether unsynced records may be missing since the last use; notes this use. Call it once per start.

    In doubt, yes: then others are trusted first.
    """
    path = directory / BOOT_FILE
    now = boot_id()
    try:
        last: str | None = path.read_text().strip()
    except FileNotFoundError:
        last = None
    except OSError:
        last = ""
    if now is not None and last != now:
        temporary = path.with_suffix(".tmp")
        with contextlib.suppress(OSError), temporary.open("w") as file:
            file.write(now)
            file.flush()
            os.fsync(file.fileno())
            temporary.replace(path)
    if was_clean or last is None:
        return False  # Everything was synced at the end of the last use, or there was none.
    return now is None or last != now
