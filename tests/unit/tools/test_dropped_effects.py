"""The lint rule that keeps effects from being dropped."""

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]


def load() -> ModuleType:
    path = ROOT / "tools" / "dropped_effects.py"
    spec = importlib.util.spec_from_file_location("tidelog_dropped_effects", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


RULE = load()


@pytest.fixture(scope="module")
def signatures() -> Any:
    """Of the packages that the examples name."""
    return RULE.Sources(RULE.SOURCES / "replication", RULE.SOURCES / "controller").signatures


@pytest.mark.parametrize(
    "source",
    [
        "self._election.retire()",
        "voter.election.resign(now_ms)",
        "election.leader_heard(1, 2, 3)",
        "driver.replica.follow(1, 2, (), 0)",
        "replica.propose_itself()",
        "self.anything.propose_itself()",
        "self.replica.proposals.propose((), 1, 2)",
        "class Replica:\n    def f(self):\n        self._advance()",
        "def f() -> Effects: ...\nf()",
        "_ = election.retire()",
        "is_over and election.retire()",
        "election.retire() if is_over else None",
        "1, election.retire()",
        "[each.propose_itself() for each in replicas]",
    ],
)
def test_dropped_effects_are_found(source: str, signatures: Any) -> None:
    assert len(RULE.findings_in(source, signatures)) == 1


@pytest.mark.parametrize(
    "source",
    [
        "driver.run(replica.propose_itself())",
        "effects = election.retire()",
        "return_value = [*replica.propose_itself()]",
        "found = [each.propose_itself() for each in replicas]",
        "done(is_over and election.retire())",
        "driver.follow(1, 2, (), 0)",
        "election.still_heard(1)",
        "self.controller = ControllerDriver.of(1)\nself.controller.tick(1)",
        "class Other:\n    def f(self):\n        self.tick()",
    ],
)
def test_other_calls_are_not(source: str, signatures: Any) -> None:
    assert not RULE.findings_in(source, signatures)


def test_a_finding_says_where(signatures: Any) -> None:
    (finding,) = RULE.findings_in("\nelection.retire()", signatures, "broker/x.py")
    assert str(finding) == "broker/x.py:2: the effects of election.retire() are dropped; run them"


@pytest.mark.slow
def test_the_sources_drop_none() -> None:
    assert [str(each) for each in RULE.Sources().findings()] == []
