"""Small files that are read at once."""

import pytest

from tidelog.errors import StorageError
from tidelog.log import files
from tidelog.log.checkpoints import RECOVERY_POINTS_FILE
from tidelog.log.directory import DataDirectory
from tidelog.sim.disk import SimulatedDisk


def test_a_file_that_is_too_large_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The start ended with a MemoryError, also if it was a file of one partition."""
    monkeypatch.setattr(files, "LARGEST_BYTES", 1000)
    disk = SimulatedDisk()
    assert DataDirectory.open(disk, "data", node_id=1, now_ms=0).close()
    disk.open(f"data/{RECOVERY_POINTS_FILE}", create=True).write_at(0, bytes(1001))
    with pytest.raises(StorageError, match=r"cannot read data: .*1001 bytes are too many"):
        DataDirectory.open(disk, "data", node_id=1, now_ms=0)
    disk.open(f"data/{RECOVERY_POINTS_FILE}").truncate(1000)
    DataDirectory.open(disk, "data", node_id=1, now_ms=0)
