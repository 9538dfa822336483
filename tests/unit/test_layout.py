"""Unit tests mirror the modules: a newcomer finds the tests of a/b/c.py in tests/unit/a/b/."""

from pathlib import Path

import pytest

UNIT = Path(__file__).parent
ROOT = UNIT.parents[1]
SOURCE = ROOT / "src" / "tidelog"
# Directories of tests of what is no package of src/tidelog, with the directory that they mirror.
OUTSIDE = {"bench": "bench", "tools": "tools"}

DIRECTORIES = sorted(
    path.relative_to(UNIT).as_posix() for path in UNIT.rglob("*") if path.is_dir() and any(path.glob("*.py"))
)


@pytest.mark.parametrize("directory", DIRECTORIES)
def test_a_directory_of_tests_mirrors_a_package(directory: str) -> None:
    mirrored = ROOT / OUTSIDE[directory] if directory in OUTSIDE else SOURCE / directory
    assert any(mirrored.glob("*.py")), f"there is no package {mirrored.relative_to(ROOT)}"


@pytest.mark.parametrize("directory", DIRECTORIES)
def test_a_directory_of_tests_is_a_package(directory: str) -> None:
    """Otherwise two files of the same name could not both be collected."""
    assert (UNIT / directory / "__init__.py").is_file()


def test_what_is_outside_is_there() -> None:
    assert set(OUTSIDE) <= set(DIRECTORIES)
