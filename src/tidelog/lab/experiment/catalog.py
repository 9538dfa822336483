"""Finds an experiment: one of those that come with Tidelog, by its name, or a file."""

from difflib import get_close_matches
from importlib.resources import files
from pathlib import Path

from tidelog.lab.experiment.checking import ExperimentError
from tidelog.lab.experiment.model import Experiment
from tidelog.lab.experiment.reader import read_file, read_text

SUFFIX = ".toml"
COMPARED = (
    "leader-killed",
    "leader-frozen",
    "leader-cut-off",
    "power-failure",
    "power-failure-all",
    "slow-follower",
    "disk-full",
)
"""What ``tidelog lab compare`` runs unless told otherwise."""


def names() -> list[str]:
    """The built-in experiments, sorted."""
    return sorted(
        entry.name.removesuffix(SUFFIX)
        for entry in files("tidelog.lab.experiment.builtin").iterdir()
        if entry.name.endswith(SUFFIX)
    )


def find(wanted: str) -> Experiment:
    """By name, or the path of a file; a path has a slash or ends in .toml."""
    if "/" in wanted or wanted.endswith(SUFFIX):
        return read_file(Path(wanted))
    known = names()
    if wanted not in known:
        near = get_close_matches(wanted, known, 1)
        hint = f"did you mean {near[0]}?" if near else "`tidelog lab list` shows them."
        raise ExperimentError([f"There is no experiment {wanted!r}; {hint}"])
    return builtin(wanted)


def builtin(name: str) -> Experiment:
    text = (files("tidelog.lab.experiment.builtin") / (name + SUFFIX)).read_text(encoding="utf-8")
    return read_text(text, name, name + SUFFIX)
