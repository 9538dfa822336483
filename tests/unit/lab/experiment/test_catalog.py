"""The experiments that come with Tidelog, and how one is found."""

from pathlib import Path

import pytest

from tidelog.lab.experiment import catalog
from tidelog.lab.experiment.checking import ExperimentError
from tidelog.lab.experiment.modes import CHOICES, with_modes
from tidelog.lab.faults.catalog import FAULTS
from tidelog.lab.run.schedule import expanded


@pytest.mark.parametrize("name", catalog.names())
def test_a_built_in_experiment_can_be_read(name: str) -> None:
    found = catalog.find(name)
    assert found.name == name
    assert found.title
    assert all(each.timeline for each in expanded(found))


@pytest.mark.parametrize("name", catalog.COMPARED)
def test_what_is_compared_can_be_run_for_every_mode(name: str) -> None:
    assert len(with_modes(catalog.find(name), list(CHOICES)).topics) == len(CHOICES)


def test_every_kind_of_fault_but_drains_and_settings_has_an_experiment() -> None:
    used = {
        step.fault for name in catalog.names() for e in expanded(catalog.find(name)) for step in e.timeline
    }
    assert FAULTS.keys() - used == {"stop", "bandwidth", "drain", "change-settings"}


def test_a_file_is_found_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('title = "x"\n')
    assert catalog.find(str(path)).name == "mine"


def test_a_misspelt_name_gets_a_suggestion() -> None:
    with pytest.raises(ExperimentError, match="did you mean leader-killed"):
        catalog.find("leader-kiled")


def test_a_file_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ExperimentError, match="cannot be read: No such file"):
        catalog.find(str(tmp_path / "none.toml"))


def test_a_file_that_is_no_text_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ExperimentError, match="not UTF-8"):
        catalog.find(str(path))
