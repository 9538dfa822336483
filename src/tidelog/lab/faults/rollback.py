"""Power failure: rolls the files of a dead broker back to what was synced.

The broker's disk layer has kept a journal (:mod:`tidelog.runtime.hooks.journal`). A new tree is built beside
the old one, from the same files under the names that were synced, and takes its place. Then the bytes that
were not synced are taken back. The machine has another boot id afterwards, as far as the broker can tell.
"""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from tidelog.lab.faults.errors import FaultError
from tidelog.lab.faults.replay import SYNCED, Change, Remains, Replay, undone
from tidelog.runtime.boot import BOOT_FILE, IN_DOUBT, METADATA_BOOT_FILE
from tidelog.runtime.hooks.journal import REMOVED, read_entries

# Not written by the disk layer, and always synced.
_FOREIGN = (BOOT_FILE, METADATA_BOOT_FILE)
_OTHER_BOOT = "before the power failure"


def lose_power(data: Path, journal: Path) -> None:
    """The process must have ended. The journal begins again with what is left."""
    remains = Replay().remains(read_entries(journal))
    rolled_back = data.with_name(f"{data.name}.rolled-back")
    shutil.rmtree(rolled_back, ignore_errors=True)
    rolled_back.mkdir(parents=True)
    _rebuild(remains, _places(data, journal / REMOVED), rolled_back)
    for name in _FOREIGN:
        if (data / name).exists():
            os.link(data / name, rolled_back / name)
            _forget_boot(rolled_back / name)
    shutil.rmtree(data, ignore_errors=True)
    rolled_back.rename(data)
    forget_journal(journal)


def forget_journal(journal: Path) -> None:
    """What is on the disk now is safe. The next process begins the journal with it."""
    if journal.exists():
        shutil.rmtree(journal)
        journal.mkdir()


def _places(*directories: Path) -> dict[int, Path]:
    """Where each file is now, by inode."""
    return {
        (place := Path(parent) / name).stat().st_ino: place
        for directory in directories
        for parent, _, names in os.walk(directory)
        for name in names
    }


def _rebuild(remains: Remains, places: dict[int, Path], root: Path) -> None:
    for directory in sorted(remains.directories):
        (root / directory).mkdir(parents=True, exist_ok=True)
    for path, inode in remains.files.items():
        if path in _FOREIGN:
            continue
        if inode not in places:
            raise FaultError(f"The journal knows a file {path} that is nowhere: something else removed it.")
        os.link(places[inode], root / path)
        _take_back(root / path, remains.changes.get(inode, []))


def _take_back(path: Path, changes: Sequence[Change]) -> None:
    if not changes:
        return
    if all(each.kind == "write" and not each.replaced and each.state != SYNCED for each in changes):
        os.truncate(path, changes[0].size_before)  # it only grew
    else:
        path.write_bytes(undone(bytearray(path.read_bytes()), changes))


def _forget_boot(path: Path) -> None:
    if path.read_text().strip() != IN_DOUBT:
        path.write_text(_OTHER_BOOT)
