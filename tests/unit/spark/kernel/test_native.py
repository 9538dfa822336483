"""The cache of compiled loops: nothing that somebody else could have written is loaded."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("llvmlite")

from tidelog.spark.kernel import native

CODE = b"code"


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    directory = tmp_path / "tidelog-0"
    assert native._keep(directory, "loops.o", CODE)
    assert native._kept(directory, "loops.o") == CODE
    return directory


def test_the_directory_is_for_its_owner_only(cache: Path) -> None:
    assert cache.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o770, 0o702])
def test_a_directory_that_others_can_write(cache: Path, mode: int) -> None:
    """Its name can be guessed, so anybody can make it first."""
    cache.chmod(mode)
    assert native._kept(cache, "loops.o") is None
    assert not native._keep(cache, "more.o", CODE)
    assert [path.name for path in cache.iterdir()] == ["loops.o"]


def test_a_file_that_others_can_write(cache: Path) -> None:
    (cache / "loops.o").chmod(0o666)
    assert native._kept(cache, "loops.o") is None


def test_files_and_directories_of_another_owner(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stranger = SimpleNamespace(st_uid=os.getuid() + 2)
    monkeypatch.setattr(os, "getuid", lambda: stranger.st_uid - 1)
    monkeypatch.setattr(native, "_HERE", SimpleNamespace(stat=lambda: stranger))
    assert native._kept(cache, "loops.o") is None
    assert not native._keep(cache, "more.o", CODE)


def test_links_are_not_followed(cache: Path, tmp_path: Path) -> None:
    """A link to a file of this user, such as an upload, would pass the check of the owner."""
    upload = tmp_path / "upload"
    upload.write_bytes(b"evil")
    (cache / "linked.o").symlink_to(upload)
    assert native._kept(cache, "linked.o") is None
    elsewhere = tmp_path / "elsewhere"
    elsewhere.symlink_to(cache)
    assert native._kept(elsewhere, "loops.o") is None


def test_what_is_no_file(cache: Path) -> None:
    os.mkfifo(cache / "pipe.o")
    assert native._kept(cache, "pipe.o") is None
