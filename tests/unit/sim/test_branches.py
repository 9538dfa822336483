"""Which branches were taken, on a module that is made for it."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tidelog.sim.branches import Branches

SOURCE = """
def judge(number, names):
    if number > 3:
        text = "many"
    elif (
        number
        == 3
    ):
        text = "three"
    else:
        text = "few"
    for name in names:
        if name == "stop":
            break
    match number:
        case 0:
            text = "none"
        case _:
            pass
    try:
        return text + 1 / number
    except ZeroDivisionError:
        return text
    except TypeError:
        return "words"


def never_called(number):
    while number:
        number -= 1


def careful():
    try:
        return 1
    except ValueError:
        return 2


class Box:
    def open(self, strict):
        if strict:
            raise ValueError
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    package = tmp_path / "branching_example"
    package.mkdir()
    (package / "__init__.py").write_text("", encoding="utf-8")
    (package / "judging.py").write_text(SOURCE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("branching_example.judging")
    for name in ("branching_example", "branching_example.judging"):
        sys.modules.pop(name, None)


def never(branches: Branches) -> set[str]:
    return {f"{each.condition}: {each.way}" for each in branches.never() if each.function != "never_called"}


def test_both_ways_of_every_statement_are_counted(module: ModuleType) -> None:
    branches = Branches(["branching_example"])
    with branches.watch():
        module.judge(4, [])
    assert never(branches) == {
        "if number > 3: false",
        "if number == 3: true",
        "if number == 3: false",
        "for name in names: entered",
        "if name == 'stop': true",
        "if name == 'stop': false",
        "case 0: true",
        "except ZeroDivisionError: entered",
        "except ValueError: entered",
        "if strict: true",
        "if strict: false",
    }
    with branches.watch():
        module.judge(3, ["go", "stop"])
        module.judge(0, ["go"])
        module.Box().open(False)
        with pytest.raises(ValueError):
            module.Box().open(True)
    assert never(branches) == {"except ValueError: entered"}


def test_a_function_that_nobody_called_is_one_line(module: ModuleType) -> None:
    branches = Branches(["branching_example"])
    with branches.watch():
        module.judge(0, [])
        module.careful()
    lines = branches.report()
    assert lines[0] == "judging.py"
    assert "  never_called: never reached" in lines
    assert "  careful: except ValueError: never entered" in lines
    assert "  judge: if number > 3: never true" in lines
    assert "  judge: if name == 'stop': never reached" in lines


def test_nothing_is_seen_when_nobody_watches(module: ModuleType) -> None:
    before = sys.gettrace()
    branches = Branches(["branching_example"])
    with branches.watch():
        pass
    module.judge(1, [])
    assert branches.taken == set()
    assert sys.gettrace() is before


def test_modules_are_named_by_the_beginning_of_their_name() -> None:
    found = {branch.module for branch in Branches(["tidelog.broker.quorum.v*"]).all}
    assert found == {"broker/quorum/voters.py"}
