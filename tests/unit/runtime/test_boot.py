"""Killed, or powered off? The data directory remembers which start of the machine used it last."""

import os
from pathlib import Path

import pytest

from tidelog.runtime import boot


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    ids: list[str | None] = ["first"]
    monkeypatch.setattr(boot, "boot_id", lambda: ids[-1])
    return ids


def test_a_new_directory_has_nothing_to_forget(tmp_path: Path) -> None:
    assert not boot.machine_was_off(tmp_path, was_clean=False, is_new=True)


@pytest.mark.parametrize("was_clean", [False, True])
def test_who_removed_the_file_may_have_removed_a_doubt(tmp_path: Path, was_clean: bool) -> None:
    boot.note_use(tmp_path)
    (tmp_path / boot.BOOT_FILE).unlink()
    assert boot.machine_was_off(tmp_path, was_clean=was_clean, is_new=False)
    assert not boot.stayed_on(tmp_path)
    assert boot.machine_was_off(tmp_path, was_clean=True, is_new=False)  # Until the controllers have heard.
    boot.note_use(tmp_path)
    assert not boot.machine_was_off(tmp_path, was_clean=False, is_new=False)


def test_after_a_failed_sync_the_machine_counts_as_one_that_was_off(tmp_path: Path) -> None:
    boot.note_use(tmp_path)
    boot.doubt(tmp_path)
    boot.doubt(tmp_path)  # Each later write fails, too.
    assert not boot.stayed_on(tmp_path)
    assert boot.machine_was_off(tmp_path, was_clean=False, is_new=False)
    boot.note_use(tmp_path)
    assert not boot.machine_was_off(tmp_path, was_clean=False, is_new=False)


def test_a_file_of_garbage_is_not_believed(tmp_path: Path) -> None:
    (tmp_path / boot.BOOT_FILE).write_bytes(b"\xff\xfe\x80")
    assert not boot.stayed_on(tmp_path)
    assert boot.machine_was_off(tmp_path, was_clean=False, is_new=False)


def test_a_killed_process_forgets_nothing(tmp_path: Path) -> None:
    boot.note_use(tmp_path)
    assert not boot.machine_was_off(tmp_path, was_clean=False, is_new=False)


def test_a_machine_that_was_off_may_have_forgotten(tmp_path: Path, machine: list[str | None]) -> None:
    boot.note_use(tmp_path)
    machine.append("second")
    assert boot.machine_was_off(tmp_path, was_clean=False, is_new=False)
    boot.note_use(tmp_path)
    assert not boot.machine_was_off(tmp_path, was_clean=False, is_new=False)


def test_a_process_that_dies_before_it_is_heard_says_it_again(
    tmp_path: Path, machine: list[str | None]
) -> None:
    boot.note_use(tmp_path)
    machine.append("second")
    assert boot.machine_was_off(tmp_path, was_clean=False, is_new=False)
    assert boot.machine_was_off(tmp_path, was_clean=False, is_new=False)


def test_a_clean_stop_before_it_leaves_nothing_open(tmp_path: Path, machine: list[str | None]) -> None:
    boot.note_use(tmp_path)
    machine.append("second")
    assert not boot.machine_was_off(tmp_path, was_clean=True, is_new=False)


def test_a_clean_stop_of_a_process_that_nobody_heard_brings_nothing_back(
    tmp_path: Path, machine: list[str | None]
) -> None:
    """No controller answered after the power failure, and an operator stopped the broker again."""
    boot.note_use(tmp_path)
    machine[0] = "second"
    assert boot.machine_was_off(tmp_path, was_clean=False, is_new=False)
    assert boot.machine_was_off(tmp_path, was_clean=True, is_new=False)
    boot.note_use(tmp_path)
    assert not boot.machine_was_off(tmp_path, was_clean=True, is_new=False)


def test_where_the_system_does_not_tell_others_are_trusted_first(
    tmp_path: Path, machine: list[str | None]
) -> None:
    boot.note_use(tmp_path)
    machine.append(None)
    assert boot.machine_was_off(tmp_path, was_clean=False, is_new=False)


def test_the_machine_stayed_on_only_if_it_says_so(tmp_path: Path, machine: list[str | None]) -> None:
    assert not boot.stayed_on(tmp_path)
    boot.note_use(tmp_path)
    assert boot.stayed_on(tmp_path)
    machine.append("second")
    assert not boot.stayed_on(tmp_path)
    assert boot.machine_was_off(tmp_path, was_clean=False, is_new=False)
    assert not boot.stayed_on(tmp_path)
    machine.append(None)
    boot.note_use(tmp_path)
    assert not boot.stayed_on(tmp_path)


def test_the_metadata_log_has_a_mark_of_its_own(tmp_path: Path, machine: list[str | None]) -> None:
    """It is checked before the other logs; a node that is only a controller never has others."""
    assert not boot.stayed_on_since_metadata(tmp_path)
    boot.note_metadata(tmp_path)
    assert boot.stayed_on_since_metadata(tmp_path)
    assert not boot.stayed_on(tmp_path)
    machine.append("second")
    assert not boot.stayed_on_since_metadata(tmp_path)


def test_the_mark_of_the_metadata_log_ends_no_doubt(tmp_path: Path, machine: list[str | None]) -> None:
    boot.note_use(tmp_path)
    machine.append("second")
    assert boot.machine_was_off(tmp_path, was_clean=False, is_new=False)
    boot.note_metadata(tmp_path)
    assert boot.machine_was_off(tmp_path, was_clean=False, is_new=False)


def test_after_a_failed_sync_the_metadata_log_may_lack_records_too(tmp_path: Path) -> None:
    boot.note_metadata(tmp_path)
    boot.doubt(tmp_path)
    assert not boot.stayed_on_since_metadata(tmp_path)


@pytest.mark.parametrize("name", [boot.BOOT_FILE, boot.METADATA_BOOT_FILE])
@pytest.mark.parametrize("kind", ["pipe", "device", "directory", "large file"])
def test_what_is_no_small_file_is_not_believed_and_soon_read(tmp_path: Path, name: str, kind: str) -> None:
    path = tmp_path / name
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "directory":
        path.mkdir()
    else:
        with path.open("wb") as file:
            file.truncate(1 << 40)
    assert not boot.stayed_on(tmp_path)
    assert not boot.stayed_on_since_metadata(tmp_path)
    assert boot.machine_was_off(tmp_path, was_clean=False, is_new=False)
    boot.note_use(tmp_path)
    boot.note_metadata(tmp_path)
    assert boot.stayed_on(tmp_path) == (kind != "directory" or name != boot.BOOT_FILE)


@pytest.mark.parametrize("kind", ["pipe", "link"])
def test_a_temporary_file_of_another_kind_is_replaced(tmp_path: Path, kind: str) -> None:
    temporary, other = tmp_path / "boot.tmp", tmp_path / "other"
    other.write_text("kept")
    if kind == "pipe":
        os.mkfifo(temporary)
    else:
        temporary.symlink_to(other)
    boot.note_use(tmp_path)
    assert boot.stayed_on(tmp_path)
    assert other.read_text() == "kept"
