"""Whether a process runs Tidelog, and with which words on its command line."""

import os
from pathlib import Path


def is_tidelog(pid: int) -> bool:
    """After a crash a pid file may name a stranger. A process that has ended and was not waited for has no
    command.
    """
    try:
        os.kill(pid, 0)
        command = Path(f"/proc/{pid}/cmdline")
        return b"tidelog" in command.read_bytes() if Path("/proc/self").exists() else True
    except (OSError, OverflowError):
        return False


def has_word(pid: int, word: str) -> bool:
    """Whether its command line has this text; True where the system does not tell."""
    try:
        return word.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return not Path("/proc/self").exists()
