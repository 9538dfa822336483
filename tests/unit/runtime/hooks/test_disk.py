"""A disk with troubles fails as a real one does, and works again afterwards."""

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tidelog.runtime.hooks.control import Control
from tidelog.runtime.hooks.disk import HookedDisk, hooked_disk


@pytest.fixture
def control(tmp_path: Path) -> Iterator[Control]:
    with Control.create(tmp_path / "lab") as made:
        yield made


@pytest.fixture
def disk(tmp_path: Path, control: Control) -> HookedDisk:
    (tmp_path / "data").mkdir()
    return hooked_disk(tmp_path / "lab", control, str(tmp_path / "data"))


def test_a_full_disk_refuses_growth_only(tmp_path: Path, disk: HookedDisk, control: Control) -> None:
    file = disk.open(str(tmp_path / "data/a"), create=True)
    file.write_at(0, b"abc")
    control.change(is_full=1)
    file.write_at(0, b"x")
    file.truncate(2)
    growths: list[Callable[[], object]] = [
        lambda: file.write_at(1, b"yy"),
        lambda: file.reserve(9),
        lambda: file.truncate(5),
    ]
    for grow in growths:
        with pytest.raises(OSError) as refused:
            grow()
        assert refused.value.errno == errno.ENOSPC
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        disk.open(str(tmp_path / "data/b"), create=True)
    assert disk.usage(str(tmp_path))[1] == 0
    control.change(is_full=0)
    file.write_at(1, b"yy")
    assert file.read_at(0, 9) == b"xyy"


def test_a_failing_disk_fails_writes_and_syncs(tmp_path: Path, disk: HookedDisk, control: Control) -> None:
    file = disk.open(str(tmp_path / "data/a"), create=True)
    control.change(write_error=errno.EIO, sync_error=errno.EIO)
    operations: list[Callable[[], object]] = [
        lambda: file.write_at(0, b"x"),
        file.sync,
        lambda: disk.sync_directory(str(tmp_path / "data")),
    ]
    for operation in operations:
        with pytest.raises(OSError) as failed:
            operation()
        assert failed.value.errno == errno.EIO
    assert file.size() == 0
    control.change(write_error=0, sync_error=0)
    file.sync()


def test_without_a_journal_nothing_is_kept(tmp_path: Path, disk: HookedDisk) -> None:
    file = disk.open(str(tmp_path / "data/a"), create=True)
    file.write_at(0, b"x")
    disk.remove(str(tmp_path / "data/a"))
    assert disk.journal is None
    assert [path.name for path in (tmp_path / "lab").iterdir()] == ["control"]
