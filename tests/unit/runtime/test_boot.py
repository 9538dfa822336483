"""Killed, or powered off? The data directory remembers which start of the machine used it last."""

from pathlib import Path

import pytest

from tidelog.runtime import boot


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    ids: list[str | None] = ["first"]
    monkeypatch.setattr(boot, "boot_id", lambda: ids[-1])
    return ids


def test_a_new_directory_has_nothing_to_forget(tmp_path: Path) -> None:
    assert not boot.machine_was_off(tmp_path, was_clean=False)


def test_a_killed_process_forgets_nothing(tmp_path: Path) -> None:
    boot.note_use(tmp_path)
    assert not boot.machine_was_off(tmp_path, was_clean=False)


def test_a_machine_that_was_off_may_have_forgotten(tmp_path: Path, machine: list[str | None]) -> None:
    boot.note_use(tmp_path)
    machine.append("second")
    assert boot.machine_was_off(tmp_path, was_clean=False)
    boot.note_use(tmp_path)
    assert not boot.machine_was_off(tmp_path, was_clean=False)


def test_a_process_that_dies_before_it_is_heard_says_it_again(
    tmp_path: Path, machine: list[str | None]
) -> None:
    boot.note_use(tmp_path)
    machine.append("second")
    assert boot.machine_was_off(tmp_path, was_clean=False)
    assert boot.machine_was_off(tmp_path, was_clean=False)


def test_a_clean_stop_before_it_leaves_nothing_open(tmp_path: Path, machine: list[str | None]) -> None:
    boot.note_use(tmp_path)
    machine.append("second")
    assert not boot.machine_was_off(tmp_path, was_clean=True)


def test_a_clean_stop_of_a_process_that_nobody_heard_brings_nothing_back(
    tmp_path: Path, machine: list[str | None]
) -> None:
    """No controller answered after the power failure, and an operator stopped the broker again."""
    boot.note_use(tmp_path)
    machine[0] = "second"
    assert boot.machine_was_off(tmp_path, was_clean=False)
    assert boot.machine_was_off(tmp_path, was_clean=True)
    boot.note_use(tmp_path)
    assert not boot.machine_was_off(tmp_path, was_clean=True)


def test_where_the_system_does_not_tell_others_are_trusted_first(
    tmp_path: Path, machine: list[str | None]
) -> None:
    boot.note_use(tmp_path)
    machine.append(None)
    assert boot.machine_was_off(tmp_path, was_clean=False)


def test_the_machine_stayed_on_only_if_it_says_so(tmp_path: Path, machine: list[str | None]) -> None:
    assert not boot.stayed_on(tmp_path)
    boot.note_use(tmp_path)
    assert boot.stayed_on(tmp_path)
    machine.append("second")
    assert not boot.stayed_on(tmp_path)
    assert boot.machine_was_off(tmp_path, was_clean=False)
    assert not boot.stayed_on(tmp_path)
    machine.append(None)
    boot.note_use(tmp_path)
    assert not boot.stayed_on(tmp_path)
